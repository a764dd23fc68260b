"""Units of measurement: `cm`, `m/s^2`, `miles per hour`, `square feet`, `°C`, `$`.

A unit is a product of powers of base units with a factor, so that 36 km/h are 10 m/s. Symbols are case-sensitive (mg is
no Mg, Gb no GB), words are not. What is not in the tables is no unit: `million`, `dogs`, `north`.
"""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

Dimensions = tuple[tuple[str, int], ...]
"""Base units and their powers, in order."""


@dataclass(frozen=True, slots=True)
class Unit:
    dimensions: Dimensions
    factor: Fraction
    """Base units in one of it."""
    zero: Fraction = Fraction(0)
    """Zero of the unit in base units: 273.15 K for °C."""
    letter: bool = False
    """One letter, which may be a variable: 5m is a length or five times m."""
    required: bool = False
    """Never left out by the other side: 10 K may be ten thousand."""


RADIANS, DEGREES = (("radian", 1),), (("degree", 1),)

_PREFIX_SYMBOLS = {
    "p": "1e-12", "n": "1e-9", "u": "1e-6", "µ": "1e-6", "m": "1e-3", "c": "1e-2", "d": "1e-1", "h": "1e2", "k": "1e3",
    "M": "1e6", "G": "1e9", "T": "1e12",
}  # fmt: skip
_PREFIX_WORDS = {
    "pico": "1e-12", "nano": "1e-9", "micro": "1e-6", "milli": "1e-3", "centi": "1e-2", "deci": "1e-1", "hecto": "1e2",
    "kilo": "1e3", "毫": "1e-3", "厘": "1e-2", "分": "1e-1", "千": "1e3", "微": "1e-6",
    "mega": "1e6", "giga": "1e9", "tera": "1e12",
}  # fmt: skip

