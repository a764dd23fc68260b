"""Callers and what they may do.

A scope is a set of rights. Approving and running are apart, so that one person cannot hold both sides of the two-person
rule by accident; an admin has all rights. Tokens, logins at the identity provider and reviewed tokens of pods all
become a `Principal`, and routes know nothing else. Whose groups give two roles has the scope `runner+approver`; a
version that this person requested is approved by another one all the same.

Names tell the kinds of callers apart: a person's is an e-mail address or `NAME@HOST`, a pod's is
`system:serviceaccount:NAMESPACE:NAME`, and a token's has neither `@` nor a colon.

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
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""Names of tokens; those with an `@` are people's."""
LONGEST_NAME = 100
_RUBRICS = "rubrics:"
OWN_NAMES = frozenset({"environment", "local", "service"})
"""Names of callers without a token of the database, and of the service itself, which no token has."""


@dataclass(frozen=True)
class Principal:
    """An authenticated caller."""

    name: str
    scope: str
    """A scope, or several joined by `+`."""
    token_id: int | None = None
    """Database token of the request or of its session."""
    is_person: bool = False
    """Logged in at the identity provider."""

    def may(self, right: Right | str) -> bool:
        """Return True if its scope has the right."""
        return any(right in SCOPES[scope] for scope in self.scope.split("+"))

    @property
    def may_log_out(self) -> bool:
        """Return True if a session of its may be ended."""
        return self.is_person or self.token_id is not None


def waives_for_model(patterns: Iterable[str], model: str) -> bool:
    """Return True if who requested a promotion of the model may approve it too."""
    return any(fnmatchcase(model, pattern) for pattern in patterns if not pattern.startswith(_RUBRICS))


def waives_for_rubrics(patterns: Iterable[str], run: str, stage: str) -> bool:
    """Return True if who proposed a version of a rubric of this set may approve it too."""
    return any(fnmatchcase(f"{_RUBRICS}{run}/{stage}", pattern) for pattern in patterns if pattern.startswith(_RUBRICS))
