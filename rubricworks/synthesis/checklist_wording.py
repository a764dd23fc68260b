"""What a criterion's wording tells: a judgment that poses as a value, and several assertions in one sentence.

Both are heuristics, and careful ones: what they call faulty nearly always is, and some faults pass, for the merger's
majority and dual verification to meet.
"""

import re

from rubricworks.verifiers import VerifierCall

_JUDGMENTS = frozenset({"yes", "no", "true", "false", "correct", "incorrect", "wrong", "valid", "invalid"})
_SHORT_JUDGMENTS = frozenset({"1", "0", "y", "n", "t", "f", "pass", "fail", "ok"})
"""Values by themselves; judgments where the criterion asks for one."""
_JUDGING = re.compile(r"\b(?:correctly|accurately|properly|rightly)\s+\w+\s+that\b|\bwhether\b")
_WORD = re.compile(r"\w+")
_ASSERT = (
    r"(?:states?|says?|gives?|names?|identifies|describes|mentions|explains|lists|notes|reads|shows|calculates|computes|"
    r"finds|counts|concludes|derives|determines|recogni[sz]es|provides|specifies|indicates|points out)"
)
_SECOND = re.compile(
    rf"\b{_ASSERT}\s+(?!and\b)\S+.*?\b(?:and|as well as|but)\s+(?:also\s+|then\s+)?(?:{_ASSERT}|that|whether|how)\b"
)
"""States … and gives …; states that … and that …. Two verbs with one object ("finds and names the star") are one."""
_NEXT_SENTENCE = re.compile(rf"[.;]\s+(?:it|the (?:final )?(?:response|answer))\s+(?:also\s+)?{_ASSERT}\b")
_NUMBERED = re.compile(r"(?:\(1\)|\b1[.)]\s).*(?:\(2\)|\b2[.)]\s)")


def is_judgment(criterion: str, call: VerifierCall) -> bool:
    """Whether a verifier is to check what the extractor thinks of the response, instead of a value in it."""
    if call.name not in ("expr_verify", "text_verify"):
        return False
    target, candidates = call.arguments.get("target"), call.arguments.get("candidates")
    values = [target, *(candidates if isinstance(candidates, tuple) else ())]
    words = {plain_words(str(value)) for value in values if value is not None}
    return bool(words & _JUDGMENTS or (words & _SHORT_JUDGMENTS and _JUDGING.search(criterion.lower())))


def joins_assertions(criterion: str) -> bool:
    """Whether one criterion makes several assertions, of which a response may meet some."""
    text = " ".join(criterion.lower().split())
    return any(pattern.search(text) for pattern in (_SECOND, _NEXT_SENTENCE, _NUMBERED))


def plain_words(text: str) -> str:
    """The words of a text alone, in small letters: what two criteria have in common that read alike."""
    return " ".join(_WORD.findall(text.casefold()))
