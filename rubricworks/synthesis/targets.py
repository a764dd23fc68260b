"""References that call a verifier: whether the call can be read, and whether any response could meet its target."""

import re
from collections.abc import Iterator, Mapping

from rubricworks.verifiers import CannotVerify, VerifierCall, parse_verifier_call, run_verifier
from rubricworks.verifiers.calls import SIGNATURES, Literal

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
_MOST = 1000
"""Coordinates are thousandths of the image's sides."""


def reference_call(reference: str) -> VerifierCall | str | None:
    """The call of a reference, None where it is words, or what is wrong with it.

    A call that stands among words would be shown to the judge with its target: it counts as unreadable.
    """
    found = _CALL.search(reference)
    if found is None:
        return None
    if found[1] not in SIGNATURES:
        return UNKNOWN
    try:
        call = parse_verifier_call(reference)
    except ValueError:
        return NO_CALL
    signature = SIGNATURES[call.name]
    if call.arguments.keys() - signature.target:
        return NO_CALL
    return call if call.arguments.keys() & {"target", "candidates"} else NO_TARGET


def target_fault(call: VerifierCall) -> str:
    """Why no response could be scored against this target, or none could satisfy it; empty if nothing is wrong.

    The target itself is put to the verifier as a prediction: it must be readable, and must earn full credit.
    """
    if call.name == "time_verify" and any(_WEEKDAY.search(str(value)) for value in call.arguments.values()):
        return WEEKDAY
    if call.name in ("bbox_verify", "point_verify") and any(not 0 <= number <= _MOST for number in _numbers(call)):
        return OUTSIDE
    target = call.arguments.get("target")
    if target is None:
        candidates = call.arguments.get("candidates")
        target = candidates[0] if isinstance(candidates, tuple) and candidates else None
    if target in (None, "", ()) or (isinstance(target, str) and not target.strip()):
        return UNREADABLE
    try:
        score = run_verifier(_written(call.name, call.arguments), _prediction(call, target))
    except (CannotVerify, ValueError):
        return UNREADABLE
    return "" if score > 1 - 1e-9 else UNMEETABLE


def target_texts(call: VerifierCall) -> Iterator[str]:
    """The texts and numbers that a criterion must not state; of a box or point, its numbers in a row."""
    if call.name in ("bbox_verify", "point_verify"):
        yield " ".join(str(number) for number in _numbers(call))
        return
    yield from _texts(call.arguments.get("target"))
    yield from _texts(call.arguments.get("candidates"))


def _prediction(call: VerifierCall, target: Literal) -> str:
    arguments = {"predict": target}
    if call.name == "time_verify":
        arguments["pformat"] = call.arguments.get("tformat")
    return _written(call.name, arguments)


def _written(name: str, arguments: Mapping[str, Literal]) -> str:
    return f"{name}({', '.join(f'{keyword}={value!r}' for keyword, value in arguments.items())})"


def _texts(value: Literal) -> Iterator[str]:
    if isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield str(value)


def _numbers(call: VerifierCall) -> list[float]:
    """All numbers of a target; what is none stays for the verifier to refuse."""

    def walk(value: Literal) -> Iterator[float]:
        if isinstance(value, tuple):
            for item in value:
                yield from walk(item)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield value

    return list(walk(call.arguments.get("target")))
