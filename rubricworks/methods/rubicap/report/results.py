"""Held-out results laid out for the page: whisker rows with their intervals, and pass rates by severity."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rubricworks.evaluation.summary import EvaluationSummary, MeanScore, ModelScores
from rubricworks.reports.comparison import SEVERITY, Comparison
from rubricworks.reports.run_folder import read_value

METRICS = {
    "rubric_reward": "Rubric reward",
    "oracle_f1": "Oracle F1",
    "oracle_precision": "Oracle precision",
    "oracle_recall": "Oracle recall",
}


class PassRate(NamedTuple):
    """Share of criteria met, of one severity."""

    weight: str
    severity: str
    base: float | None
    policy: float | None


class DecodingResults(NamedTuple):
    decoding: str
    win_rate: MeanScore | None
    comparisons: list[Comparison]
    length: Comparison
    pass_rates: list[PassRate]


def decoding_results(evaluation: EvaluationSummary | None) -> list[DecodingResults]:
    """One entry per decoding; metrics that neither model has are left out."""
    results = []
    for decoding, models in (evaluation.models if evaluation else {}).items():
        comparisons = [_compared(models, name, label) for name, label in METRICS.items()]
        results.append(
            DecodingResults(
                decoding=decoding,
                win_rate=evaluation.win_rate.get(decoding) if evaluation else None,
                comparisons=[one for one in comparisons if one.base or one.policy],
                length=_compared(models, "tokens", "Tokens per caption"),
                pass_rates=_pass_rates(models),
            )
        )
    return results


def _compared(models: Mapping[str, ModelScores], name: str, label: str) -> Comparison:
    figures = {model: getattr(of, name) for model, of in models.items()}
    return Comparison(label, figures.get("base"), figures.get("policy"))


def _pass_rates(models: Mapping[str, ModelScores]) -> list[PassRate]:
    passed = {model: of.criteria_passed for model, of in models.items()}
    base, policy = passed.get("base", {}), passed.get("policy", {})
    return [
        PassRate(weight, SEVERITY.get(weight, "other"), base.get(weight), policy.get(weight))
        for weight in sorted({*base, *policy}, key=float, reverse=True)
    ]


def read_evaluation(run: Path) -> EvaluationSummary | None:
    return read_value(run / "evaluate" / "summary.json", EvaluationSummary)
