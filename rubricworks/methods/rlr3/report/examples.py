"""Held-out questions with the answers of the base model and of both arms' best milestones, side by side.

The questions are drawn by a hash of their ids and the seed, not selected by their results.
"""

from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.evaluation.scoreboard import BASE, Scoreboard
from rubricworks.methods.rlr3.accuracy import ARMS, RIGHT
from rubricworks.methods.rlr3.report.run_results import NAMES
from rubricworks.reports.samples import data_uri, draw_samples, sample_rows
from rubricworks.reports.scores import ScoredResponse, scored_ids, scored_responses
from rubricworks.verifiers.boxed import last_boxed


class Answer(NamedTuple):
    """Answer of one model."""

    kind: str
    name: str
    response: str
    tokens: int | None
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


def read_questions(run: Path, board: Scoreboard | None, count: int, *, seed: int) -> list[Question]:
    """Read up to `count` questions that the base model answered, in the order of the draw."""
    if board is None:
        return []
    steps = {arm: board.best[arm] for arm in ARMS if arm in board.best}
    ids = draw_samples(scored_ids(run, BASE), count, seed)
    responses = scored_responses(run, ids, decoding=board.decoding, steps=steps)
    samples = _samples(run, set(ids))
    return [_question(sample_id, samples.get(sample_id, {}), responses, steps) for sample_id in ids]


def _samples(run: Path, sample_ids: set[str]) -> dict[str, dict[str, Any]]:
    """Read samples after the conversion of multiple-choice questions, or before it if that has not run."""
    columns = ["image", "question", "prompt", "answer", "task"]
    samples: dict[str, dict[str, Any]] = {}
    for stage in ("open_questions", "prepare_questions"):
        if missing := sample_ids - samples.keys():
            samples |= sample_rows(run / stage, missing, columns)
    return samples


def _question(
    sample_id: str,
    sample: dict[str, Any],
    responses: dict[tuple[str, str], ScoredResponse],
    steps: dict[str, int],
) -> Question:
    answers = []
    for model in (BASE, *steps):
        if one := responses.get((sample_id, model)):
            right = one.values.get(RIGHT)
            answers.append(
                Answer(
                    kind=model,
                    name=NAMES[model] + (f", step {steps[model]}" if model in steps else ""),
                    response=one.text,
                    tokens=one.tokens,
                    final=last_boxed(one.text),
                    right=None if right is None else right > 0,
                )
            )
    return Question(
        sample_id=sample_id,
        image=data_uri(sample["image"]) if sample.get("image") else None,
        task=sample.get("task") or "",
        question=(sample.get("question") or sample.get("prompt") or ""),
        reference=sample.get("answer") or "",
        answers=answers,
    )
