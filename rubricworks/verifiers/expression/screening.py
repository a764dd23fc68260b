"""Formulas that SymPy may see: mathematics without sentences, of a bounded size and depth.

What is refused here is refused in microseconds, so that nothing is gained by sending it.
"""

import re

from rubricworks.verifiers.expression.surface import strip_surface

_COMMAND = re.compile(r"\\(?:begin|end)\s*\{[a-zA-Z*]+\}|\\[A-Za-z]+")
_FUNCTIONS = """
sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp lim max min gcd lcm det mod sqrt asin acos atan
and or dx dy dz dt
"""
_FUNCTION_SET = set(_FUNCTIONS.split())
_ENGLISH = """
not nor is are was the to of if at by but for all any one two six ten per out off up as we it its so than in on from may
can low few some an half most less more over ago yet then else who how why yes pct
"""
_SHORT_WORDS = set(_ENGLISH.split())
_VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)
_MATHEMATICS = re.compile(r"[\d\\^_=+*/<>|()!-]")
_NO_FORMULA = re.compile(r'[?"@#~$]|\.\.\.|\\(?:boxed|fbox)')
_LONGEST, _DEEPEST, _MOST_TERMS, _MOST_POWERS = 1500, 25, 120, 40
_OPENING, _CLOSING = "([{", ")]}"


def is_formula(text: str) -> bool:
    """Return True if a text is mathematics alone and small enough to be read and computed."""
    body = strip_surface(text).body
    if not body or len(body) > _LONGEST or _NO_FORMULA.search(body):
        return False
    words = re.findall(r"[A-Za-z]{2,}", _COMMAND.sub(" ", body))
    return _MATHEMATICS.search(body) is not None and not any(map(_is_english, words)) and is_small(body)


def _is_english(word: str) -> bool:
    if word.lower() in _FUNCTION_SET or (len(word) == 2 and word.isupper()):
        return False
    return len(word) > 3 or word.lower() in _SHORT_WORDS or (len(word) == 3 and _VOWEL.search(word) is not None)


def is_small(body: str) -> bool:
    """Return True if a formula is shallow and short enough that its reading cannot take long."""
    depth = deepest = 0
    for character in body:
        if character in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif character in _CLOSING:
            depth -= 1
    terms = body.count("+") + body.count("-") + body.count("*") + body.count("\\cdot")
    return deepest <= _DEEPEST and terms <= _MOST_TERMS and body.count("^") <= _MOST_POWERS
