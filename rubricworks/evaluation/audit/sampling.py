"""Which input gets which abnormal response: n of every category, no input twice, the same for the same seed.

Inputs stand in an order drawn from the seed. Each pass hands every category that runs short as many inputs as it still
lacks, among those that have no accepted response yet and were not tried for it; a response that is turned away frees
its input for another pass. So no response is written that the audit set would not use.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rubricworks.evaluation.audit.values import FAILURE_MODES, FailureMode


class Attempt(NamedTuple):
    """A category tried on an input."""

    sample_id: str
    mode: FailureMode
    accepted: bool


def draw_order(sample_ids: Iterable[str], seed: int) -> list[str]:
    """The inputs, each once, in an order that depends on their names and the seed alone."""
    return sorted(set(sample_ids), key=lambda sample_id: _hash(seed, sample_id))


def draw_number(below: int, *parts: object) -> int:
    """A number below `below` that follows from the parts."""
    return int.from_bytes(_hash(*parts)[:8], "big") % below


def next_pass(
    order: Sequence[str], attempts: Sequence[Attempt], per_category: int, modes: Sequence[FailureMode] = FAILURE_MODES
) -> list[tuple[str, FailureMode]]:
    """What to try next; nothing when every category is full or no input is left for those that are not.

    Args:
        order: the inputs, from `draw_order`.
        attempts: everything tried so far.
    """
    lacking = missing(attempts, per_category, modes)
    tried = {(attempt.sample_id, attempt.mode) for attempt in attempts}
    used = {attempt.sample_id for attempt in attempts if attempt.accepted}
    free = [sample_id for sample_id in order if sample_id not in used]
    chosen: list[tuple[str, FailureMode]] = []
    for sample_id in free:
        # The category that lacks most comes first, so that short ones share the inputs evenly.
        open_modes = sorted((mode for mode in modes if lacking[mode]), key=lambda mode: (-lacking[mode], mode))
        mode = next((mode for mode in open_modes if (sample_id, mode) not in tried), None)
        if mode is not None:
            chosen.append((sample_id, mode))
            lacking[mode] -= 1
    return chosen


def missing(
    attempts: Iterable[Attempt], per_category: int, modes: Sequence[FailureMode] = FAILURE_MODES
) -> Counter[FailureMode]:
    """How many responses each category still lacks."""
    accepted: Mapping[FailureMode, int] = Counter(attempt.mode for attempt in attempts if attempt.accepted)
    return Counter({mode: max(0, per_category - accepted[mode]) for mode in modes})


def _hash(*parts: object) -> bytes:
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
