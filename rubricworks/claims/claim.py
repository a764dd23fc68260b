"""A claim, its observations over seeds, and the verdict that follows from the numbers alone.

Each seed gives one number for a claim, mostly a difference. By the 95 % t interval of the mean over seeds, the claim

    holds          if the whole interval is on the claimed side of the bound
    does not hold  if the whole interval is on the other side
    inconclusive   otherwise; always so with one seed, which has no interval
    incomplete     if a seed has no number; whatever the others say
    not measured   if no seed has a number

    rule       claimed side            other side              the paper says, for example
    greater    above 0                 0 or below              better than
    not_worse  -margin or above        below -margin           not worse than, by more than the margin
    within     -margin to margin       outside of that         the same as, up to the margin

Every claim is judged by itself: of twenty true null differences, one leaves its interval by chance.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.metrics import Interval, t_interval
from rubricworks.recipe import METHODS

OWN = "own"
"""The recipe's own run, beside its arms."""
Results = TypeVar("Results")
"""What a paper's claims read of one run."""
Verdict = Literal["holds", "does not hold", "inconclusive", "incomplete", "not measured"]
Rule = Literal["greater", "not_worse", "within"]
_DIGITS = 12
"""Decimal digits of numbers and bounds: 0.95 - 0.96 is below -0.01 in floating point, and a margin is a bound."""


class Claim(BaseModel):
    """A statement about a difference that runs can measure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    statement: str
    """The paper's words, shortened; the measure follows after a colon where it is not plain."""
    source: str
    """Table or section of the paper."""
    rule: Rule = "greater"
    margin: float = Field(default=0.0, ge=0)
    ours: bool = False
    """True if the paper argues for it but does not measure it: the measure is this project's."""

    @model_validator(mode="after")
    def _margin_has_a_rule(self) -> "Claim":
        if self.rule == "greater" and self.margin:
            raise ValueError(f"{self.name}: a difference above 0 has no margin")
        return self


class Observation(NamedTuple):
    """A run's number for a claim, or the reason why it has none."""

    value: float | None
    note: str = ""


class Finding(BaseModel):
    """A claim with its numbers, interval and verdict."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: Claim
    values: dict[int, float | None]
    """Seed → its number; None if the run has none."""
    mean: float | None
    low: float | None
    high: float | None
    """Bounds of the 95 % interval."""
    verdict: Verdict
    notes: dict[int, str] = {}
    """Seed → a remark on its number, or the reason why it is missing."""

    @property
    def margin(self) -> float:
        return self.claim.margin

    @property
    def interval(self) -> Interval | None:
        """Mean and bounds; None if no seed has a number."""
        return None if self.mean is None else Interval(value=self.mean, low=self.low, high=self.high)


def judge_claim(claim: Claim, observations: Mapping[int, Observation]) -> Finding:
    """Judge a claim by one observation for each seed."""
    values = {
        seed: None if observed.value is None else round(observed.value, _DIGITS)
        for seed, observed in observations.items()
    }
    numbers = [value for value in values.values() if value is not None]
    interval = _rounded(t_interval(numbers)) if numbers else None
    return Finding(
        claim=claim,
        values=values,
        mean=interval and interval.value,
        low=interval and interval.low,
        high=interval and interval.high,
        verdict=_verdict_on(claim, interval, missing=len(values) - len(numbers)),
        notes={seed: observed.note for seed, observed in observations.items() if observed.note},
    )


def _verdict_on(claim: Claim, interval: Interval | None, *, missing: int) -> Verdict:
    """Verdict on the seeds that have a number, unless others lack one."""
    if interval is None:
        return "not measured"
    return "incomplete" if missing else _verdict(claim, interval)


def _rounded(interval: Interval) -> Interval:
    if interval.bounds is None:
        return interval
    low, high = (round(bound, _DIGITS) for bound in interval.bounds)
    return Interval(value=interval.value, low=low, high=high)


def _verdict(claim: Claim, interval: Interval) -> Verdict:
    margin = claim.margin
    if claim.rule == "greater":
        yes, no = interval.lies_above(0), interval.lies_below(0, inclusive=True)
    elif claim.rule == "not_worse":
        yes, no = interval.lies_above(-margin, inclusive=True), interval.lies_below(-margin)
    else:
        yes = interval.lies_above(-margin, inclusive=True) and interval.lies_below(margin, inclusive=True)
        no = interval.lies_below(-margin) or interval.lies_above(margin)
    return "holds" if yes else "does not hold" if no else "inconclusive"


@dataclass(frozen=True)
class Check(Generic[Results]):
    """A claim with the function that computes a seed's number for it, from the results of its own run and its arms."""

    claim: Claim
    measure: Callable[[Mapping[str, Results]], Observation]


@dataclass(frozen=True)
class Paper(Generic[Results]):
    """A paper: the recipe and arms that are run, what is read of each run, and the claims about it."""

    title: str
    recipe: str
    is_finished: Callable[[Path], bool]
    """Test of a run's folder: it holds all that is read."""
    read: Callable[[Path], Results]
    checks: Callable[[], Iterable[Check[Results]]]
    """In the order of the paper."""
    notes: tuple[str, ...]
    arms: tuple[str, ...] = ()
    """Arms of the recipe; each is run beside it for every seed, in a folder `NAME-ARM`."""
    overrides: tuple[str, ...] = ()
    """Changes of the recipe in every run but those of an arm that sets such a field itself; `a.b=c` each, unless the
    user gives others."""

    def findings(self, runs: Mapping[int, Path]) -> list[Finding]:
        """Judge every claim on these runs.

        Args:
            runs: seed → folder of its own run.
        Raises:
            UserError: a run is not finished, or a file is damaged.
        """
        results = {
            seed: {OWN: self.read(run), **{arm: self.read(run.with_name(f"{run.name}-{arm}")) for arm in self.arms}}
            for seed, run in sorted(runs.items())
        }
        return [
            judge_claim(check.claim, {seed: check.measure(by_arm) for seed, by_arm in results.items()})
            for check in self.checks()
        ]


def methods_with_claims() -> list[str]:
    """Methods whose claims can be checked: those with a module `claims` that has a `PAPER`."""
    return [method for method, package in METHODS.items() if find_spec(f"{package}.claims")]


def load_paper(method: str) -> Paper[Any]:
    paper: Paper[Any] = importlib.import_module(f"{METHODS[method]}.claims").PAPER
    return paper
