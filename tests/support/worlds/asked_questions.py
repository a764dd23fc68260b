"""Samples with questions, and their rubrics, for the stages that read them."""

import asyncio
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from rubricworks.data.tables import build_table
from rubricworks.rubrics import Rubric
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import close_job, open_job
from rubricworks.runtime.launch import launch

COLOURS = ("red", "green", "blue", "yellow")


def prepare_questions(
    folder: Path,
    *,
    pictures: int = 8,
    held_out: int = 2,
    more: Sequence[dict[str, str]] = (),
    more_corpora: Sequence[dict[str, str]] = (),
    **config: object,
) -> str:
    """A finished table with an open and a multiple-choice question about each picture, the right option in turn.

    Args:
        more: further questions about each picture: question, answer and task.
        more_corpora: further sources, as in the stage's configuration.
    """
    rows = []
    for number in range(pictures):
        content = io.BytesIO()
        Image.new("RGB", (32, 32), (20 * number % 250, 80, number)).save(content, "PNG")
        letter = "ABCD"[number % 4]
        worked = f"it is at left . \\boxed{{ {letter} }}"
        row = {"image": content.getvalue(), "question": "how many ?", "answer": "2", "task": "count"}
        choice = row | {"question": "what colour is it ?", "answer": letter, "task": "colour"}
        rows += [row, choice | {"options": list(COLOURS), "references": [worked]}, *(row | other for other in more)]
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=_schema()), folder / "questions.parquet")
    settings = {"source": str(folder / "questions.parquet"), "held_out": held_out, "more": list(more_corpora), **config}
    return launch("prepare_questions", json.dumps(settings), str(folder / "prepared"), {})


def rubrics_table(run: Path, rubrics: dict[str, Rubric]) -> Path:
    """A finished table of these rubrics by sample."""
    job = open_job("rubrics", StageConfig(), run, {})
    row = {"writer": "w", "prompt_version": "1", "coverage": "full", "candidates": 1}
    row |= {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0}
    rows = [{**row, "sample_id": name, "rubric": rubric.model_dump_json()} for name, rubric in rubrics.items()]

    async def make_rows(items: list[dict]) -> list[dict]:
        return items

    asyncio.run(build_table(job.out, "rubrics", rows, make_rows, made_by=job.made_by, shard_size=100))
    close_job(job, 0.0)
    return job.out


def _schema() -> pa.Schema:
    text, texts = pa.string(), pa.list_(pa.string())
    columns = {
        "image": pa.binary(),
        "question": text,
        "answer": text,
        "task": text,
        "options": texts,
        "references": texts,
    }
    return pa.schema(list(columns.items()))
