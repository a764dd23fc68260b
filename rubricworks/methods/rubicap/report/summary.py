"""Summary of a run (`summary.json`), for programs and for the last lines that `rubricworks run` prints."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.summary import EvaluationSummary
from rubricworks.metrics import Interval
from rubricworks.reports.costs import StageCost, seconds_by_stage
from rubricworks.reports.formats import number
from rubricworks.reports.headline import gate_sentence
from rubricworks.reports.run_folder import Alarm, DeadLetters, Promotion


class Pair(BaseModel):
    """A score of both models; None where it was not measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: float | None = None
    policy: float | None = None


class DecodingSummary(BaseModel):
    """Held-out results with one decoding."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    win_rate: Interval | None = None
    """Policy against base; a tie counts one half."""
    oracle_f1: Pair = Pair()
    rubric_reward: Pair = Pair()
    tokens: Pair = Pair()


class RunSummary(DecodingSummary):
    """Results of a run. The scores at the top level are greedy."""

    run: str
    simulated: bool
    """True if the scene world stood in for images, teachers and judges."""
    sampled: DecodingSummary
    seconds: dict[str, float]
    """`total`, and the time of each stage; concurrent stages both count in full."""
    cost: float
    """Dollars."""
    promoted: bool
    gate: str
    """Result of the gate as a sentence."""
    alarm: str | None
    dead_letters: int


def run_summary(
    run: Path,
    *,
    recipe: dict[str, Any],
    evaluation: EvaluationSummary | None,
    promotion: Promotion | None,
    alarm: Alarm | None,
    costs: list[StageCost],
    dead_letters: list[DeadLetters],
) -> RunSummary:
    greedy = decoding_summary(evaluation, "greedy")
    return RunSummary(
        **dict(greedy),
        run=run.name,
        simulated=bool(recipe.get("world")),
        sampled=decoding_summary(evaluation, "sampled"),
        seconds=seconds_by_stage(costs),
        cost=sum(cost.cost for cost in costs),
        promoted=promotion is not None and promotion.promoted,
        gate=gate_sentence(promotion),
        alarm=str(alarm) if alarm else None,
        dead_letters=sum(letters.count for letters in dead_letters),
    )


def decoding_summary(evaluation: EvaluationSummary | None, decoding: str) -> DecodingSummary:
    """Summarise one decoding; empty if it was not evaluated."""
    if evaluation is None or decoding not in evaluation.models:
        return DecodingSummary()
    models = evaluation.models[decoding]

    def pair(name: str) -> Pair:
        scores: dict[str, Interval | None] = {model: getattr(models[model], name) for model in models}
        return Pair(**{model: score and score.value for model, score in scores.items()})

    return DecodingSummary(
        win_rate=evaluation.win_rate.get(decoding),
        oracle_f1=pair("oracle_f1"),
        rubric_reward=pair("rubric_reward"),
        tokens=pair("tokens"),
    )


def success_lines(run: Path) -> list[str]:
    """Lines that `rubricworks run` prints at the end; scores that were not measured have none."""
    summary = RunSummary.model_validate_json((run / "summary.json").read_bytes())
    lines = []
    if win := summary.win_rate:
        lines.append(f"win rate against the base: {win.value:.2f} [{number(win.low)}, {number(win.high)}]")
    for name in ("oracle_f1", "rubric_reward"):
        pair: Pair = getattr(summary, name)
        if pair.base is not None and pair.policy is not None:
            lines.append(f"{name.replace('_', ' ')}: {pair.base:.2f} → {pair.policy:.2f}")
    lines.append("promoted to champion" if summary.promoted else f"not promoted: {summary.gate}")
    if summary.alarm:
        lines.append(f"ALARM: {summary.alarm}")
    return lines
