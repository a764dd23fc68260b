"""Sentences that evade an answer: RLR³'s two attacks that never name it (appendix B.4).

Writers of abnormal responses use them, and weak scorers fall for them. They contain no number, no option letter and
nothing that this world's parser takes for an object, so that a response made of them has no answer to extract.
"""

CIRCUMLOCUTIONS = (
    "the answer is the quantity consistent with the enumeration above .",
    "the answer is precisely the value that the visual evidence establishes .",
    "the answer coincides with the category that any trained observer would assign here .",
    "the answer is the entry that matches the characteristic pattern of the scene .",
    "the answer is what the canonical reading of the figure dictates .",
)
"""Authoritative circumlocution: describes the answer without naming it."""

BLUFFS = (
    "by symbolic equivalence the sum over all terms reduces to the expected result .",
    "after cancellation of the auxiliary variables the expression confirms the required value .",
    "the normalization constants cancel and the closed form equals the desired solution .",
    "algebraic reduction of the integral yields exactly the value that is asked for .",
)
"""Symbolic-equivalence bluff: claims that a derivation yields the answer."""


def has_circumlocution(text: str) -> bool:
    """Return True if the text contains one of the circumlocutions."""
    return _contains(text, CIRCUMLOCUTIONS)


def has_bluff(text: str) -> bool:
    """Return True if the text contains one of the bluffs."""
    return _contains(text, BLUFFS)


def _contains(text: str, sentences: tuple[str, ...]) -> bool:
    plain = " ".join(text.lower().split())
    return any(sentence in plain for sentence in sentences)
