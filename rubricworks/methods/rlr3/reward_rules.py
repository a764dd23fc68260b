"""Effects of remapping and of the gate on the groups of a training (RLR³, section 4.3), computed from their credits.

Part of the effect follows from the formulas: remapping stretches any spread above the threshold to half the range, and
a closed gate leaves no reward. The runs show how often that matters, and how much.
"""

from collections.abc import Iterable
from statistics import mean, pstdev
from typing import NamedTuple

from rubricworks.claims.claim import Observation
from rubricworks.rewards import group_rewards, remap_group
from rubricworks.rubrics import Rubric

THRESHOLD = 0.5
"""The paper's tau: a credit below it fails its criterion."""
MIN_SPREADS = 10
MIN_FAILURES = 20
"""Fewest cases for a result."""
_ROUNDING = 1e-9


class Group(NamedTuple):
    """Responses of one group, with their credits."""

    rubric: Rubric
    credits_NK: tuple[tuple[float | None, ...], ...]
    """Credit per response and criterion; None if it could not be judged."""


def spread_gain(groups: Iterable[Group]) -> Observation:
    """Gain in the standard deviation of a criterion's credits by remapping, where all are above the threshold.

    Averaged over all criteria of all groups whose credits are not all equal.
    """
    gains = []
    for group in groups:
        for column in zip(*group.credits_NK, strict=True):
            judged = [credit for credit in column if credit is not None]
            if len(judged) > 1 and min(judged) > THRESHOLD and min(judged) < max(judged):
                remapped = [credit for credit in remap_group(judged, THRESHOLD) if credit is not None]
                gains.append(pstdev(remapped) - pstdev(judged))
    if len(gains) < MIN_SPREADS:
        return Observation(None, f"only {len(gains)} such criteria in its groups; fewer than {MIN_SPREADS} say nothing")
    return Observation(mean(gains), f"{len(gains)} criteria of groups")


def masked_failures(groups: Iterable[Group]) -> Observation:
    """Share of failures that GRPO would reinforce without the gate, minus the share with it.

    A failure is a response that fails an essential criterion (credit below the threshold); it is reinforced if its
    reward is above its group's mean. A reward at the mean, as in a group in which all earn 0, does not count.
    """
    failures = ungated = gated = 0
    for group in groups:
        fails = [_fails(credits, group.rubric) for credits in group.credits_NK]
        without, with_gate = (_above_mean(group, gate=gate) for gate in (False, True))
        for fail, plain, other in zip(fails, without, with_gate, strict=True):
            if fail and plain is not None and other is not None:
                failures, ungated, gated = failures + 1, ungated + plain, gated + other
    if failures < MIN_FAILURES:
        return Observation(None, f"only {failures} responses fail an essential criterion; fewer than {MIN_FAILURES}")
    return Observation(
        (ungated - gated) / failures, f"{failures} failures: {ungated} reinforced without the gate, {gated} with it"
    )


def _fails(credits: tuple[float | None, ...], rubric: Rubric) -> bool:
    return any(
        essential and credit is not None and credit < THRESHOLD
        for credit, essential in zip(credits, rubric.essential, strict=True)
    )


def _above_mean(group: Group, *, gate: bool) -> list[bool | None]:
    """Compare each response's reward with the group's mean; None for a response without a reward."""
    rewards = group_rewards(
        group.credits_NK, group.rubric.weights, essential=group.rubric.essential, gate=gate, threshold=THRESHOLD
    )
    judged = [reward for reward in rewards if reward is not None]
    return [None if reward is None else reward > mean(judged) + _ROUNDING for reward in rewards]
