"""Formulas that SymPy may see: mathematics without sentences, of a bounded size and depth.

What is refused here is refused in microseconds, so that nothing is gained by sending it.
"""

import re
from functools import lru_cache

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
_OPENING, _CLOSING = "([{", ")]}"
_LONGEST, _DEEPEST, _DEEPEST_BRACKETS, _MOST_TERMS, _MOST_CELLS = 1000, 16, 10, 120, 150
_MOST = {"^": 60, "!": 10, "\\binom": 10, "\\int": 4, "\\sum": 4, "\\prod": 3, "\\lim": 3, "\\frac{d": 4}
"""Of each in one formula."""
_LARGEST_EXPONENT, _LARGEST_BOUND, _LARGEST_FACTORIAL = 2000, 10**6, 2000
_DEEPEST_EXPONENT = 2
_EXPONENT = re.compile(r"\^\s*(?:\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}|(\S))")
_UPPER_BOUND = re.compile(r"\\(?:sum|prod|bigcup|bigcap)\b[^^]*$")
_FACTORIAL = re.compile(r"(\d+)\s*!|[)}\]]\s*!\s*!|!\s*!")
_LARGE_NUMBER = re.compile(r"\d{25,}")


@lru_cache(maxsize=4096)
def is_formula(text: str) -> bool:
    """Return True if a text is mathematics alone and small enough to be read and computed."""
    body = strip_surface(text).body
    if not body or len(body) > _LONGEST or _NO_FORMULA.search(body):
        return False
    words = re.findall(r"[A-Za-z]{2,}", _COMMAND.sub(" ", body))
    return _MATHEMATICS.search(body) is not None and not any(map(_is_english, words)) and is_affordable(body)


def _is_english(word: str) -> bool:
    if word.lower() in _FUNCTION_SET or (len(word) == 2 and word.isupper()):
        return False
    return len(word) > 3 or word.lower() in _SHORT_WORDS or (len(word) == 3 and _VOWEL.search(word) is not None)


def is_affordable(body: str) -> bool:
    """Return True if neither the parser nor SymPy can be kept long by this formula's size."""
    depth = brackets = deepest = deepest_brackets = 0
    for character in body:
        if character in _OPENING:
            depth, brackets = depth + 1, brackets + (character != "{")
            deepest, deepest_brackets = max(deepest, depth), max(deepest_brackets, brackets)
        elif character in _CLOSING:
            depth, brackets = depth - 1, brackets - (character != "}")
    if deepest > _DEEPEST or deepest_brackets > _DEEPEST_BRACKETS or body.count("&") > _MOST_CELLS:
        return False
    terms = sum(body.count(sign) for sign in ("+", "-", "*", "\\cdot", "\\times"))
    if terms > _MOST_TERMS or any(body.count(sign) > most for sign, most in _MOST.items()):
        return False
    factorials = [match[1] for match in _FACTORIAL.finditer(body)]
    if None in factorials or any(int(number) > _LARGEST_FACTORIAL for number in factorials if len(number) < 10):
        return False
    return not _LARGE_NUMBER.search(body) and not any(len(number) >= 10 for number in factorials) and _are_small(body)


def _are_small(body: str) -> bool:
    """Return True if every exponent and every bound of a sum is small."""
    for match in _EXPONENT.finditer(body):
        exponent = match[1] or match[2]
        is_bound = _UPPER_BOUND.search(body[: match.start()])
        if not _is_at_most(exponent, _LARGEST_BOUND if is_bound else _LARGEST_EXPONENT):
            return False
        if _nesting(exponent) >= _DEEPEST_EXPONENT:
            return False
    return True


def _nesting(exponent: str) -> int:
    """Powers within powers; 2^{2^{2^x}} is two beyond the first."""
    inner = [match[1] or "" for match in _EXPONENT.finditer(exponent)]
    chained = exponent.count("^")
    return max([1 + _nesting(part) for part in inner], default=0) if inner else chained


def _is_at_most(text: str, largest: int) -> bool:
    """Return True unless the text holds a number beyond, or a power of numbers that may be."""
    if any(int(number) > largest for number in re.findall(r"\d{1,24}", text)):
        return False
    for base, exponent in re.findall(r"(\d+)\s*\^\s*\{?\s*(\d+)", text):
        if len(base) * int(exponent) > 40 or int(base) ** int(exponent) > largest:
            return False
    return True
