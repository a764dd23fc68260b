"""Held-out questions with the answers of the base model and of both arms' best milestones, side by side.

The questions are drawn by a hash of their ids and the seed, not selected by their results.
"""

from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.evaluation.answer_summary import BASE, AnswerSummary
from rubricworks.methods.rlr3.report.run_results import ARMS, NAMES
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.samples import data_uri, draw_samples, sample_rows
from rubricworks.verifiers.boxed import last_boxed


class Answer(NamedTuple):
    """Answer of one model."""

    kind: str
    name: str
    response: str
    tokens: int
    final: str | None
    """Content of the last box; None without one."""
    right: bool | None
    """None if it could not be judged."""


class Question(NamedTuple):
    """Held-out question with all answers."""

    sample_id: str
    image: str | None
    """Data URI."""
    task: str
    question: str
    reference: str
    answers: list[Answer]


def read_questions(run: Path, answers: AnswerSummary | None, count: int, *, seed: int) -> list[Question]:
    """Read up to `count` questions that the base model answered, in the order of the draw."""
    if answers is None:
        return []
    models = {(BASE, 0): BASE} | {(arm, answers.best[arm]): arm for arm in ARMS if arm in answers.best}
    table = run / "evaluate_answers"
    keys = table_rows(table, ["sample_id", "arm", "step"])
    ids = draw_samples((row["sample_id"] for row in keys if (row["arm"], row["step"]) == (BASE, 0)), count, seed)
    responses = {
        (row["sample_id"], row["arm"]): row
        for row in table_rows(table)
        if row["sample_id"] in ids and (row["arm"], row["step"]) in models
    }
    samples = _samples(run, set(ids))
    return [_question(sample_id, samples.get(sample_id, {}), responses, list(models.values())) for sample_id in ids]


def _samples(run: Path, sample_ids: set[str]) -> dict[str, dict[str, Any]]:
    """Read samples after the conversion of multiple-choice questions, or before it if that has not run."""
    columns = ["image", "question", "prompt", "answer"]
    samples: dict[str, dict[str, Any]] = {}
    for stage in ("open_questions", "prepare_questions"):
        if missing := sample_ids - samples.keys():
            samples |= sample_rows(run / stage, missing, columns)
    return samples


def _question(
    sample_id: str, sample: dict[str, Any], responses: dict[tuple[str, str], dict[str, Any]], models: list[str]
) -> Question:
    rows = [row for model in models if (row := responses.get((sample_id, model)))]
    return Question(
        sample_id=sample_id,
        image=data_uri(sample["image"]) if sample else None,
        task=rows[0]["task"] if rows else "",
        question=(sample.get("question") or sample.get("prompt") or ""),
        reference=sample.get("answer") or "",
        answers=[
            Answer(
                kind=row["arm"],
                name=NAMES[row["arm"]] + (f", step {row['step']}" if row["step"] else ""),
                response=row["response"],
                tokens=row["tokens"],
                final=last_boxed(row["response"]),
                right=row["right"],
            )
            for row in rows
        ],
    )