# Symbols | words in the singular | factor and base units. These take prefixes, the bit and the byte only large ones.
_PREFIXED = """
m | meter metre 米 | 1 meter
g | gram gramme 克 | 0.001 kilogram
s | second sec 秒 | 1 second
L l | liter litre | 0.001 meter^3
A | ampere amp | 1 ampere
V | volt | 1 kilogram meter^2 second^-3 ampere^-1
W | watt | 1 kilogram meter^2 second^-3
Wh | watt-hour watthour | 3600 kilogram meter^2 second^-2
J | joule | 1 kilogram meter^2 second^-2
eV | electronvolt electron-volt | 1.602176634e-19 kilogram meter^2 second^-2
cal | calorie | 4.184 kilogram meter^2 second^-2
N | newton | 1 kilogram meter second^-2
Pa | pascal | 1 kilogram meter^-1 second^-2
bar | bar | 100000 kilogram meter^-1 second^-2
Hz | hertz | 1 second^-1
Ω ohm | ohm | 1 kilogram meter^2 second^-3 ampere^-2
F | farad | 1 kilogram^-1 meter^-2 second^4 ampere^2
H | henry | 1 kilogram meter^2 second^-2 ampere^-2
C | coulomb | 1 ampere second
T | tesla | 1 kilogram second^-2 ampere^-1
S | siemens | 1 kilogram^-1 meter^-2 second^3 ampere^2
mol | mole | 1 mole
Bq | becquerel | 1 second^-1
b | bit | 1 bit
B | byte | 8 bit
"""
_FIXED = """
KM Km kms | 公里 | 1000 meter
CM Cm cms | | 0.01 meter
KG Kg kgs | kilo 公斤 | 1 kilogram
| 斤 | 0.5 kilogram
KW | | 1000 kilogram meter^2 second^-3
KWh KWH kwh | | 3600000 kilogram meter^2 second^-2
KB | | 8000 bit
KiB | kibibyte | 8192 bit
MiB | mebibyte | 8388608 bit
GiB | gibibyte | 8589934592 bit
gb | | 8e9 bit
tb | | 8e12 bit
min mins | minute 分钟 分 | 60 second
h hr hrs | hour 小时 时 | 3600 second
| day 天 日 | 86400 second
wk wks | week 周 星期 | 604800 second
mo mos | month 月 个月 | 1 month
yr yrs | year 年 | 12 month
| decade | 120 month
| unit | 1 unit
| century | 1200 month
in | inch | 0.0254 meter
ft | foot | 0.3048 meter
yd yds | yard | 0.9144 meter
mi | mile | 1609.344 meter
oz | ounce | 0.028349523125 kilogram
lb lbs | pound | 0.45359237 kilogram
t | tonne ton 吨 | 1000 kilogram
gal | gallon | 0.003785411784 meter^3
qt | quart | 0.000946352946 meter^3
| pint | 0.000473176473 meter^3
| cup | 0.0002365882365 meter^3
tbsp | tablespoon | 0.00001478676478125 meter^3
tsp | teaspoon | 0.00000492892159375 meter^3
cc | | 0.000001 meter^3
ha | hectare 公顷 | 10000 meter^2
ac | acre | 4046.8564224 meter^2
mph | | 0.44704 meter second^-1
kph kmh kmph | | 5/18 meter second^-1
kn | knot | 463/900 meter second^-1
atm | atmosphere | 101325 kilogram meter^-1 second^-2
psi | | 6894.757293168 kilogram meter^-1 second^-2
mmHg | torr | 133.322387415 kilogram meter^-1 second^-2
hp | horsepower | 745.69987158227022 kilogram meter^2 second^-3
Cal | | 4184 kilogram meter^2 second^-2
K | kelvin | 1 kelvin
° deg | degree 度 | 1 degree
rad rads | radian | 1 radian
rev revs | revolution turn | 1 turn
rpm RPM | | 1/60 turn second^-1
dB | decibel | 1 decibel
lm | lumen | 1 lumen
lx | lux | 1 lumen meter^-2
cd | candela | 1 candela
px | pixel | 1 pixel
$ | dollar usd 美元 | 1 dollar
¢ | cent | 0.01 dollar
| 角 | 0.1 yuan
€ | euro eur | 1 euro
£ | gbp | 1 sterling
¥ | yuan rmb cny 元 | 1 yuan
₹ | rupee inr | 1 rupee
| yen jpy | 1 yen
"""
_IRREGULAR = {
    "feet": "foot", "inches": "inch", "centuries": "century", "henries": "henry", "hertz": "hertz", "lux": "lux",
    "siemens": "siemens",
}  # fmt: skip
_FRACTION = re.compile(r"\\frac\s*\{\s*([^{}]+?)\s*\}\s*\{\s*([A-Za-z]+(?:\s*\^\s*\d)?)\s*\}")
_TEMPERATURE = re.compile(r"(?:(?:°|deg(?:ree)?s?\b)?\s*(?:([Cc]elsius|[Cc]entigrade|C)|([Ff]ahrenheit|F))|(K))")
_LATEX = re.compile(r"\^?\s?\{?\s?\\circ(?![A-Za-z])\s?\}?|\\(?:Omega|mu|cdot|times)(?![A-Za-z])\s*")
_PLAIN = {"O": "Ω", "m": "µ", "c": "·", "t": "·"}
_PRODUCT_WORDS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3, "平方": 2, "立方": 3}
_FACTOR = re.compile(
    r"\s*(?:(?P<over>/|per\b|每)|(?P<times>[*·])|(?P<opening>\()|(?P<closing>\))"
    r"|(?P<name>[°$€£¥₹¢]|平方|立方|[A-Za-zµΩ]+(?:-hours?|-volts?)?|[\u4e00-\u9fff]+)\.?"
    r"(?:\s*(?P<word>squared|cubed)\b|\s?\^\s?\{?\s?(?P<raised>-?[1-4])\s?\}?|(?P<attached>-?[1-4])(?!\d))?)"
)
_LETTERS_ONLY = re.compile(r"[A-Za-z](?:\s*[/·*]\s*[A-Za-z]|\s+[A-Za-z]|\^?-?[1-4])+")
_LETTER_UNITS = """
m/s m/s^2 m/s2 g/L g/l g/m^3 g/m3 L/s L/h L/m J/s C/s J/C N/C V/m N/m N/m^2 W/m^2 A/m V/A N·m A·h
W·h V·A J·s N·s m^2 m^3 m2 m3
"""
"""Products and quotients of single letters that are units; others, as 2 h/g, are formulas."""
_LONGEST = 60


@lru_cache(maxsize=4096)
def read_unit(text: str) -> Unit | None:
    """The unit that a text names as a whole, None if it names none.

    >>> read_unit("km/h") == read_unit("kilometers per hour")
    True
    """
    if not text or len(text) > _LONGEST:
        return None
    text = _FRACTION.sub(r"\1/\2", _LATEX.sub(_plain_symbol, text)).strip().rstrip(".")
    if _is_product_of_letters(text):
        return None
    if match := _TEMPERATURE.fullmatch(text):
        if match[3]:
            return replace(_SYMBOLS["K"], required=True)
        return replace(_CELSIUS if match[1] else _FAHRENHEIT, letter=len(text) == 1)
    unit = _read_product(text)
    return replace(unit, letter=True) if unit and len(text) == 1 and text.isalpha() and text.isascii() else unit


