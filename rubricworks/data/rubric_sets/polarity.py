"""Polarity of pitfalls: whether a response that meets a criterion of negative weight is worse for it, or better.

A negative weight takes away where the criterion is met, so that it must name a fault ("Recommends aspirin to a child").
Rubrics as Rewards has negative weights for both: most pitfalls of RaR-Medicine name a fault or an omission ("Does not
mention the dose"), most of RaR-Science say what a response must not do ("Must not round early"), which the best
response meets. Here those earn their weight. A rule reads how the first words are phrased, in English. A pitfall of
which they do not tell keeps its sign.
"""

import re
from typing import Literal

Polarity = Literal["good", "bad", "unknown"]
"""Meaning of a pitfall that is met."""

_PREFIX = re.compile(r"^\W*(?:pitfalls?|negative)(?:\s+criteri(?:a|on))?\s*[:\u2013\u2014-]\s*", re.IGNORECASE)
_SUBJECT = re.compile(
    r"^(?:(?:the|an?|this)\s+)?(?:(?:final|model['\u2019]?s?|given)\s+)?"
    r"(?:response|answer|explanation|solution|output|model|assistant|reply|text|author|student|it)\s+(?=\w)",
    re.IGNORECASE,
)
_MODAL = re.compile(
    r"(?:must|should|shall|may|can|ought to|needs? to|has to)\s+(?:not|never|avoid|refrain|steer)\b"
    r"|cannot\b|(?:mustn|shouldn|don)['\u2019]t\b|do not\b|careful not\b|takes? care not\b"
)
_AVOIDS = re.compile(r"(?:avoid(?:s|ed|ing)?|refrains? from|steers? clear of)\s+")
_DENIES = re.compile(r"(?:(?:does|do|did|is|are|has) not|(?:doesn|didn|isn|aren|hasn)['\u2019]t|never)\s+")
_ABSENT = re.compile(r"(?:no mention|lacks?|lacking|absence|without (?:mention|explain|stat|justif)\w*|failure)\b")

_DEGREES = ("explicitly", "clearly", "fully", "adequately", "properly", "correctly", "sufficiently", "even", "directly")
"""Adverbs that say nothing of the verb after them."""
_FAULTS = (
    *("mis", "fail", "omit", "omission", "neglect", "ignor", "overlook", "skip", "forget", "confus", "conflat"),
    *("contradict", "invent", "fabricat", "hallucinat", "exaggerat", "overstat", "oversimplif", "overgeneral"),
    *("overestimat", "overemphas", "understat", "underestimat", "assum", "impl", "rely", "relies", "dismiss"),
    *(
        "disregard",
        "speculat",
        "double-count",
        "downplay",
        "deviat",
        "digress",
        "incorrect",
        "inaccurate",
        "inaccurately",
    ),
    *(
        "wrong",
        "false",
        "erroneous",
        "improper",
        "inappropriate",
        "unnecessar",
        "premature",
        "merely",
        "simply",
        "only",
    ),
    *("solely", "just", "incomplete"),
)
"""Beginnings of words that name a fault, as verbs or as what is said of one."""
_TELLS = (
    *("mention", "address", "note", "notic", "discuss", "explain", "identif", "consider", "account", "acknowledg"),
    *("recogni", "warn", "caution", "check", "verif", "correct", "highlight", "emphas", "clarif", "distinguish"),
    *("differentiat", "specif", "justif", "compar", "indicat", "describ", "outlin", "elaborat"),
)
"""Beginnings of verbs whose absence is an omission, whatever is told."""
_GIVES = (
    *("state", "stating", "includ", "list", "provid", "show", "give", "giving", "cite", "citing", "defin", "deriv"),
    *("calculat", "comput", "apply", "appli", "convert", "referenc", "answer", "offer", "demonstrat", "support"),
    *("connect", "relat", "link", "make", "making", "take", "report", "contain", "present", "use", "using", "have"),
    *("complete", "conclud", "follow", "introduc", "mak"),
)
"""Beginnings of verbs whose absence is an omission, unless what is given is faulty."""
_NEEDLESS = r"irrelevant|unrelated|unnecessary|extraneous|superfluous|tangential"
_FAULTY = re.compile(
    rf"\b(?:{_NEEDLESS}|incorrect|inaccurate|unsupported|unjustified|wrong|false|errors?|misleading|harmful|unsafe"
    r"|fabricated|invented|contradictory|mistakes?)\b"
)
_ASSERTS = ("recommend", "suggest", "claim", "assert", "advis", "prescrib", "encourag", "promot", "endors")
"""Beginnings of verbs by which an affirmative pitfall states what is wrong."""
_OWED = ("answer", "respond", "engag", "address", "directly", "the question")
"""Acts that are never a fault."""
_OBJECT = 4
"""Words after a verb in which its object is looked for."""


def phrased(text: str, *, defined: bool = False) -> Polarity:
    """Polarity of a pitfall by its first words; `unknown` where they do not tell.

    Args:
        defined: its format defines that meeting a pitfall is bad, so that only what "must not" be done is good.

    >>> phrased("Must not imply that entropy falls."), phrased("Does not mention the dose."), phrased("Ensures safety.")
    ('good', 'bad', 'unknown')
    """
    words = " ".join(_SUBJECT.sub("", _PREFIX.sub("", text.strip())).split()).lower()
    if _MODAL.match(words):
        return "good"
    if avoids := _AVOIDS.match(words):
        return "unknown" if defined or words[avoids.end() :].startswith(_OWED) else "good"
    if denies := _DENIES.match(words):
        verb, faulty = _verb_and_object(words[denies.end() :])
        if verb.startswith(_FAULTS) or (faulty and (verb.startswith(_GIVES) or re.search(_NEEDLESS, words))):
            return "unknown" if defined else "good"
        return "bad" if defined or verb.startswith((*_TELLS, *_GIVES)) else "unknown"
    verb, faulty = _verb_and_object(words)
    is_fault = verb.startswith((*_FAULTS, *_ASSERTS)) or (faulty and verb.startswith(_GIVES))
    return "bad" if defined or is_fault or _ABSENT.match(words) else "unknown"


def _verb_and_object(words: str) -> tuple[str, bool]:
    """First word but for adverbs of degree, and True if what follows it at once is called faulty."""
    verb, *rest = [word for word in words.split() if word not in _DEGREES] or [""]
    return verb, bool(_FAULTY.search(" ".join(rest[:_OBJECT])))
