"""Quantities: exact decimals with a unit, in other spellings of the unit and converted to others."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random

from answers.numbers import Writer, decimal, scientific_texts

# name: (dimension, size in base units, LaTeX spellings, plain spellings)
UNITS: dict[str, tuple[str, Fraction, tuple[str, ...], tuple[str, ...]]] = {}


def unit(name: str, dimension: str, size: Fraction | int | str, latex: str = "", plain: str = "") -> None:
    """Add a unit; spellings are separated by `;`."""
    roman = (rf"\ \mathrm{{{name}}}", rf"\text{{ {name}}}", rf"\,\text{{{name}}}", rf"~\mathrm{{{name}}}")
    plain_spellings = tuple(f" {spelling}" for spelling in plain.split(";") if spelling)
    UNITS[name] = dimension, Fraction(size), tuple(latex.split(";")) if latex else roman, (f" {name}", *plain_spellings)


for symbol, dimension, word in (
    ("m", "length", "meters"),
    ("g", "mass", "grams"),
    ("s", "time", "seconds"),
    ("N", "force", "newtons"),
    ("J", "energy", "joules"),
    ("W", "power", "watts"),
    ("V", "voltage", "volts"),
    ("A", "current", "amperes"),
    ("T", "field", ""),
    ("F", "capacity", ""),
    ("Pa", "pressure", ""),
    ("Hz", "frequency", "hertz"),
    ("C", "charge", "coulombs"),
):
    unit(symbol, dimension, 1, plain=word)
for symbol, dimension, size, word in (
    ("km", "length", "1000", "kilometers"),
    ("cm", "length", "1/100", "centimeters"),
    ("mm", "length", "1/1000", "millimeters"),
    ("kg", "mass", "1000", "kilograms"),
    ("mg", "mass", "1/1000", ""),
    ("ms", "time", "1/1000", "milliseconds"),
    ("min", "time", "60", "minutes"),
    ("h", "time", "3600", "hours"),
    ("kN", "force", "1000", ""),
    ("kJ", "energy", "1000", ""),
    ("kW", "power", "1000", "kilowatts"),
    ("MW", "power", "1000000", ""),
    ("mV", "voltage", "1/1000", ""),
    ("mA", "current", "1/1000", ""),
    ("mT", "field", "1/1000", ""),
    ("kPa", "pressure", "1000", ""),
    ("kHz", "frequency", "1000", ""),
    ("MHz", "frequency", "1000000", ""),
    ("L", "volume", "1/1000", "liters"),
    ("mL", "volume", "1/1000000", ""),
    ("m/s", "speed", "1", "meters per second"),
    ("km/h", "speed", "5/18", "kilometers per hour"),
):
    unit(symbol, dimension, size, plain=word)
for symbol, dimension in (
    ("T", "field"),
    ("m", "length"),
    ("A", "current"),
    ("F", "capacity"),
    ("C", "charge"),
    ("s", "time"),
):
    unit(
        f"μ{symbol}",
        dimension,
        "1/1000000",
        rf"\ \mu\mathrm{{{symbol}}};\,\mu \text{{{symbol}}};\ \mathrm{{\mu {symbol}}}",
        f"µ{symbol}",
    )
for symbol, dimension, size, latex, plain in (
    ("m^2", "area", "1", r"\ \mathrm{m}^2;\text{ m}^2;\ \mathrm{m^{2}}", "m²;square meters"),
    ("cm^2", "area", "1/10000", r"\ \mathrm{cm}^2;\text{ cm}^2;\text{ cm}^{2}", "cm²;square centimeters"),
    ("m^3", "volume", "1", r"\ \mathrm{m}^3;\text{ m}^3", "m³;cubic meters"),
    ("cm^3", "volume", "1/1000000", r"\ \mathrm{cm}^3;\text{ cm}^3", "cm³;cubic centimeters"),
    ("m/s^2", "acceleration", "1", r"\ \mathrm{m/s^2};\text{ m/s}^2;\ \mathrm{m\,s^{-2}}", "m/s²"),
    ("kg/m^3", "density", "1", r"\ \mathrm{kg/m^3};\text{ kg/m}^3", "kg/m³"),
    ("g/cm^3", "density", "1000", r"\ \mathrm{g/cm^3};\text{ g/cm}^3", "g/cm³"),
    ("ohm", "resistance", "1", r"\ \Omega;\,\Omega", "Ω;ohms"),
    ("kohm", "resistance", "1000", r"\ \mathrm{k}\Omega;\,\text{k}\Omega", "kΩ"),
    ("degrees", "angle", "1", r"^\circ;^{\circ};\text{ degrees}", ""),
    ("dollars", "dollars", "1", r"\text{ dollars};\ \text{USD}", "USD"),
    ("cents", "dollars", "1/100", r"\text{ cents}", ""),
    ("euros", "euros", "1", r"\text{ euros}", "EUR"),
    ("米", "length", "1", r"\text{米};\text{ 米}", "m"),
    ("千米", "length", "1000", r"\text{千米}", "公里"),
    ("厘米", "length", "1/100", r"\text{厘米}", ""),
    ("千克", "mass", "1000", r"\text{千克}", "公斤"),
    ("克", "mass", "1", r"\text{克}", ""),
    ("小时", "time", "3600", r"\text{小时}", ""),
    ("分钟", "time", "60", r"\text{分钟}", ""),
    ("平方米", "area", "1", r"\text{平方米}", ""),
    ("元", "yuan", "1", r"\text{元}", ""),
):
    unit(symbol, dimension, size, latex, plain)
SCIENTIFIC = ("field", "charge", "capacity", "current", "power", "energy", "frequency")


@dataclass(frozen=True)
class Quantity:
    """An exact decimal with a unit."""

    value: Fraction
    unit: str
    kind = "quantity"

    @property
    def dimension(self) -> str:
        return UNITS[self.unit][0]

    def forms(self, rng: Random) -> dict[str, Writer]:
        forms = {"same unit": self.writer(rng)}
        siblings = [
            name for name, (dimension, *_) in UNITS.items() if dimension == self.dimension and name != self.unit
        ]
        rng.shuffle(siblings)
        chinese = self.unit > "一"
        siblings = [name for name in siblings if chinese or name < "一" or UNITS[name][1] == UNITS[self.unit][1]]
        for name in siblings[:2]:
            converted = Quantity(self.value * UNITS[self.unit][1] / UNITS[name][1], name)
            if decimal(converted.value) and Fraction(1, 100) <= abs(converted.value) <= 10**7:
                forms["converted"] = converted.writer(rng)
        if self.dimension in SCIENTIFIC and (standard := self.in_notation(rng)):
            forms["scientific notation"] = standard
        if self.unit == "dollars":
            text = decimal(self.value) if self.value.denominator == 1 else f"{float(self.value):.2f}"
            forms["currency sign"] = lambda style: rf"\${text}" if style.latex else f"${text}"
        return forms

    def in_notation(self, rng: Random) -> Writer | None:
        """Return a writer such as `1.2 x 10^-5 T`, in the base unit."""
        base = next(name for name, (dimension, size, *_) in UNITS.items() if dimension == self.dimension and size == 1)
        value = self.value * UNITS[self.unit][1]
        exponent = math.floor(math.log10(value))
        if exponent in (0, 1):
            return None
        digits = value / Fraction(10) ** exponent
        latex, plain = scientific_texts(digits, exponent)[rng.choice(("scientific", "scientific with a dot"))]
        return Quantity(Fraction(1), base).writer(rng, latex, plain)

    def writer(self, rng: Random, latex_number: str = "", plain_number: str = "") -> Writer:
        _, _, latex, plain = UNITS[self.unit]
        latex_unit, plain_unit = rng.choice(latex), rng.choice(plain)
        if not plain_unit.isascii() and any("一" <= letter <= "鿿" for letter in plain_unit):
            plain_unit = plain_unit.strip()
        if self.unit == "degrees":
            plain_unit = rng.choice(("°", " degrees"))
        number = decimal(self.value)
        return lambda style: (
            (latex_number or number) + latex_unit if style.latex else (plain_number or number) + plain_unit
        )

    def mutations(self, rng: Random) -> dict[str, "Quantity"]:
        _, size, *_ = UNITS[self.unit]
        siblings = [
            name for name, (dimension, other, *_) in UNITS.items() if dimension == self.dimension and other != size
        ]
        strangers = [name for name, (dimension, *_) in UNITS.items() if dimension != self.dimension]
        mutations = {
            "value": replace(self, value=self.value + rng.choice((1, 2, -1, 10))),
            "unit": replace(self, unit=rng.choice(strangers)),
            "scale": replace(self, value=self.value * rng.choice((10, 1000))),
        }
        if siblings:
            other = rng.choice(siblings)
            mutations["scale of unit"] = replace(self, unit=other)
            wrong = Quantity(self.value / size * UNITS[other][1], other)
            if decimal(wrong.value) and abs(wrong.value) < 10**7:
                mutations["converted the wrong way"] = wrong
        return mutations

    def unequal(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return False
        amounts = self.value * UNITS[self.unit][1], other.value * UNITS[other.unit][1]
        return (self.dimension != other.dimension and any(amounts)) or amounts[0] != amounts[1]


def draw_quantity(rng: Random) -> Quantity:
    value = rng.choice(
        (Fraction(rng.randint(2, 300)), Fraction(rng.randint(11, 999), 10), Fraction(rng.randint(1, 80) * 25))
    )
    return Quantity(value, rng.choice(list(UNITS)))
