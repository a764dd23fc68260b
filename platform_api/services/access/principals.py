"""Callers and what they may do.

A scope is a set of rights. Approving and running are apart, so that one person cannot hold both sides of the two-person
rule by accident; an admin has all rights. A login by OIDC would make a `Principal` here, as tokens do.

RUBRICWORKS_SELF_APPROVAL waives the second person. A pattern such as `captioner-*` names models, whose promotions the
requester may approve. `rubrics:RUN/STAGE`, where both may be patterns, names rubric sets, whose versions the proposer
may approve. Neither kind covers the other.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class Right(StrEnum):
    """Right that a route asks for."""

    VIEW = "view"
    RUN = "run"
    APPROVE = "approve"
    ADMINISTER = "administer"


SCOPES: dict[str, frozenset[Right]] = {
    "viewer": frozenset({Right.VIEW}),
    "runner": frozenset({Right.VIEW, Right.RUN}),
    "approver": frozenset({Right.VIEW, Right.APPROVE}),
    "admin": frozenset(Right),
}
"""Rights of each scope of tokens."""
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9@._-]*$"
LONGEST_NAME = 100
_RUBRICS = "rubrics:"
OWN_NAMES = frozenset({"environment", "local", "service"})
"""Names of callers without a token of the database, and of the service itself, which no token has."""


@dataclass(frozen=True)
class Principal:
    """An authenticated caller."""

    name: str
    scope: str
    token_id: int | None = None
    """None for the token of the environment and for programs of this machine."""

    def may(self, right: Right) -> bool:
        """Return True if its scope has the right."""
        return right in SCOPES[self.scope]


def waives_for_model(patterns: Iterable[str], model: str) -> bool:
    """Return True if who requested a promotion of the model may approve it too."""
    return any(fnmatchcase(model, pattern) for pattern in patterns if not pattern.startswith(_RUBRICS))


def waives_for_rubrics(patterns: Iterable[str], run: str, stage: str) -> bool:
    """Return True if who proposed a version of a rubric of this set may approve it too."""
    return any(fnmatchcase(f"{_RUBRICS}{run}/{stage}", pattern) for pattern in patterns if pattern.startswith(_RUBRICS))
