"""Verifier guide of the checklist writers' prompts (RLR³, appendix C and table 7).

A verifier compares a value extracted from the response with a target, by rule. Writers that see all verifiers use them
for everything, so each request shows only those that its task allows; where none is, it asks for references in words.
"""

from collections.abc import Sequence

from rubricworks.errors import UserError
from rubricworks.verifiers.verifier_table import VERIFIERS


def guide_text(allowed: Sequence[str]) -> str:
    """Text about the allowed verifiers for a request: their entries between tags, or one sentence if there are none."""
    if not allowed:
        return "Verifiers: none for this task. Every reference is a ground truth in words."
    parts = [_entry(name) for name in allowed]
    return "\n".join(["<verifiers>", *parts, "</verifiers>"])


def check_verifiers(names: Sequence[str], where: str) -> None:
    """Check that names are known verifiers, each listed once.

    Raises:
        UserError: an unknown or repeated name; the message starts with `where`.
    """
    for name in names:
        if name not in VERIFIERS:
            raise UserError(f"{where}: {name!r} is no verifier; there are {', '.join(VERIFIERS)}")
        if list(names).count(name) > 1:
            raise UserError(f"{where}: {name} stands twice")


def _entry(name: str) -> str:
    verifier = VERIFIERS[name]
    return "\n".join([verifier.signature, f"  Use: {verifier.use}", f"  Example: {'; '.join(verifier.examples)}"])
