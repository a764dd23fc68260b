"""Tables of the retired stages `evaluate`, `evaluate_captions` and `evaluate_answers`, as rows of responses and scores.

Their ids are not used again, but folders of older runs are still shown in reports.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.data.tables import read_rows

Row = dict[str, Any]
Part = tuple[str, str, str]
"""Column of the old table, scorer, part."""


class _RetiredStage(NamedTuple):
    parts: tuple[Part, ...]
    evidence: Mapping[str, str]
    """Scorer → column with its evidence."""
    text: str
    """Column of the response."""


RETIRED_STAGES = {
    "evaluate": _RetiredStage(
        (
            ("rubric_reward", "rubric", "reward"),
            ("win", "arena", "win"),
            *((f"oracle_{part}", "oracle", part) for part in ("f1", "precision", "recall")),
        ),
        {"rubric": "scorecard", "arena": "judgment"},
        "caption",
    ),
    "evaluate_captions": _RetiredStage(
        (
            ("win", "arena", "win"),
            ("b_capscore", "b_capscore", "score"),
            *((part, "b_capscore", part) for part in ("precision", "recall", "linguistic")),
            ("dc_score", "dc_score", "score"),
            *((f"dc_{part}", "dc_score", part) for part in ("f1", "precision", "recall")),
            ("caption_qa", "caption_qa", "score"),
            *((f"oracle_{part}", "oracle", part) for part in ("f1", "precision", "recall")),
            ("answered", "visual_questions", "right"),
        ),
        {"b_capscore": "graded", "dc_score": "facts", "caption_qa": "answers", "arena": "judgment"},
        "caption",
    ),
    "evaluate_answers": _RetiredStage((("right", "answers", "right"),), {}, "response"),
}


def retired_folder(run: Path) -> Path | None:
    """Folder of the retired stage that an older run finished, or None."""
    return next((run / stage for stage in RETIRED_STAGES if (run / stage / "manifest.json").is_file()), None)


def retired_tasks(folder: Path) -> dict[str, str]:
    """Sample → task, for a table of answers."""
    if folder.name != "evaluate_answers":
        return {}
    return {row["sample_id"]: row["task"] for row in read_rows(folder, columns=["sample_id", "task"])}


def retired_responses(folder: Path) -> Iterator[Row]:
    """Rows of `responses` from the table of a retired stage."""
    return as_responses(folder.name, read_rows(folder))


def retired_scores(folder: Path) -> Iterator[Row]:
    """Rows of `scores` from the table of a retired stage. A scorer without any value was not configured."""
    parts = RETIRED_STAGES[folder.name].parts
    columns = [column for column, _, _ in parts]
    measured = {column for row in read_rows(folder, columns=columns) for column in columns if row[column] is not None}
    return as_scores(folder.name, read_rows(folder), measured)


def as_responses(stage: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows of `responses` from rows of a retired stage."""
    for row in rows:
        text = row[RETIRED_STAGES[stage].text]
        yield {**_model(row), "response": text, "response_type": None, "tokens": row["tokens"]}


def as_scores(stage: str, rows: Iterable[Row], measured: Collection[str]) -> Iterator[Row]:
    """Rows of `scores` from rows of a retired stage.

    Args:
        measured: columns with values; the others are left out.
    """
    retired = RETIRED_STAGES[stage]
    for row in rows:
        shared = {**_model(row), "version": "0", "judge": ""}
        first: set[str] = set()
        for column, scorer, part in retired.parts:
            against = "base" if scorer == "arena" else None
            if column not in measured or (against and row.get("model") == "base"):
                continue
            value = row[column]
            evidence = None if scorer in first else _evidence(row, scorer, retired.evidence.get(scorer))
            first.add(scorer)
            yield {
                **shared,
                "against": against,
                "scorer": scorer,
                "part": part,
                "value": None if value is None else float(value),
                "reason": "not judged" if value is None else None,
                "evidence": evidence,
            }
        length = {"scorer": "length", "part": "tokens", "value": float(row["tokens"])}
        yield {**shared, "against": None, "reason": None, "evidence": None, **length}


def _model(row: Row) -> Row:
    step = row.get("step") or None
    return {
        "sample_id": row["sample_id"],
        "model": row.get("arm") or row["model"],
        "revision": "",
        "step": step,
        "decoding": row.get("decoding") or "greedy",
    }


def _evidence(row: Row, scorer: str, column: str | None) -> str | None:
    text = row[column] if column else None
    return json.dumps({"reasons": [text]}) if text and scorer == "arena" else text
