"""Waivers of the second person, as the installation's RUBRICWORKS_SELF_APPROVAL has them.

A pattern such as `captioner-*` names models, whose promotions the requester may approve. `rubrics:RUN/STAGE`, where
both may be patterns, names rubric sets, whose versions the proposer may approve. Neither kind covers the other.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

_RUBRICS = "rubrics:"


def waives_for_model(patterns: Iterable[str], model: str) -> bool:
    """Return True if who requested a promotion of the model may approve it too."""
    return any(fnmatchcase(model, one) for one in patterns if not one.startswith(_RUBRICS))


def waives_for_rubrics(patterns: Iterable[str], run: str, stage: str) -> bool:
    """Return True if who proposed a version of a rubric of this set may approve it too."""
    return any(fnmatchcase(f"{_RUBRICS}{run}/{stage}", one) for one in patterns if one.startswith(_RUBRICS))
