"""Verdicts on a paper's claims from scores that are paired by seed and sample.

A seed's difference is the mean over samples of its paired differences. Seeds are the independent units: every test is
Student's t over their differences, exact for normal ones at any number of seeds, and Fisher's sign flips where they
have no spread (`metrics.paired_p_value`).

    claimed      one-sided test of the difference against 0, on the side that the paper claims
    opposite     the same on the other side
    equivalent   both one-sided tests against -δ and +δ (TOST; Schuirmann 1987)

A claim of equivalence is claimed by TOST, and its opposite is a difference beyond ±δ. Holm corrects each of the three
over all claims that the paper registered, so that the chance of any false one is at most alpha on each side; a claim
without a p-value counts as 1.

    holds                    claimed is significant
    does not hold            opposite is significant
    equivalent within ±δ     neither, and equivalent is
    inconclusive             none of them
    incomplete               a seed that was registered has no difference
    not testable here        a gate of the world fails, or the arms cannot be run
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from rubricworks.claims.registration import Blinded, Claim, Direction, Registration
from rubricworks.metrics import Interval, holm, paired_differences, paired_p_value, t_interval
from rubricworks.metrics.intervals import t_quantile

Values = Mapping[str, float | None]
"""Sample → score; None if it could not be judged."""
ArmScores = Mapping[str, Mapping[str, Values]]
"""Arm → metric → values, of one seed."""
Verdict = Literal["holds", "does not hold", "equivalent", "inconclusive", "incomplete", "not testable here"]
CONCLUSIVE: tuple[Verdict, ...] = ("holds", "does not hold", "equivalent")
_DIGITS = 12
"""Decimal digits of differences: 0.95 - 0.96 is below -0.01 in floating point, and δ is a bound."""
_UNJUDGED = 0.05
"""Share of a seed's pairs that may lack a score."""


class Observation(NamedTuple):
    """A seed's difference, or the reason why it has none."""

    value: float | None
    note: str = ""


class Evidence(NamedTuple):
    """One-sided p-values."""

    claimed: float
    opposite: float
    equivalent: float


class Finding(BaseModel):
    """A claim with its differences, interval, p-values and verdict."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: Claim
    margin: float
    values: dict[int, float | None]
    """Seed → difference; None if it has none."""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    """Bounds of the 95 % t interval, not corrected."""
    p_claimed: float | None = None
    p_opposite: float | None = None
    p_equivalent: float | None = None
    """Corrected by Holm."""
    verdict: Verdict
    reason: str = ""
    """Why it has no verdict on its numbers: what is missing, or the gate that fails."""
    notes: dict[int, str] = {}

    @property
    def interval(self) -> Interval | None:
        return None if self.mean is None else Interval(value=self.mean, low=self.low, high=self.high)

    @property
    def verdict_text(self) -> str:
        return f"equivalent within ±{self.margin:g}" if self.verdict == "equivalent" else self.verdict


def seed_difference(claim: Claim, scores: ArmScores) -> Observation:
    """Mean paired difference of a claim's arms over the samples of one seed."""
    columns = []
    for arm in claim.arms:
        values = scores.get(arm, {}).get(claim.metric)
        if not values:
            return Observation(None, f"{arm} has no {claim.metric}")
        columns.append(values)
    first, second = columns
    if first.keys() != second.keys():
        shared = len(first.keys() & second.keys())
        return Observation(None, f"{claim.arms[0]} and {claim.arms[1]} share {shared} of {len(first)} samples")
    pairs = paired_differences(first, second).values()
    judged = [value for value in pairs if value is not None and not math.isnan(value)]
    if len(judged) < (1 - _UNJUDGED) * len(first):
        return Observation(None, f"{len(first) - len(judged)} of {len(first)} pairs could not be judged")
    return Observation(round(fmean(judged), _DIGITS), f"{_mean(first):.3f} and {_mean(second):.3f}")


def evidence(differences: Sequence[float], direction: Direction, margin: float) -> Evidence:
    """One-sided p-values of the mean of independent differences; all 1 with fewer than two."""
    if len(differences) < 2:
        return Evidence(1.0, 1.0, 1.0)

    def above(bound: float) -> float:
        """p-value of a mean above `bound`."""
        return _one_sided([round(value - bound, _DIGITS) for value in differences])

    def below(bound: float) -> float:
        return _one_sided([round(bound - value, _DIGITS) for value in differences])

    equivalent = max(above(-margin), below(margin))
    if direction == "equivalent":
        return Evidence(equivalent, min(above(margin), below(-margin)), equivalent)
    more, less = above(0), below(0)
    return Evidence(more, less, equivalent) if direction == "greater" else Evidence(less, more, equivalent)