def _is_product_of_letters(text: str) -> bool:
    letters = re.sub(r"[{}]", "", text)
    if re.fullmatch(r"[A-Za-z]-\d", text):
        return True  # 2t-2
    if "-" in text or not _LETTERS_ONLY.fullmatch(letters):
        return False
    return re.sub(r"\s*[·*]\s*|\s+(?=[A-Za-z])", "·", letters) not in _LETTER_UNITS.split()


def _plain_symbol(command: re.Match[str]) -> str:
    return "°" if "\\circ" in command[0] else _PLAIN[command[0][1]]


def _read_product(text: str) -> Unit | None:
    """Read factors after each other; a slash or `per` inverts the next one, or the bracket that follows."""
    powers: dict[str, int] = {}
    factor, sign, power_before, in_bracket, at = Fraction(1), 1, 1, False, 0
    while at < len(text):
        match = _FACTOR.match(text, at)
        if match is None or (match["over"] and (sign < 0 or not powers)):
            return None
        at = match.end()
        if match["over"]:
            sign = -1
        elif match["opening"] or match["closing"]:
            if bool(match["opening"]) == in_bracket:
                return None
            in_bracket = bool(match["opening"])
            sign = sign if in_bracket else 1
        elif match["name"]:
            if match["name"].lower() in _PRODUCT_WORDS and match["name"] == match[0].strip(" ."):
                power_before = _PRODUCT_WORDS[match["name"].lower()]
                continue
            unit = _lookup(match["name"])
            if unit is None:
                return None
            written = {"squared": 2, "cubed": 3}.get(match["word"], match["raised"] or match["attached"] or 1)
            power = sign * power_before * int(written)
            for base, of_base in unit.dimensions:
                powers[base] = powers.get(base, 0) + power * of_base
            factor *= unit.factor**power
            power_before, sign = 1, sign if in_bracket else 1
    if not powers or power_before != 1 or sign < 0 or in_bracket:
        return None
    return Unit(tuple(sorted((base, power) for base, power in powers.items() if power)), factor)


def _lookup(name: str) -> Unit | None:
    if unit := _SYMBOLS.get(name):
        return unit
    word = name.lower()
    word = _IRREGULAR.get(word, word)
    return _WORDS.get(word) or _WORDS.get(word.removesuffix("s"))


def _tables() -> tuple[dict[str, Unit], dict[str, Unit]]:
    """Units by symbol, and by word in lower case; what is fixed comes before what a prefix makes."""
    symbols: dict[str, Unit] = {}
    words: dict[str, Unit] = {}
    for table, prefixed in ((_PREFIXED, True), (_FIXED, False)):
        for line in table.strip().splitlines():
            names, spelled, definition = (part.split() for part in line.split("|"))
            factor, *bases = definition
            powers = (base.partition("^") for base in bases)
            dimensions = tuple(sorted((base, int(power or 1)) for base, _, power in powers))
            for texts, units, prefixes in ((names, symbols, _PREFIX_SYMBOLS), (spelled, words, _PREFIX_WORDS)):
                for text in texts:
                    units[text] = Unit(dimensions, Fraction(factor))
                    for prefix, size in prefixes.items() if prefixed else ():
                        if "-" not in size or dimensions != (("bit", 1),):
                            units[prefix + text] = Unit(dimensions, Fraction(factor) * Fraction(size))
    words |= {counter: Unit(((counter, 1),), Fraction(1)) for counter in "个只人本张条辆次件名位头颗棵种"}
    symbols["T"] = replace(symbols["T"], required=True)  # or trillion
    return symbols, words


_SYMBOLS, _WORDS = _tables()
_CELSIUS = replace(_SYMBOLS["K"], zero=Fraction("273.15"))
OTHER_UNITS = {"C": _SYMBOLS["C"], "F": _SYMBOLS["F"]}
"""Coulomb and farad, where Celsius and Fahrenheit come first."""
_FAHRENHEIT = Unit(_CELSIUS.dimensions, Fraction(5, 9), Fraction("459.67") * Fraction(5, 9))
