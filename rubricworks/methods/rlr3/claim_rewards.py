"""What remapping and the gate do to the groups that a training drew (RLR³, section 4.3), computed from their credits.

Both rules guarantee some of it: remapping stretches any spread that lies above the threshold to half the range, and a
closed gate leaves no reward. What the runs add is how often that matters, and how much.
"""

from collections.abc import Iterable
from statistics import mean, pstdev
from typing import NamedTuple

from rubricworks.claims.claim import Observation
from rubricworks.rewards import group_rewards, remap_group
from rubricworks.rubrics import Rubric

THRESHOLD = 0.5
"""The paper's tau: a credit below it fails its criterion."""
FEWEST_SPREADS = 10
FEWEST_FAILURES = 20
"""With fewer cases than this a run says nothing."""
_ROUNDING = 1e-9


class Group(NamedTuple):
    """The responses to one sample that were drawn together."""

    rubric: Rubric
    credits_NK: tuple[tuple[float | None, ...], ...]
    """Response by response, one per criterion; None where it could not be judged."""


def spread_gain(groups: Iterable[Group]) -> Observation:
    """How much remapping raises the standard deviation of a criterion's credits, where all lie above the threshold.

    The mean over all criteria of all groups whose credits are not all equal.
    """
    gains = []
    for group in groups:
        for column in zip(*group.credits_NK, strict=True):
            judged = [credit for credit in column if credit is not None]
            if len(judged) > 1 and min(judged) > THRESHOLD and min(judged) < max(judged):
                remapped = [credit for credit in remap_group(judged, THRESHOLD) if credit is not None]
                gains.append(pstdev(remapped) - pstdev(judged))
    if len(gains) < FEWEST_SPREADS:
        return Observation(
            None, f"only {len(gains)} such criteria in its groups; fewer than {FEWEST_SPREADS} say nothing"
        )
    return Observation(mean(gains), f"{len(gains)} criteria of groups")


def masked_failures(groups: Iterable[Group]) -> Observation:
    """How many more failures would be reinforced without the gate.

    Of the responses that fail an essential criterion (credit below the threshold), the share whose reward is above
    their group's mean, which is what GRPO reinforces: without the gate minus with it. A reward at the mean, as where a
    whole group earns 0, teaches nothing and does not count.
    """
    failed = ungated = gated = 0
    for group in groups:
        fails = [_fails(credits, group.rubric) for credits in group.credits_NK]
        without, with_gate = (_above_mean(group, gate=gate) for gate in (False, True))
        for fail, one, other in zip(fails, without, with_gate, strict=True):
            if fail and one is not None and other is not None:
                failed, ungated, gated = failed + 1, ungated + one, gated + other
    if failed < FEWEST_FAILURES:
        return Observation(None, f"only {failed} responses fail an essential criterion; fewer than {FEWEST_FAILURES}")
    return Observation(
        (ungated - gated) / failed, f"{failed} failures: {ungated} reinforced without the gate, {gated} with it"
    )


def _fails(credits: tuple[float | None, ...], rubric: Rubric) -> bool:
    return any(
        essential and credit is not None and credit < THRESHOLD
        for credit, essential in zip(credits, rubric.essential, strict=True)
    )


def _above_mean(group: Group, *, gate: bool) -> list[bool | None]:
    """Response by response; None where there is no reward."""
    rewards = group_rewards(
        group.credits_NK, group.rubric.weights, essential=group.rubric.essential, gate=gate, threshold=THRESHOLD
    )
    judged = [reward for reward in rewards if reward is not None]
    return [None if reward is None else reward > mean(judged) + _ROUNDING for reward in rewards]
