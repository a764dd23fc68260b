"""Probabilities of a binary JSON field, from the log-probabilities of the tokens that spell its value.

The answer's tokens are laid out as bytes, so that the value's digit is found in the token that holds it; the
alternatives at that token which begin alike and go on with 0 or 1 share the probability. So the credit of a criterion
is P(1) / (P(0) + P(1)), as in G-Eval (Liu et al., 2023, section 2), instead of the digit that was drawn. The shape is
OpenAI's `choices[0].logprobs.content`, which vLLM has too: token, logprob, bytes, top_logprobs. A value that cannot be
the logarithm of a probability, such as null, NaN, text or 5, is an error.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

TOP_LOGPROBS = 5
"""Alternatives to ask for at each token."""
REQUEST_FIELDS = {"logprobs": True, "top_logprobs": TOP_LOGPROBS}

_ZERO, _ONE = b"0", b"1"
_ROUNDING = 0.01
"""Slightly above 0, since rounding can raise the log-probability of a certain token."""
_WRONG = "the log-probabilities cannot be read"


class _Token(NamedTuple):
    start: int
    """Offset of its first byte in the answer."""
    text: bytes
    entry: dict[str, object]


def field_probabilities(text: str, logprobs: Sequence[Any], field: str) -> list[float]:
    """Probability of 1 against 0 for each value of a field, in the order of the text.

    Args:
        text: the answer, with JSON in it whose values of the field are 0 or 1.
        logprobs: of the answer's tokens, as the server sent them; those of a thought before it may be among them.
        field: name of the JSON field.
    Raises:
        ValueError: the tokens do not spell the answer, their alternatives do not tell 0 from 1, or an entry is not one
            of a token with its log-probability.
    """
    content = text.encode()
    tokens = _tokens(logprobs)
    start = b"".join(token.text for token in tokens).rfind(content)
    if start < 0:
        raise ValueError("the tokens of its log-probabilities do not spell the answer")
    # A quote inside a JSON string is escaped, so only the field itself matches.
    pattern = re.compile(rb'(?<!\\)"' + re.escape(field.encode()) + rb'"\s*:\s*([01])')
    return [_probability_of_one(tokens, start + match.start(1)) for match in pattern.finditer(content)]


def _probability_of_one(tokens: Sequence[_Token], place: int) -> float:
    token = next(candidate for candidate in reversed(tokens) if candidate.start <= place)
    before = token.text[: place - token.start]
    mass = {_ZERO: 0.0, _ONE: 0.0}
    alternatives = token.entry.get("top_logprobs") or []
    if not isinstance(alternatives, list):
        raise ValueError(f"{_WRONG}: top_logprobs is not a list")
    shown = {_bytes(entry): _logprob(entry) for entry in [*alternatives, token.entry]}
    for written, logprob in shown.items():
        digit = written[len(before) : len(before) + 1]
        if written.startswith(before) and digit in mass:
            mass[digit] += math.exp(logprob)
    total = sum(mass.values())
    if not all(mass.values()) and total <= _largest_unseen(shown):
        raise ValueError(
            "the log-probabilities do not tell 0 from 1: other tokens are likelier than both; the server should give "
            "those of the tokens that the answer's schema allows (vLLM: --logprobs-mode processed_logprobs)"
        )
    return mass[_ONE] / total


def _largest_unseen(shown: Mapping[bytes, float]) -> float:
    """Bound on the probability of an alternative that the server does not show: below all that it shows but one."""
    probabilities = sorted(math.exp(logprob) for logprob in shown.values())
    rest = max(0.0, 1 - sum(probabilities))
    return min(rest, probabilities[1]) if len(probabilities) > 1 else rest


def _tokens(logprobs: Sequence[Any]) -> list[_Token]:
    tokens, start = list[_Token](), 0
    for entry in logprobs:
        text = _bytes(entry)
        tokens.append(_Token(start, text, entry))
        start += len(text)
    return tokens


def _bytes(entry: Any) -> bytes:
    """Bytes of a token, whose text may be part of a character."""
    if not isinstance(entry, dict):
        raise ValueError(f"{_WRONG}: an entry is not an object")
    if isinstance(given := entry.get("bytes"), list):
        try:
            return bytes(given)
        except (ValueError, TypeError):
            raise ValueError(f"{_WRONG}: the bytes of a token are not bytes") from None
    if not isinstance(token := entry.get("token"), str):
        raise ValueError(f"{_WRONG}: an entry has no token")
    return token.encode("utf-8", "replace")


def _logprob(entry: dict[str, object]) -> float:
    logprob = entry.get("logprob")
    if not isinstance(logprob, int | float) or isinstance(logprob, bool) or not logprob <= _ROUNDING:
        raise ValueError(f"{_WRONG}: the entry of a token has no log-probability (logprob is {str(logprob)[:40]!r})")
    try:
        return float(logprob)
    except OverflowError:  # a whole number far below 0
        return -math.inf
