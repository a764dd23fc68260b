"""Held-out results for the page: headline, scores with intervals, pass rates by severity and of shared criteria.

The headline is what people read first, so it claims no more than the intervals support.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rubricworks.evaluation.summary import EvaluationSummary, ModelScores
from rubricworks.metrics import Interval
from rubricworks.reports.comparison import SEVERITY, Comparison
from rubricworks.reports.formats import percent
from rubricworks.reports.headline import Headline, is_small
from rubricworks.reports.run_folder import read_value, table_rows
from rubricworks.rubrics import Scorecard

METRICS = {
    "rubric_reward": "Rubric reward",
    "oracle_f1": "Oracle F1",
    "oracle_precision": "Oracle precision",
    "oracle_recall": "Oracle recall",
}
MIN_SHARE = 0.1
"""Smallest share of the graded samples; a rarer criterion says more about its images than about the models."""
_MAX_TITLES = 5_000


class PassRate(NamedTuple):
    """Share of met criteria of one severity."""

    weight: str
    severity: str
    base: float | None
    policy: float | None


class DecodingResults(NamedTuple):
    decoding: str
    win_rate: Interval | None
    comparisons: list[Comparison]
    length: Comparison
    pass_rates: list[PassRate]


class SharedCriterion(NamedTuple):
    """Criterion that many rubrics share, such as a standing guard, with both models' pass rates."""

    title: str
    samples: int
    base: float
    policy: float


def decoding_results(evaluation: EvaluationSummary | None) -> list[DecodingResults]:
    """Results per decoding, without metrics that neither model has."""
    results = []
    for decoding, models in (evaluation.models if evaluation else {}).items():
        comparisons = [_comparison(models, name, label) for name, label in METRICS.items()]
        results.append(
            DecodingResults(
                decoding=decoding,
                win_rate=evaluation.win_rate.get(decoding) if evaluation else None,
                comparisons=[one for one in comparisons if one.base or one.policy],
                length=_comparison(models, "tokens", "Tokens per caption"),
                pass_rates=_pass_rates(models),
            )
        )
    return results


def _comparison(models: Mapping[str, ModelScores], name: str, label: str) -> Comparison:
    means = {model: getattr(scores, name) for model, scores in models.items()}
    return Comparison(label, means.get("base"), means.get("policy"))


def _pass_rates(models: Mapping[str, ModelScores]) -> list[PassRate]:
    rates = {model: scores.criteria_passed for model, scores in models.items()}
    base, policy = rates.get("base", {}), rates.get("policy", {})
    return [
        PassRate(weight, SEVERITY.get(weight, "other"), base.get(weight), policy.get(weight))
        for weight in sorted({*base, *policy}, key=float, reverse=True)
    ]


def read_evaluation(run: Path) -> EvaluationSummary | None:
    return read_value(run / "evaluate" / "summary.json", EvaluationSummary)


def shared_criteria(run: Path, *, decoding: str, count: int = 6) -> list[SharedCriterion]:
    """Most frequent criteria of the held-out rubrics, with both models' pass rates."""
    tallies: dict[str, dict[str, list[float]]] = {}
    graded = 0
    for row in table_rows(run / "evaluate", ["model", "decoding", "scorecard"]):
        if row["decoding"] != decoding or not row["scorecard"]:
            continue
        graded += row["model"] == "policy"
        for verdict in Scorecard.model_validate_json(row["scorecard"]).verdicts:
            if verdict.criterion not in tallies and len(tallies) >= _MAX_TITLES:
                continue
            tally = tallies.setdefault(verdict.criterion, {}).setdefault(row["model"], [0.0, 0])
            if verdict.credit is not None:
                tally[0] += verdict.credit
                tally[1] += 1
    shared = []
    for title, by_model in tallies.items():
        (base, base_count), (policy, policy_count) = (by_model.get(model, (0.0, 0)) for model in ("base", "policy"))
        if min(base_count, policy_count) >= max(2, MIN_SHARE * graded):
            shared.append(SharedCriterion(title, int(policy_count), base / base_count, policy / policy_count))
    return sorted(shared, key=lambda criterion: (-criterion.samples, criterion.title))[:count]


def headline(win: Interval | None) -> Headline:
    """Say whether the policy beats its base model."""
    if win is None:
        return Headline("The trained policy has not been compared with its base model.", "open")
    share = f"{percent(win.value)} of {win.samples} held-out comparisons"
    if is_small(win):
        return Headline(f"Too few comparisons to tell: the trained policy wins {share}.", "open")
    if win.lies_above(0.5):
        return Headline(f"The trained policy beats its base model: it wins {share}.", "good")
    if win.lies_below(0.5):
        return Headline(f"The trained policy is worse than its base model: it wins only {share}.", "bad")
    return Headline(f"No clear winner: the trained policy wins {share}, which chance could explain.", "open")


def page_decoding(evaluation: EvaluationSummary | None) -> str:
    """Choose the decoding that the page shows: greedy if it was evaluated."""
    decodings = list(evaluation.models) if evaluation else []
    return "greedy" if "greedy" in decodings or not decodings else decodings[0]
