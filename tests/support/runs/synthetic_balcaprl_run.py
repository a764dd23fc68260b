"""The folder of a BalCapRL run as its stages leave it, through the real values and tables, without any model."""

import math
import random
from pathlib import Path
from typing import Any

import synthetic_run as folder
import torch

from rubricworks.evaluation.scoreboard import Scoreboard, read_scoreboard
from rubricworks.grading import GradedCaption
from rubricworks.metrics import b_capscore
from rubricworks.rl import decoupled_advantages
from rubricworks.rubrics import CaptionAssertions, ErrorClass

RECIPE: dict[str, Any] = {
    "name": "balcaprl-tests",
    "pipeline": "balcaprl",
    "description": "Captions, looked at by hand.",
    "warm_up": {"student": "some/student"},
    "policy": {
        "reward": {"type": "caption_scores", "judge": {"url": "http://judges:8000/v1", "model": "assertion-judge-x"}},
        "algorithm": {"type": "grpo", "advantages": "c-gdpo"},
    },
    "tracking": {"uri": "http://user:secret@mlflow:5000"},
}
IMAGES = 30
GROUP = 6
WEIGHTS = (0.1, 0.3, 0.3)
"""The stage's own."""


def graded(sample_id: str, caption: str, *, verified: int = 2, covered: int = 1, rating: int = 7) -> GradedCaption:
    """Three claims of the caption and two of the reference, the first ones verified and covered."""
    assertions = CaptionAssertions.model_validate(
        {
            "synthetic_features": {
                "atomic_assertions": [
                    {"text": f"claim {number}: {caption}", "is_verified": number < verified} for number in range(3)
                ],
                "clarity_score": rating,
                "fluency_score": rating + 1,
                "coherency_score": rating - 1,
                "linguistic_scores_explanation": "reads well",
            },
            "gt_features": {
                "atomic_assertions": [
                    {"text": f"there is a cat {number}", "is_covered": number < covered} for number in range(2)
                ]
            },
        }
    )
    return GradedCaption(
        sample_id=sample_id,
        caption=caption,
        reference="A black cat sits on a red mat.",
        judge="assertion-judge-x",
        assertions=assertions,
    )


def unread(card: GradedCaption, message: str) -> GradedCaption:
    """The same caption where the judge failed."""
    return card.model_copy(update={"assertions": None, "error": ErrorClass.MALFORMED, "message": message})


def score_row(sample_id: str, model: str, **more: Any) -> dict[str, Any]:
    caption = f"the caption of {model}"
    card = graded(sample_id, caption)
    row: dict[str, Any] = {
        "sample_id": sample_id,
        "model": model,
        "caption": caption,
        "tokens": 20,
        "precision": 0.5,
        "recall": 0.5,
        "linguistic": 0.5,
        "dc_score": 0.4,
        "dc_f1": 0.4,
        "dc_precision": 0.5,
        "dc_recall": 0.3,
        "caption_qa": 0.5,
        "oracle_precision": 0.6,
        "oracle_recall": 0.4,
        "oracle_f1": 0.5,
        "win": None,
        "judgment": None,
        "graded": card.model_dump_json(),
        "facts": None,
        "answers": None,
    } | more
    parts = [row[name] for name in ("precision", "recall", "linguistic")]
    return {"b_capscore": None if None in parts else b_capscore(*parts), **row}


SCORERS = ("arena", "b_capscore", "dc_score", "caption_qa", "oracle")
TITLES = {
    **{"b_capscore": "b-CapScore", "b_capscore_recall": "b-CapScore, recall", "dc_score": "DCScore"},
    **{"caption_qa": "CaptionQA", "oracle_f1": "Oracle F1"},
}


def write_captions(run: Path, rows: list[dict[str, Any]]) -> Scoreboard:
    """The tables and the scoreboard, as the stage `score` makes them."""
    folder.write_scores(run, "evaluate_captions", rows, scorers=SCORERS, titles=TITLES)
    board = read_scoreboard(run / "score")
    assert board is not None
    return board


