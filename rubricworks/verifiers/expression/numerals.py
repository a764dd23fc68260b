"""Numbers in words and multipliers: `twenty-one`, `two thirds`, `5 million`, `3.2M`, `2 dozen`.

`in_digits` writes them in digits wherever they stand, so that `five million people` becomes `5000000 people`. Ordinals
become `3rd`, which is neither three nor a third.
"""

import re
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

_ONES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = dict(zip(_ONES.split(), range(20), strict=True)) | dict(zip(_TENS.split(), range(20, 100, 10), strict=True))
_SCALES = {
    "dozen": 12, "hundred": 10**2, "thousand": 10**3, "lakh": 10**5, "million": 10**6, "crore": 10**7,
    "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
_DENOMINATORS = {
    "half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10, "eleventh": 11, "twelfth": 12, "fifteenth": 15, "sixteenth": 16, "twentieth": 20, "hundredth": 100,
    "thousandth": 1000, "millionth": 10**6,
}  # fmt: skip
"""No second: it is a time."""
_ORDINAL_WORDS = """
zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth
sixteenth seventeenth eighteenth nineteenth twentieth
"""
_ORDINALS = _ORDINAL_WORDS.split()
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_NUMERAL = r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+"
_TOKEN = re.compile(rf"(?<![\\A-Za-z])[A-Za-z]+|(?<![\w.^{{])(?:{_NUMERAL})(?![\w.,]*\d|[A-Za-z])")
_NAMES = [*_SMALL, *_SCALES, *_DENOMINATORS, *_ORDINALS, "halves", "minus", "negative"]
_HINT = re.compile("|".join(_NAMES), re.IGNORECASE)
_SUFFIXES = {"k": 10**3, "m": 10**6, "b": 10**9, "bn": 10**9, "mn": 10**6}
_SUFFIX = re.compile(rf"(?<![\w.\\])({_NUMERAL})([kKMB]|bn|mn|Bn|Mn)(?!\w)")
_ALGEBRA = re.compile(r"[=*^_\\{}()]|(?<!\d[kKMBn])\s*[+]|(?<!\w)[a-zA-Z](?!\w)")
_LONGEST = 300


class _Number(NamedTuple):
    value: Fraction
    end: int
    """The token after it."""
    scale: int = 1
    """The multiplier at its end."""
    is_fraction: bool = False


def in_digits(text: str, *, suffixes: bool = True) -> str:
    """Write numbers in words, multipliers and ordinals in digits.

    Args:
        suffixes: 3.2M and 10k are multiplied too; in a formula they are products.

    >>> in_digits("twenty-one of 3.2 million"), in_digits("three quarters"), in_digits("third")
    ('21 of 3200000', '3/4', '3rd')
    """
    if len(text) > _LONGEST:
        return text
    if suffixes and _SUFFIX.search(text) and not _ALGEBRA.search(text):
        text = _SUFFIX.sub(lambda match: _decimal(_value(match[1]) * _SUFFIXES[match[2].lower()]), text)
    return _Words(text).in_digits() if _HINT.search(text) else text


class _Words:
    """The words and numerals of a text; what stands between them decides which belong together."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_TOKEN.finditer(text))
        self.words = [token[0].lower() for token in self.tokens]

    def in_digits(self) -> str:
        parts, end, at = [], 0, 0
        bare: tuple[int, Fraction] | None = None
        """Index in `parts` of a number without a multiplier: in "5 to 10 million" it has the next one's."""
        while at < len(self.tokens):
            start = self.tokens[at].start()
            if ordinal := self.ordinal(at):
                parts += [self.text[end:start], ordinal[0]]
                end, at = self.tokens[ordinal[1] - 1].end(), ordinal[1]
            elif number := self.number(at):
                between = self.text[end:start]
                if bare and number.scale > 1 and re.fullmatch(r"\s*(?:-|to)\s*", between):
                    parts[bare[0]] = _decimal(bare[1] * number.scale)
                as_it_is = number.end == at + 1 and self.words[at][0] in ".0123456789"
                digits = self.tokens[at][0] if as_it_is else _written(number)
                parts += [between, digits]
                bare = (len(parts) - 1, number.value) if number.scale == 1 and not number.is_fraction else None
                end, at = self.tokens[number.end - 1].end(), number.end
            else:
                at += 1
        return "".join([*parts, self.text[end:]])

    def number(self, at: int) -> _Number | None:
        """Read a number that begins here: a whole one, a fraction, both, or one with digits after a point."""
        if self.word(at) in ("minus", "negative"):
            number = self.number(at + 1) if self.joined(at + 1) else None
            return number and number._replace(value=-number.value)
        if fraction := self.fraction(at):
            return fraction
        whole = self.whole(at)
        if whole is None:
            return None
        if self.word(whole.end) == "point" and (digits := self.digits_after(whole.end + 1)):
            return self.scaled(_Number(whole.value + Fraction(f"0.{digits}"), whole.end + 1 + len(digits)))
        if self.word(whole.end) == "and" and self.joined(whole.end + 1) and (part := self.fraction(whole.end + 1)):
            mixed = self.scaled(_Number(whole.value + part.value, part.end))
            return mixed._replace(is_fraction=mixed.scale == 1)
        return whole

    def fraction(self, at: int) -> _Number | None:
        """Read two thirds, a quarter, half, half a million."""
        if self.word(at) == "half":
            if self.word(at + 1) in ("a", "an") and self.word(at + 2) in _SCALES:
                return _Number(Fraction(_SCALES[self.word(at + 2)], 2), at + 3)
            return _Number(Fraction(1, 2), at + 1, is_fraction=True)
        top = _Number(Fraction(1), at + 1) if self.word(at) in ("a", "an") else self.whole(at)
        if top is None or not self.joined(top.end) or top.value.denominator != 1:
            return None
        word = self.word(top.end).replace("halves", "halfs")
        if top.value != 1 and not word.endswith("s"):
            return None
        bottom = _DENOMINATORS.get(word if top.value == 1 else word.removesuffix("s"))
        return _Number(top.value / bottom, top.end + 1, is_fraction=True) if bottom else None

    def whole(self, at: int) -> _Number | None:
        """Read a numeral or number words, with multipliers."""
        word = self.word(at)
        if word[:1] in tuple(".0123456789"):
            start = self.tokens[at].start()
            number = _Number(_value(word), at + 1)
            return number if self.text[:start].endswith("/") else self.scaled(number)
        if word in ("a", "an"):
            scaled = self.scaled(_Number(Fraction(1), at + 1))
            return scaled if scaled.scale > 1 else None
        if word not in _SMALL:
            return None
        total, current, scale, multiplied = Fraction(0), Fraction(_SMALL[word]), 1, False
        at += 1
        while self.joined(at):
            word = self.word(at)
            small, multiplier = _SMALL.get(word, 0), _SCALES.get(word.removesuffix("s"))
            after_tens = 0 < small < 10 and current % 100 >= 20 and current % 10 == 0
            if word == "and" and multiplied and self.word(at + 1) in _SMALL and self.joined(at + 1):
                pass
            elif after_tens or (small and multiplied and current % 100 == 0):
                current, scale = current + small, 1
            elif multiplier:
                scale, multiplied = multiplier, True
                current *= multiplier
                if multiplier >= 1000:
                    total, current = total + current, Fraction(0)
            else:
                break
            at += 1
        return _Number(total + current, at, scale)

    def scaled(self, number: _Number) -> _Number:
        """Multiply a number by the multipliers that follow it."""
        value, end, scale, _ = number
        while self.joined(end) and (multiplier := _SCALES.get(self.word(end).removesuffix("s"))):
            value, end, scale = value * multiplier, end + 1, scale * multiplier
        return _Number(value, end, scale)

    def digits_after(self, at: int) -> str:
        digits = ""
        while self.joined(at) and _SMALL.get(self.word(at), 10) < 10:
            digits, at = digits + str(_SMALL[self.word(at)]), at + 1
        return digits

    def ordinal(self, at: int) -> tuple[str, int] | None:
        """The ordinal that begins here, in digits, and the token after it."""
        tens = _SMALL.get(self.word(at), 0)
        if tens < 20 or not self.joined(at + 1) or self.word(at + 1) not in _ORDINALS[1:10]:
            tens = 0
        word = self.word(at + 1 if tens else at)
        if word not in _ORDINALS or (
            word == "second" and at and (self.is_number(at - 1) or self.words[at - 1] == "per")
        ):
            return None
        number = tens + _ORDINALS.index(word)
        ending = _ENDINGS.get(number % 10, "th") if number // 10 != 1 else "th"
        return f"{number}{ending}", at + (2 if tens else 1)

    def is_number(self, at: int) -> bool:
        return self.word(at) in _SMALL or self.word(at)[:1].isdigit()

    def word(self, at: int) -> str:
        return self.words[at] if at < len(self.words) else ""

    def joined(self, at: int) -> bool:
        """Return True if nothing but a space or a hyphen stands before this word."""
        if not 0 < at < len(self.tokens):
            return False
        between = self.text[self.tokens[at - 1].end() : self.tokens[at].start()]
        return re.fullmatch(r"\s+|\s?-\s?", between) is not None


def _value(numeral: str) -> Fraction:
    return Fraction(numeral.replace(",", ""))


def _written(number: _Number) -> str:
    return str(number.value) if number.is_fraction else _decimal(number.value)


def _decimal(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    return f"{Decimal(value.numerator) / value.denominator:f}"
