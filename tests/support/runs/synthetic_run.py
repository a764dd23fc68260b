"""A run's folder as the stages leave it, written by the real table builders, without any model."""

import asyncio
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from PIL import Image
from wide_scores import as_responses, as_scores

from rubricworks.data.tables import build_table, read_rows
from rubricworks.evaluation.scoreboard import summarise_scores
from rubricworks.llm import Spending, Totals
from rubricworks.rubrics import Criterion, ErrorClass, Rubric, Scorecard, Verdict

RECIPE: dict[str, Any] = {
    "name": "tests",
    "description": "Two images, looked at by hand.",
    "data": {"source": "photos", "held_out": 2},
    "warm_up": {"student": "some/student"},
    "committee": {"teachers": [{"url": "http://user:secret@teachers:8000/v1", "model": "teacher-a"}]},
    "rubric": {"writer": {"url": "${WRITER}", "model": "writer-x"}},
}
RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="Names the cat", evaluation_rule="passes if a cat is named", weight=3),
        Criterion(criterion="Says that it is black", evaluation_rule="passes if black is said", weight=2),
    )
)


def write_table(folder: Path, table: str, rows: Iterable[dict[str, Any]]) -> None:
    async def as_they_are(chunk: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return chunk

    asyncio.run(build_table(folder, table, list(rows), as_they_are, made_by={"stage": "test"}, shard_size=64))


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_recipe(run: Path, recipe: dict[str, Any]) -> None:
    run.mkdir(parents=True, exist_ok=True)
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))


def write_ledger(run: Path, entries: Sequence[dict[str, Any]]) -> None:
    """Each entry's `calls` go into the ledger of calls, the rest into that of the stages."""
    with (run / "ledger.jsonl").open("w") as ledger:
        for entry in entries:
            spending = Spending(run / "spending.sqlite", entry["stage"])
            for call in entry.get("calls", ()):
                totals = Totals(**{name: value for name, value in call.items() if name not in ("purpose", "model")})
                totals.errors = {ErrorClass(kind): count for kind, count in totals.errors.items()}
                spending.open_account(call["purpose"], call["model"], totals)
            spending.close()
            ledger.write(json.dumps({name: value for name, value in entry.items() if name != "calls"}) + "\n")


def picture(colour: str, side: int = 32) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(buffer, "PNG")
    return buffer.getvalue()


def sample(sample_id: str, image: bytes, split: str = "held_out") -> dict[str, Any]:
    return {
        "sample_id": sample_id,
        "split": split,
        "image": image,
        "image_digest": sample_id,
        "prompt": "describe",
        "references": [],
        "source": f"photos/{sample_id}.png",
    }


def scorecard(sample_id: str, caption: str, credits: Sequence[float | None], rubric: Rubric = RUBRIC) -> str:
    verdicts = tuple(
        Verdict(
            criterion=criterion.criterion,
            credit=credit,
            error=ErrorClass.MALFORMED if credit is None else None,
            reasoning="said so" if credit else "not said",
        )
        for criterion, credit in zip(rubric.criteria, credits, strict=True)
    )
    return Scorecard(sample_id=sample_id, response=caption, judge="judge", verdicts=verdicts).model_dump_json()


def evaluation(sample_id: str, model: str, caption: str, reward: float | None, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "sample_id": sample_id,
        "model": model,
        "decoding": "greedy",
        "caption": caption,
        "tokens": len(caption.split()),
        "rubric_reward": reward,
        "scorecard": None,
        "oracle_precision": None,
        "oracle_recall": None,
        "oracle_f1": None,
        "win": None,
        "judgment": None,
    }
    return row | more


def write_scores(run: Path, stage: str, rows: list[dict[str, Any]], **summarised: Any) -> None:
    """The tables and the scoreboard of the stage `score`, from rows of one response each."""
    columns = {column for row in rows for column, value in row.items() if value is not None}
    write_table(run / "score", "scores", list(as_scores(stage, rows, columns)))
    write_table(run / "score" / "responses", "responses", list(as_responses(stage, rows)))
    board = summarise_scores(read_rows(run / "score"), **summarised)
    (run / "score" / "scores.json").write_text(board.model_dump_json())


def rubric_row(sample_id: str, rubric: Rubric = RUBRIC) -> dict[str, Any]:
    return {
        "sample_id": sample_id,
        "rubric": rubric.model_dump_json(),
        "writer": "writer-x",
        "prompt_version": "writer-1",
        "coverage": "full",
        "candidates": 5,
        "prompt_tokens": 10,
        "completion_tokens": 10,
        "cost": 0.0,
    }


def rollout(step: int, response: str, tokens: int, reward: float | None) -> dict[str, Any]:
    return {
        "step": step,
        "sample_id": "a",
        "response": response,
        "tokens": tokens,
        "reward": reward,
        "advantage": None if reward is None else 0.0,
    }


def write_small_run(run: Path, *, oracle: bool = True, caption: str = "a black cat") -> None:
    """Two held-out images a and b: greedy rewards 0.4 and 0 become 1 and 0.6, F1 0.5 and 0.3 become 0.9 and 0.7."""
    write_recipe(run, RECIPE)
    write_table(run / "prepare", "samples", [sample("a", picture("red")), sample("b", picture("blue"))])
    write_table(run / "synthesize_rubrics", "rubrics", [rubric_row("a"), rubric_row("b")])

    rows = [row if oracle else {**row, **dict.fromkeys(_TRUTH)} for row in SMALL_EVALUATION]
    rows[1] = {**rows[1], "caption": caption}
    write_scores(run, "evaluate", rows)


_TRUTH = ("oracle_precision", "oracle_recall", "oracle_f1")


def _truth(f1: float) -> dict[str, float]:
    return dict.fromkeys(_TRUTH, f1)


SMALL_EVALUATION = [
    evaluation("a", "base", "a black thing", 0.4, scorecard=scorecard("a", "", [0, 1]), **_truth(0.5)),
    evaluation(
        *("a", "policy", "a black cat", 1.0),
        scorecard=scorecard("a", "", [1, 1]),
        win=1.0,
        judgment="names it",
        **_truth(0.9),
    ),
    evaluation("b", "base", "a thing", 0.0, scorecard=scorecard("b", "", [0, 0]), **_truth(0.3)),
    evaluation("b", "policy", "a cat", 0.6, scorecard=scorecard("b", "", [1, 0]), win=0.5, **_truth(0.7)),
]
"""Wide rows of captions."""


def letter(stage: str, message: str) -> dict[str, object]:
    return {
        "sample_id": "a",
        "stage": stage,
        "purpose": "judge",
        "reason": "malformed",
        "message": message,
        "raw": "",
        "request": "",
        "attempts": 3,
    }