def scored(images: int = IMAGES, **gains: float) -> list[dict[str, Any]]:
    """Base and policy rows; by default recall and language rise, precision falls, CaptionQA stays."""
    gains = {"recall": 0.2, "linguistic": 0.3, "precision": -0.15, "dc_score": 0.1, "oracle_f1": 0.1} | gains
    noise = random.Random(7)
    rows = []
    for number in range(images):
        base = score_row(f"image-{number}", "base", tokens=18 + number % 5)
        changed = {name: min(1.0, base[name] + gain + noise.uniform(-0.08, 0.08)) for name, gain in gains.items()}
        qa = base["caption_qa"] + (0.25 if number % 2 else -0.25)
        win = 1.0 if number % 4 else 0.0
        policy = {"caption_qa": qa, "tokens": 30 + number % 7, "win": win, "judgment": "reads better", **changed}
        rows += [base, score_row(f"image-{number}", "policy", **policy)]
    return rows


def grade(step: int, sample_id: str, rewards: tuple[float, float, float] | None, **more: Any) -> dict[str, Any]:
    """A row of `caption_grades`; None: the judge failed."""
    card = graded(sample_id, "a cat")
    if rewards is None:
        card = unread(card, "bad JSON")
    row = {
        "step": step,
        "sample_id": sample_id,
        "response": f"a response to {sample_id}",
        "judge": card.judge,
        "graded": card.model_dump_json(),
        "gated": False,
        "tokens": 20 + step,
        "reference_tokens": 20,
        "advantage": 0.0,
    } | dict(zip(("precision", "recall", "linguistic"), rewards or (None,) * 3, strict=True))
    return row | more


def random_grades(steps: int = 12, samples: int = 3, group: int = GROUP, seed: int = 3) -> list[dict[str, Any]]:
    """Rewards that rise with the steps, gates that open with them, and the advantages of the default weights."""
    draw = random.Random(seed)
    rows = []
    for step in range(1, steps + 1):
        start = len(rows)
        for sample in range(samples):
            for number in range(group):
                rise = 0.3 * step / steps
                rewards = (
                    round(draw.uniform(0.2, 0.7) + rise, 3),
                    round(draw.uniform(0.0, 0.6) + rise, 3),
                    round(draw.uniform(0.3, 0.6) + rise, 3),
                )
                shut = draw.random() < 0.3 * (1 - step / steps)
                said = f"response {number} at step {step}: there is a small red circle , and a blue star on the left"
                rows.append(grade(step, f"train-{step}-{sample}", rewards, gated=shut, response=said))
        used = decoupled_advantages(paid_rewards(rows[start:]), WEIGHTS, group).tolist()
        rows[start:] = [row | {"advantage": advantage} for row, advantage in zip(rows[start:], used, strict=True)]
    return rows


def paid_rewards(rows: list[dict[str, Any]]) -> torch.Tensor:
    """Rewards of the policy, NaN where the judge failed."""
    paid = [
        [math.nan] * 3
        if row["precision"] is None
        else [row["precision"], row["recall"], 0.0 if row["gated"] else row["linguistic"]]
        for row in rows
    ]
    return torch.tensor(paid, dtype=torch.float64)


def write_grades(run: Path, rows: list[dict[str, Any]]) -> None:
    folder.write_table(run / "train_balcaprl" / "caption_grades", "caption_grades", rows)


def write_whole_run(run: Path) -> Scoreboard:
    """Every piece that the report reads."""
    folder.write_recipe(run, RECIPE)
    samples = [folder.sample(f"image-{number}", folder.picture("red")) for number in range(IMAGES)]
    folder.write_table(run / "prepare", "samples", samples)
    write_grades(run, random_grades())
    folder.write_ledger(run, [{"stage": "prepare", "seconds": 2.0}, {"stage": "balcaprl_report", "seconds": 1.0}])
    return write_captions(run, scored())
