"""Texts split outside their brackets."""

import re

from rubricworks.verifiers.expression.formula import TooHard, TooLarge

SIGN = re.compile(r"\\(?:leq|geq|neq|in)(?![A-Za-z])|<=|>=|!=|[<>=]")
"""Of relations."""
_OPENINGS, _CLOSINGS = ("(", "[", "{", "\\begin"), (")", "]", "}", "\\end")
_MOST_ITEMS = 200


def closes_last(body: str) -> bool:
    """Return True if the first bracket is closed by the last."""
    depth = 0
    for place, character in enumerate(body):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character in ")]}":
            return place == len(body) - 1
    return False


def split_outside(body: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """The parts between separators that stand outside all brackets, and the separators."""
    parts, separators, start, depth, at = [], [], 0, 0, 0
    for match in separator.finditer(body):
        if match.start() < at:
            continue
        between = body[at : match.start()]
        depth += sum(map(between.count, _OPENINGS)) - sum(map(between.count, _CLOSINGS))
        at = match.start()
        if depth == 0:
            parts.append(body[start:at].strip())
            separators.append(match[0].strip())
            start = at = match.end()
    parts.append(body[start:].strip())
    if len(parts) > 1 and (not all(parts[1:]) or (not parts[0] and separator is not SIGN)):
        raise TooHard("an empty part")
    if len(parts) > _MOST_ITEMS:
        raise TooLarge("a long list")
    return parts, separators
