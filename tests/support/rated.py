"""Scorecards and labels, written as runs, `rubricworks grade` and people write them."""

import asyncio
import csv

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.tables import build_table
from rubricworks.rubrics import ErrorClass, Scorecard, Verdict

Credits = dict[str, float | ErrorClass]


def verdict(title: str, credit: float | ErrorClass) -> Verdict:
    return Verdict(criterion=title, **{"error" if isinstance(credit, ErrorClass) else "credit": credit})


def card(sample_id: str, credits: Credits, judge: str = "strict", response: str = "a red circle") -> Scorecard:
    verdicts = tuple(verdict(title, credit) for title, credit in credits.items())
    return Scorecard(sample_id=sample_id, response=response, judge=judge, verdicts=verdicts)


def write_parquet(path, cards):
    rows = [
        {
            "sample_id": card.sample_id,
            "caption": card.response.text,
            "reward": None,
            "scorecard": card.model_dump_json(),
        }
        for card in cards
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def write_table(folder, cards):
    async def make_rows(shard):
        return [
            {"step": 1, "sample_id": item.sample_id, "response": item.response.text, "judge": item.judge,
             "scorecard": item.model_dump_json(), "reward": None}
            for item in shard
        ]  # fmt: skip

    made_by = {"stage": "train_policy", "config": "c", "inputs": {}, "version": "0"}
    asyncio.run(build_table(folder, "scorecards", cards, make_rows, made_by=made_by, shard_size=7))
    return folder


def write_labels(path, rows, columns=("sample_id", "criterion", "label"), **options):
    with path.open("w", newline="", encoding=options.pop("encoding", "utf-8")) as file:
        csv.writer(file, **options).writerows([columns, *rows])
    return path
