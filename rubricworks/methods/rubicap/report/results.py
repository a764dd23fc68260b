"""Held-out results for the page: headline, scores with intervals, pass rates by severity and of shared criteria.

The headline is what people read first, so it claims no more than the intervals support.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rubricworks.evaluation.scoreboard import BASE, LENGTH, POLICY, WIN, Scoreboard
from rubricworks.metrics import Interval
from rubricworks.reports.comparison import SEVERITY, Comparison
from rubricworks.reports.formats import percent
from rubricworks.reports.headline import Headline, is_small
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.scores import score_rows
from rubricworks.rubrics import Rubric, Scorecard

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


def decoding_results(run: Path, board: Scoreboard | None) -> list[DecodingResults]:
    """Results per decoding, without metrics that neither model has."""
    weights = _criterion_weights(run) if board else {}
    results = []
    for decoding in board.decodings if board else ():
        assert board is not None
        comparisons = [_comparison(board, decoding, name, label) for name, label in METRICS.items()]
        results.append(
            DecodingResults(
                decoding=decoding,
                win_rate=board.mean(POLICY, WIN, decoding),
                comparisons=[one for one in comparisons if one.base or one.policy],
                length=_comparison(board, decoding, LENGTH, "Tokens per caption"),
                pass_rates=_pass_rates(run, decoding, weights),
            )
        )
    return results


def _comparison(board: Scoreboard, decoding: str, figure: str, label: str) -> Comparison:
    return Comparison(label, board.mean(BASE, figure, decoding), board.mean(POLICY, figure, decoding))


def _criterion_weights(run: Path) -> dict[tuple[str, str], float]:
    """(sample, title of a criterion) → its weight."""
    weights = {}
    for row in table_rows(run / "synthesize_rubrics", ["sample_id", "rubric"]):
        for criterion in Rubric.model_validate_json(row["rubric"]).criteria:
            weights[row["sample_id"], criterion.criterion] = criterion.weight
    return weights


def _pass_rates(run: Path, decoding: str, weights: Mapping[tuple[str, str], float]) -> list[PassRate]:
    credits: dict[float, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for model, scorecard in _scorecards(run, decoding):
        for verdict in scorecard.verdicts:
            weight = weights.get((scorecard.sample_id, verdict.criterion))
            if verdict.credit is not None and weight is not None:
                credits[weight][model].append(verdict.credit)
    return [
        PassRate(
            f"{weight:g}",
            SEVERITY.get(f"{weight:g}", "other"),
            *(fmean(by_model[model]) if by_model[model] else None for model in (BASE, POLICY)),
        )
        for weight, by_model in sorted(credits.items(), reverse=True)
    ]


def _scorecards(run: Path, decoding: str) -> Iterator[tuple[str, Scorecard]]:
    """Model and scorecard of each graded response."""
    for row in score_rows(run):
        if row["scorer"] == "rubric" and row["decoding"] == decoding and row["evidence"]:
            yield row["model"], Scorecard.model_validate_json(row["evidence"])


def shared_criteria(run: Path, *, decoding: str, count: int = 6) -> list[SharedCriterion]:
    """Most frequent criteria of the held-out rubrics, with both models' pass rates."""
    tallies: dict[str, dict[str, list[float]]] = {}
    graded = 0
    for model, scorecard in _scorecards(run, decoding):
        graded += model == POLICY
        for verdict in scorecard.verdicts:
            if verdict.criterion not in tallies and len(tallies) >= _MAX_TITLES:
                continue
            tally = tallies.setdefault(verdict.criterion, {}).setdefault(model, [0.0, 0])
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
