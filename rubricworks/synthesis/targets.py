"""References that call a verifier: parse the call, and check that a response could meet its target."""

import re
from collections.abc import Iterator, Mapping

from rubricworks.verifiers import CannotVerify, VerifierCall, parse_verifier_call, run_verifier
from rubricworks.verifiers.calls import Literal
from rubricworks.verifiers.verifier_table import VERIFIERS

NO_CALL = "its reference is no verifier's call that can be read"
UNKNOWN = "it calls a verifier that there is not"
NO_TARGET = "its verifier has no target to compare with"
UNREADABLE = "its target cannot be read"
WEEKDAY = "its time is told by a weekday"
OUTSIDE = "its coordinates are not in thousandths of the image"
UNMEETABLE = "its target does not satisfy its own verifier"

_CALL = re.compile(r"\b(\w+_verify)\s*\(")
_WEEKDAY = re.compile(
    r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?s?\b|星期|周[一二三四五六日]", re.IGNORECASE
)
_MAX_COORDINATE = 1000
"""Coordinates are thousandths of the image's sides."""


def reference_call(reference: str) -> VerifierCall | str | None:
    """Return the verifier call in a reference, None if the reference is words, or the fault that makes it unreadable.

    A call among words is unreadable: the judge would see it with its target.
    """
    match = _CALL.search(reference)
    if match is None:
        return None
    if match[1] not in VERIFIERS:
        return UNKNOWN
    try:
        call = parse_verifier_call(reference)
    except ValueError:
        return NO_CALL
    verifier = VERIFIERS[call.name]
    if call.arguments.keys() - verifier.target:
        return NO_CALL
    return call if call.arguments.keys() & {"target", "candidates"} else NO_TARGET


def target_fault(call: VerifierCall) -> str:
    """Return the fault that keeps every response from being scored against this target, or from meeting it.

    The verifier scores the target itself as a prediction: it must be readable and earn full credit. Empty if nothing is
    wrong.
    """
    if call.name == "time_verify" and any(_WEEKDAY.search(str(value)) for value in call.arguments.values()):
        return WEEKDAY
    if call.name in ("bbox_verify", "point_verify") and any(
        not 0 <= number <= _MAX_COORDINATE for number in _numbers(call)
    ):
        return OUTSIDE
    target = call.arguments.get("target")
    if target is None:
        candidates = call.arguments.get("candidates")
        target = candidates[0] if isinstance(candidates, tuple) and candidates else None
    if target in (None, "", ()) or (isinstance(target, str) and not target.strip()):
        return UNREADABLE
    try:
        score = run_verifier(_call_text(call.name, call.arguments), _prediction(call, target))
    except (CannotVerify, ValueError):
        return UNREADABLE
    return "" if score > 1 - 1e-9 else UNMEETABLE


def target_texts(call: VerifierCall) -> Iterator[str]:
    """Texts and numbers that a criterion must not state; for boxes and points, all coordinates as one text."""
    if call.name in ("bbox_verify", "point_verify"):
        yield " ".join(str(number) for number in _numbers(call))
        return
    yield from _texts(call.arguments.get("target"))
    yield from _texts(call.arguments.get("candidates"))


def _prediction(call: VerifierCall, target: Literal) -> str:
    arguments = {"predict": target}
    if call.name == "time_verify":
        arguments["pformat"] = call.arguments.get("tformat")
    return _call_text(call.name, arguments)


def _call_text(name: str, arguments: Mapping[str, Literal]) -> str:
    return f"{name}({', '.join(f'{keyword}={value!r}' for keyword, value in arguments.items())})"


def _texts(value: Literal) -> Iterator[str]:
    if isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield str(value)


def _numbers(call: VerifierCall) -> list[float]:
    """Return all numbers of a target; other values are left for the verifier to refuse."""

    def walk(value: Literal) -> Iterator[float]:
        if isinstance(value, tuple):
            for item in value:
                yield from walk(item)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield value

    return list(walk(call.arguments.get("target")))
