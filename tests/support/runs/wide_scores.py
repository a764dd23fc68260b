"""Rows of `responses` and `scores` from wide rows, one per response with a column per score."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

Row = dict[str, Any]
Part = tuple[str, str, str]
"""Column of the wide row, scorer, part."""


class _WideTable(NamedTuple):
    parts: tuple[Part, ...]
    evidence: Mapping[str, str]
    """Scorer → column with its evidence."""
    text: str
    """Column of the response."""


WIDE_TABLES = {
    "evaluate": _WideTable(
        (
            ("rubric_reward", "rubric", "reward"),
            ("win", "arena", "win"),
            *((f"oracle_{part}", "oracle", part) for part in ("f1", "precision", "recall")),
        ),
        {"rubric": "scorecard", "arena": "judgment"},
        "caption",
    ),
    "evaluate_captions": _WideTable(
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
    "evaluate_answers": _WideTable((("right", "answers", "right"),), {}, "response"),
}


def as_responses(stage: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows of `responses` from wide rows."""
    for row in rows:
        text = row[WIDE_TABLES[stage].text]
        yield {**_model(row), "response": text, "response_type": None, "tokens": row["tokens"]}


def as_scores(stage: str, rows: Iterable[Row], measured: Collection[str]) -> Iterator[Row]:
    """Rows of `scores` from wide rows.

    Args:
        measured: columns with values; the others are left out.
    """
    wide = WIDE_TABLES[stage]
    for row in rows:
        shared = {**_model(row), "version": "0", "judge": ""}
        first: set[str] = set()
        for column, scorer, part in wide.parts:
            against = "base" if scorer == "arena" else None
            if column not in measured or (against and row.get("model") == "base"):
                continue
            value = row[column]
            evidence = None if scorer in first else _evidence(row, scorer, wide.evidence.get(scorer))
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
