"""Folders of RLR³ runs as the stages leave them, written by the stages' value types, with figures chosen by hand."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rubricworks.data.tables import build_table
from rubricworks.evaluation.audit.summary import AuditSummary, Cell, Share
from rubricworks.evaluation.scoreboard import BASE, ModelScores, Scoreboard
from rubricworks.methods.rlr3.accuracy import RIGHT
from rubricworks.methods.rlr3.genrm_report import MEASURES, GenrmReport
from rubricworks.metrics import Interval
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.rubrics import Criterion, ErrorClass, Rubric, Scorecard, Verdict

PAIRS = "policy.algorithm.rollouts.group_size=2"
"""Groups of two, whose means one can tell at sight."""
RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="The final answer gives the number.", reference="expr_verify(target='3')", weight=1),
        Criterion(criterion="The response describes the object.", reference="red", weight=3, essential=False),
    )
)
Pair = tuple[tuple[float | None, float | None], tuple[float | None, float | None]]

MACROS = {"base": 0.3, "rlvr": {20: 0.40, 40: 0.50, 60: 0.46}, "rlr3": {20: 0.42, 40: 0.50, 60: 0.58}}
GENRM = {
    "base": dict.fromkeys(MEASURES, 0.4) | {"schema_accuracy": 0.9},
    "sft": dict.fromkeys(MEASURES, 0.995) | {"criterion_level": 0.94, "credit": 0.9},
    "rlvr": dict.fromkeys(MEASURES, 0.995) | {"criterion_level": 0.95, "credit": 0.93},
}
_MODES = ("regular", "no_final_answer", "irrelevant", "wrong_but_plausible", "adversarial")
RATES = {
    "text": dict(zip(_MODES, (0.95, 0.1, 0.0, 0.1, 0.2), strict=True)),
    "image": dict(zip(_MODES, (0.94, 0.3, 0.0, 0.2, 0.1), strict=True)),
    "targets": dict(zip(_MODES, (0.96, 0.2, 0.1, 0.1, 0.4), strict=True)),
    "unverified": dict(zip(_MODES, (0.9, 0.1, 0.1, 0.3, 0.3), strict=True)),
}


def write_run(
    folder: Path,
    *,
    seed: int = 1,
    settings: Sequence[str] = (PAIRS,),
    macros: Mapping[str, Any] = MACROS,
    genrm: Mapping[str, Mapping[str, float | None]] = GENRM,
    rates: Mapping[str, Mapping[str, float | None]] = RATES,
    pairs: Sequence[Pair] = (),
) -> Path:
    """A finished run.

    Args:
        macros: arm → step → macro average; of the base model one number.
        pairs: groups of two responses, each with a credit for both criteria of `RUBRIC`, one group for each step.
    """
    recipe = load_recipe(recipe_path("rlr3-laptop"), [*settings, f"seed={seed}"])
    saved = yaml.safe_dump(recipe.model_dump(mode="json", exclude_defaults=True), allow_unicode=True)
    write(folder / "recipe.yaml", saved)
    reports = {name: _report(figures).model_dump(mode="json") for name, figures in genrm.items()}
    write(folder / "train_genrm" / "genrm.json", json.dumps(reports))
    write(folder / "audit" / "audit.json", _audit(rates).model_dump_json())
    write(folder / "score" / "scores.json", _board(macros).model_dump_json())
    rubrics = [{"sample_id": "s", "rubric": RUBRIC.model_dump_json(), "writer": "w", "prompt_version": "1"}]
    calls = {"coverage": "full", "candidates": 1, "prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0}
    _table(folder / "write_checklists", "rubrics", [rubrics[0] | calls])
    cards = [_scorecard(step, credits) for step, pair in enumerate(pairs, 1) for credits in pair]
    _table(folder / "train_rlr3" / "scorecards", "scorecards", cards)
    for stage in ("write_checklists", "train_genrm", "audit", "train_rlvr", "train_rlr3", "score"):
        write(folder / stage / "done.json", "{}")
    return folder


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def _report(figures: Mapping[str, float | None]) -> GenrmReport:
    results = {
        name: None if value is None else {"value": value, "low": 0, "high": 1} for name, value in figures.items()
    }
    return GenrmReport.model_validate({"outputs": 10, "criteria": 30, **results})


def _audit(rates: Mapping[str, Mapping[str, float | None]]) -> AuditSummary:
    return AuditSummary(
        judge="weak-scorer",
        settings={name: {mode: _cell(rate) for mode, rate in modes.items()} for name, modes in rates.items()},
        responses={},
        attacks={},
    )


def _cell(rate: float | None) -> Cell:
    share = None if rate is None else Share(value=rate, low=0, high=1, count=rate * 10, criteria=10, inputs=10)
    return Cell(average=share, arguments=None, credit=None, unjudged=0 if share else 10)


def _board(macros: Mapping[str, Any]) -> Scoreboard:
    def scores(model: str, step: int | None, value: float) -> ModelScores:
        means = {RIGHT: Interval(value=value, low=0, high=1, samples=50)}
        tasks = {RIGHT: dict.fromkeys(("count", "colour"), means[RIGHT])}
        return ModelScores(model=model, step=step, decoding="greedy", means=means, tasks=tasks)

    arms = {arm: macros[arm] for arm in macros if arm != BASE}
    milestones = [scores(arm, *point) for arm, steps in arms.items() for point in sorted(steps.items())]
    return Scoreboard(
        base=BASE,
        models=(scores(BASE, None, macros[BASE]), *milestones),
        headlines=(RIGHT,),
        best={arm: max(steps, key=lambda step: (steps[step], -step)) for arm, steps in arms.items()},
    )


def _scorecard(step: int, credits: tuple[float | None, float | None]) -> dict[str, Any]:
    verdicts = tuple(
        Verdict(criterion=criterion.criterion, credit=credit, error=ErrorClass.MALFORMED if credit is None else None)
        for criterion, credit in zip(RUBRIC.criteria, credits, strict=True)
    )
    card = Scorecard(sample_id="s", response="r", judge="scorer", verdicts=verdicts)
    row = {"step": step, "sample_id": "s", "response": "r", "judge": "scorer", "reward": None}
    return row | {"scorecard": card.model_dump_json()}


def _table(folder: Path, table: str, rows: list[dict[str, Any]]) -> None:
    async def as_they_are(chunk: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return chunk

    asyncio.run(build_table(folder, table, rows, as_they_are, made_by={"stage": "test"}, shard_size=64))