def judge_claims(
    registration: Registration,
    scores: Mapping[int, ArmScores],
    seeds: Iterable[int],
    *,
    failed_gates: Collection[str] = (),
    unmeasured_gates: Collection[str] = (),
    pilot: bool = False,
) -> list[Finding]:
    """Judge every claim of a registration.

    Args:
        scores: seed → scores of its arms.
        seeds: that the registration asks for; a missing one leaves a claim incomplete.
        failed_gates: ids of the gates that the world does not pass.
        unmeasured_gates: ids of those that no run measured; a claim whose seeds are complete cannot wait for them.
        pilot: the seeds are fewer than those registered; no claim gets a verdict.
    """
    seeds = list(seeds)
    observed = {
        claim.id: {seed: seed_difference(claim, scores.get(seed, {})) for seed in seeds}
        for claim in registration.claims
    }
    blocked = {}
    for claim in registration.claims:
        is_complete = all(seen.value is not None for seen in observed[claim.id].values())
        blocking = {*failed_gates, *unmeasured_gates} if is_complete else set(failed_gates)
        blocked[claim.id] = _blocked(registration, claim, blocking)
    tests: dict[str, Evidence] = {}
    for claim in registration.claims:
        differences = [seen.value for seen in observed[claim.id].values() if seen.value is not None]
        tested = not blocked[claim.id] and not pilot and len(differences) == len(seeds)
        margin = registration.margin_of(claim)
        tests[claim.id] = evidence(differences, claim.direction, margin) if tested else Evidence(1.0, 1.0, 1.0)
    corrected = [holm({name: values[at] for name, values in tests.items()}) for at in range(len(Evidence._fields))]
    findings = []
    for claim in registration.claims:
        p_values = Evidence(*(family[claim.id] for family in corrected))
        findings.append(
            _finding(
                claim,
                registration.margin_of(claim),
                observed[claim.id],
                p_values,
                registration.alpha,
                blocked[claim.id],
                "a pilot of fewer seeds than registered gives no verdict" if pilot else "",
            )
        )
    return findings


def blinded_seeds(spreads: Iterable[float], margin: float, plan: Blinded, *, alpha: float, claims: int) -> int:
    """Number of seeds at which a difference of δ is found with the planned power, by the widest spread.

    Args:
        spreads: standard deviations of the claims' differences over the first seeds, blind to their means.
        alpha: error on one side, which is divided by the number of claims.
    """
    spread = max(spreads, default=0.0)
    for seeds in range(plan.at, plan.most):
        reach = t_quantile(1 - 2 * alpha / claims, seeds - 1) + t_quantile(2 * plan.power - 1, seeds - 1)
        if reach * spread / math.sqrt(seeds) <= margin:
            return seeds
    return plan.most


def planned_seeds(registration: Registration, scores: Mapping[int, ArmScores]) -> int:
    """Number of seeds to run: the registered one, or the one that the spread of the first seeds fixes."""
    plan = registration.blinded
    first = range(1, plan.at + 1) if plan else ()
    if plan is None or any(seed not in scores for seed in first):
        return registration.seeds
    needed = [plan.at]
    for claim in registration.claims:
        values = [seed_difference(claim, scores[seed]).value for seed in first]
        differences = [value for value in values if value is not None]
        if len(differences) == plan.at:
            margin, claims = registration.margin_of(claim), len(registration.claims)
            needed.append(blinded_seeds([stdev(differences)], margin, plan, alpha=registration.alpha, claims=claims))
    return max(needed)


def _one_sided(differences: Sequence[float]) -> float:
    """p-value of a mean above 0."""
    both = paired_p_value(differences)
    assert both is not None
    return both / 2 if fmean(differences) > 0 else 1 - both / 2


def _finding(
    claim: Claim,
    margin: float,
    observed: Mapping[int, Observation],
    p_values: Evidence,
    alpha: float,
    blocked: str,
    pilot: str,
) -> Finding:
    values = {seed: seen.value for seed, seen in observed.items()}
    numbers = [value for value in values.values() if value is not None]
    interval = t_interval(numbers) if numbers else None
    missing = [seed for seed, value in values.items() if value is None]
    verdict: Verdict
    if blocked:
        verdict, reason = "not testable here", blocked
    elif missing or pilot:
        first = f"seed {missing[0]}: {observed[missing[0]].note}" if missing else ""
        more = f", and {len(missing) - 1} more seeds" if len(missing) > 1 else ""
        verdict, reason = "incomplete", f"{first}{more}" or pilot
    else:
        verdict, reason = _verdict(p_values, alpha), ""
    tested = verdict in (*CONCLUSIVE, "inconclusive")
    return Finding(
        claim=claim,
        margin=margin,
        values=values,
        mean=interval and interval.value,
        low=interval and interval.low,
        high=interval and interval.high,
        p_claimed=p_values.claimed if tested else None,
        p_opposite=p_values.opposite if tested else None,
        p_equivalent=p_values.equivalent if tested else None,
        verdict=verdict,
        reason=reason,
        notes={seed: seen.note for seed, seen in observed.items() if seen.note},
    )


def _verdict(p_values: Evidence, alpha: float) -> Verdict:
    if p_values.claimed <= alpha:
        return "holds"
    if p_values.opposite <= alpha:
        return "does not hold"
    return "equivalent" if p_values.equivalent <= alpha else "inconclusive"


def _blocked(registration: Registration, claim: Claim, failed: Collection[str]) -> str:
    """Reason why a claim is not testable here, or an empty text."""
    if claim.cannot_run:
        return claim.cannot_run
    fails = [gate for gate in (*registration.gates, *claim.gates) if gate in failed]
    return f"gates that do not pass: {', '.join(fails)}" if fails else ""


def _mean(values: Values) -> float:
    return fmean(value for value in values.values() if value is not None)
