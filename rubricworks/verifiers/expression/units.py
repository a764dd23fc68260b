"""Units after a number: `5 cm`, `9.8\\text{ m/s}^2`, `125 miles`, `$4.50`, `90^\\circ`.

The paper leaves units in the criterion, not in the target, so a unit on one side only is dropped. Where both sides name
one and both are known, 5 m is 500 cm and neither 5 cm nor 5 s; a unit that is not known is taken on trust.
"""

import re
from fractions import Fraction
from typing import NamedTuple

_TABLE = {
    "length": "nm 1e-9 um 1e-6 mm 1e-3 cm 1e-2 dm 1e-1 m 1 meter 1 metre 1 km 1e3 kilometer 1e3 kilometre 1e3 "
    "centimeter 1e-2 centimetre 1e-2 millimeter 1e-3 millimetre 1e-3 in 0.0254 inch 0.0254 inches 0.0254 ft 0.3048 "
    "foot 0.3048 feet 0.3048 yd 0.9144 yard 0.9144 mi 1609.344 mile 1609.344",
    "mass": "mg 1e-6 g 1e-3 gram 1e-3 kg 1 kilogram 1 t 1e3 ton 1e3 tonne 1e3 lb 0.45359237 pound 0.45359237",
    "time": "ms 1e-3 s 1 sec 1 second 1 min 60 minute 60 h 3600 hr 3600 hour 3600 day 86400 week 604800",
    "months": "month 1 year 12 yr 12",
    "volume": "ml 1e-6 mL 1e-6 cc 1e-6 milliliter 1e-6 millilitre 1e-6 l 1e-3 L 1e-3 liter 1e-3 litre 1e-3",
    "speed": "m/s 1 km/h 5/18 kmh 5/18 kph 5/18 mph 0.44704",
    "acceleration": "m/s^2 1",
    "angle": "deg 1 degree 1 \\circ 1",
    "current": "mA 1e-3 A 1 ampere 1 amp 1",
    "voltage": "mV 1e-3 V 1 kV 1e3 volt 1",
    "resistance": "ohm 1 \\Omega 1 k\\Omega 1e3",
    "power": "mW 1e-3 W 1 kW 1e3 MW 1e6 watt 1",
    "energy": "J 1 kJ 1e3 joule 1 kWh 3.6e6 eV 1.602176634e-19",
    "force": "N 1 kN 1e3 newton 1",
    "pressure": "Pa 1 kPa 1e3 MPa 1e6 pascal 1",
    "frequency": "Hz 1 kHz 1e3 MHz 1e6 GHz 1e9 hertz 1",
    "temperature": "K 1 kelvin 1",
    "celsius": "C 1 \\circC 1 celsius 1",
    "fahrenheit": "F 1 \\circF 1 fahrenheit 1",
    "amount": "mol 1 mmol 1e-3",
    "dollars": "$ 1 dollar 1 USD 1 cent 0.01",
    "euros": "€ 1 euro 1 EUR 1",
    "pounds": "£ 1 GBP 1",
    "yuan": "¥ 1 yuan 1 RMB 1 CNY 1",
}


class Unit(NamedTuple):
    quantity: str | None
    """Such as length; None for a unit that is not in the table."""
    factor: Fraction
    letter: bool = False
    """One letter without \\text around it: 5m may be a length or five times m."""


class Measured(NamedTuple):
    number: str
    unit: Unit


_UNITS = {
    name: Unit(quantity, Fraction(factor))
    for quantity, entries in _TABLE.items()
    for name, factor in zip(entries.split()[::2], entries.split()[1::2], strict=True)
}
_DEGREES = re.compile(r"(.+?)\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)\s*([CF]?)")
_CURRENCY = re.compile(r"([-+]?)\s*([$€£¥])\s*([\d.].*)")
_FONT = r"\\(?:text(?:rm|bf|it|normal|sf)?|math(?:rm|bf|it|sf)|mbox|operatorname)"
_IN_TEXT = re.compile(rf"(.+?)\s*{_FONT}\s*\{{\s*([^{{}}]*?)\s*\}}\s*(?:\^\s*\{{?\s*([23])\s*\}}?)?")
_BARE = re.compile(r"(.*[\d})!.])(\s*)([A-Za-z$€£¥][A-Za-z$€£¥ ./^{}0-9-]*)")
_POWER = re.compile(r"(.*?[A-Za-z])\s*\^?\s*\{?\s*([23])\s*\}?")
_WORDS = re.compile(r"[A-Za-z]{3,}(?:[ -][A-Za-z]{2,}){0,3}")
_NO_UNITS = re.compile(r"\b(?:and|or|sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|pi|mod|to|is|if|where|for|not|than)\b")


def split_unit(text: str) -> Measured | None:
    """Number and unit, if the text ends (or starts, for money) with a unit."""
    if (match := _DEGREES.fullmatch(text)) and not _NO_UNITS.search(match[1]):
        return Measured(match[1], _UNITS["\\circ" + match[2]])
    if match := _CURRENCY.fullmatch(text):
        return Measured(match[1] + match[3], _UNITS[match[2]])
    if match := _IN_TEXT.fullmatch(text):
        name = match[2] + (f"^{match[3]}" if match[3] else "")
        return Measured(match[1], _known(name) or Unit(None, Fraction(1))) if re.search("[A-Za-z]", name) else None
    match = _BARE.fullmatch(text)
    if match is None or _NO_UNITS.search(match[3]):
        return None
    name = match[3].strip()
    if unit := _known(name):
        return Measured(match[1], unit._replace(letter=len(name) == 1 and name.isalpha()))
    return Measured(match[1], Unit(None, Fraction(1))) if match[2] and _WORDS.fullmatch(name) else None


def scale(a: Unit | None, b: Unit | None) -> Fraction | None:
    """How many of b's unit one of a's is, 1 where one is missing or unknown; None if they measure different things."""
    if a is None or b is None or a.quantity is None or b.quantity is None:
        return Fraction(1)
    return a.factor / b.factor if a.quantity == b.quantity else None


def _known(name: str) -> Unit | None:
    name = name.strip(" .")
    if unit := _UNITS.get(name) or _UNITS.get(name.lower()) or _UNITS.get(name.lower().removesuffix("s")):
        return unit
    for word, power in (("square", 2), ("sq", 2), ("cubic", 3), ("cu", 3)):
        if name.lower().startswith(f"{word} ") and (unit := _known(name[len(word) + 1 :])):
            return _raised(unit, power)
    if (match := _POWER.fullmatch(name)) and (unit := _UNITS.get(match[1])):
        return _raised(unit, int(match[2]))
    return None


def _raised(unit: Unit, power: int) -> Unit | None:
    if unit.quantity != "length":
        return None
    return Unit("volume" if power == 3 else "area", unit.factor**power)
