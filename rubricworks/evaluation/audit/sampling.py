"""Balanced sampling of abnormal responses: n per category, at most one per input, deterministic by seed.

Inputs are in an order drawn from the seed. Each pass gives every short category as many inputs as it still lacks, from
those that have no accepted response, the least tried first; a rejected response frees its input for another pass, for
this category up to `TRIES` times. So no response is written that the audit set would not use, and nearly every input
can give one.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rubricworks.evaluation.audit.values import FAILURE_MODES, FailureMode

TRIES = 3
"""Attempts at a response of one category to one input, each drawn anew."""


class Attempt(NamedTuple):
    """Response of one category that was tried on one input."""

    sample_id: str
    mode: FailureMode
    accepted: bool


def shuffle_inputs(sample_ids: Iterable[str], seed: int) -> list[str]:
    """Return the inputs, each once, in an order that depends only on their ids and the seed."""
    return sorted(set(sample_ids), key=lambda sample_id: _hash(seed, sample_id))


def draw_number(below: int, *parts: object) -> int:
    """Return a number in [0, below) derived from a hash of the parts."""
    return int.from_bytes(_hash(*parts)[:8], "big") % below


def next_pass(
    order: Sequence[str], attempts: Sequence[Attempt], per_category: int, modes: Sequence[FailureMode] = FAILURE_MODES
) -> list[tuple[str, FailureMode]]:
    """Choose the next inputs and categories to try; empty when every category is full or has no input left.

    Args:
        order: the inputs, from `shuffle_inputs`.
        attempts: all attempts so far.
    """
    lacking = missing_counts(attempts, per_category, modes)
    tries = Counter((attempt.sample_id, attempt.mode) for attempt in attempts)
    per_input = Counter(attempt.sample_id for attempt in attempts)
    used = {attempt.sample_id for attempt in attempts if attempt.accepted}
    free = sorted((sample_id for sample_id in order if sample_id not in used), key=lambda name: per_input[name])
    choices: list[tuple[str, FailureMode]] = []
    for sample_id in free:
        # The category that lacks most goes first, so that short categories share the inputs evenly.
        open_modes = sorted((mode for mode in modes if lacking[mode]), key=lambda mode: (-lacking[mode], mode))
        mode = min(open_modes, key=lambda mode: tries[sample_id, mode], default=None)
        if mode is not None and tries[sample_id, mode] < TRIES:
            choices.append((sample_id, mode))
            lacking[mode] -= 1
    return choices


def missing_counts(
    attempts: Iterable[Attempt], per_category: int, modes: Sequence[FailureMode] = FAILURE_MODES
) -> Counter[FailureMode]:
    """Count the responses that each category still lacks."""
    accepted: Mapping[FailureMode, int] = Counter(attempt.mode for attempt in attempts if attempt.accepted)
    return Counter({mode: max(0, per_category - accepted[mode]) for mode in modes})


def _hash(*parts: object) -> bytes:
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
