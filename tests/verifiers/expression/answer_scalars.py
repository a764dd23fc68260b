# ruff: noqa: RUF001 - answers in Unicode
"""Answers that are one value: numbers, quantities, expressions with free symbols, and functions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random

from answer_spelling import Style, write
from answer_trees import (
    Fn,
    Num,
    Pow,
    Sum,
    Sym,
    Tree,
    add,
    applied,
    changes,
    derivative,
    different,
    divide,
    minus,
    mul,
    num,
    power,
    reorder,
    root,
    substitute,
    symbols,
)

Writer = Callable[[Style], str]


@dataclass(frozen=True)
class Raw:
    """A wrong answer of another type: its texts, known to be unequal by what they are."""

    latex: str
    plain: str

    def forms(self, rng: Random) -> dict[str, Writer]:
        return {"as it is": lambda style: self.latex if style.latex else self.plain}


def writer(tree: Tree) -> Writer:
    return lambda style: write(tree, style)


def pick_change(tree: Tree, rng: Random, certain: Callable[[Tree], bool]) -> tuple[str, Tree] | None:
    """Return a random change of one node that `certain` confirms to matter."""
    candidates = list(changes(tree))
    rng.shuffle(candidates)
    return next(((name, changed) for name, changed in candidates if certain(changed)), None)


@dataclass(frozen=True)
class Number:
    """A number without unknowns; `spellings` are texts of the same number that no tree gives."""

    tree: Tree
    rewrites: tuple[tuple[str, Tree], ...] = ()
    spellings: tuple[tuple[str, str, str], ...] = ()  # name, LaTeX, plain
    kind = "number"

    def forms(self, rng: Random) -> dict[str, Writer]:
        forms = {
            name: (lambda style, latex=latex, plain=plain: latex if style.latex else plain)
            for name, latex, plain in self.spellings
        }
        if "written out" not in forms:
            forms["written out"] = writer(self.tree)
        if not isinstance(self.tree, Num):
            forms["reordered"] = writer(reorder(self.tree, rng))
        forms |= {name: writer(tree) for name, tree in self.rewrites}
        if isinstance(self.tree, Num):
            name = rng.choice("xyatnk")
            write_value = forms[next(iter(forms))]
            forms["named"] = lambda style: f"{name} = {write_value(style)}"
            forms["aligned"] = lambda style: (
                rf"\begin{{aligned}} {name} &= {write_value(style)} \end{{aligned}}"
                if style.latex
                else f"{name} = {write_value(style)}"
            )
        return forms

    def mutations(self, rng: Random) -> dict[str, "Number | Raw"]:
        mutations: dict[str, Number | Raw] = {"sign": Number(minus(num(0), self.tree))}
        if isinstance(self.tree, Num):
            value = self.tree.value
            mutations |= {
                "value": rational(value + rng.choice((-2, -1, 1, 2, 10))),
                "scale of ten": rational(value * 10),
                "hundredfold": rational(value * rng.choice((Fraction(100), Fraction(1, 100)))),
                "two values": Raw(
                    rf"{write_plain(value)} \text{{ or }} {write_plain(value + 1)}",
                    f"{write_plain(value)} or {write_plain(value + 1)}",
                ),
            }
            if value.denominator > 1:
                mutations["inverted"] = rational(1 / value) if value else self
                mutations["numerator"] = rational(Fraction(value.numerator + 1, value.denominator))
        elif change := pick_change(self.tree, rng, lambda tree: different(tree, self.tree)):
            mutations[change[0]] = Number(change[1])
        return mutations

    def unequal(self, other: object) -> bool:
        if isinstance(other, Number) and isinstance(self.tree, Num) and isinstance(other.tree, Num):
            return self.tree.value != other.tree.value
        return isinstance(other, Raw) or (isinstance(other, Number) and different(self.tree, other.tree))


def write_plain(value: Fraction) -> str:
    return decimal(value) or f"{value.numerator}/{value.denominator}"


def decimal(value: Fraction) -> str | None:
    """Return the exact decimal of at most five places, or None."""
    if (value * 100000).denominator > 1:
        return None
    whole, rest = divmod(abs(value) * 100000, 100000)
    places = f"{int(rest):05d}".rstrip("0")
    return ("-" if value < 0 else "") + f"{int(whole)}" + (f".{places}" if places else "")


def rational(value: Fraction, first: str = "") -> Number:
    """Return a rational number with every usual spelling; `first` names the one that a target has."""
    spellings: dict[str, tuple[str, str]] = {}
    sign, size = ("-" if value < 0 else ""), abs(value)
    over, under = size.numerator, size.denominator
    places = decimal(value)
    if under > 1:
        spellings["fraction"] = (rf"{sign}\frac{{{over}}}{{{under}}}", f"{sign}{over}/{under}")
        spellings["scaled fraction"] = (rf"{sign}\frac{{{3 * over}}}{{{3 * under}}}", f"{sign}{2 * over}/{2 * under}")
        spellings["display fraction"] = (rf"{sign}\dfrac{{{over}}}{{{under}}}", f"{sign}({over}/{under})")
        if value < 0:
            spellings["sign in the numerator"] = (rf"\frac{{-{over}}}{{{under}}}", f"(-{over})/{under}")
        if over < 10 and under < 10:
            spellings["fraction without braces"] = (rf"{sign}\frac{over}{under}", f"{sign}{over}/{under}")
        if over > under and under < 20:
            whole, rest = divmod(over, under)
            spellings["mixed number"] = (rf"{sign}{whole}\frac{{{rest}}}{{{under}}}", f"{sign}{whole} {rest}/{under}")
    else:
        spellings["integer"] = (f"{value}", f"{value}")
        spellings["trailing zero"] = (f"{value}.0", f"{value}.0")
        if size >= 1000:
            spellings["thousands"] = (f"{sign}{over:,}".replace(",", "{,}"), f"{sign}{over:,}")
            spellings["thousands by commas"] = (f"{sign}{over:,}", f"{sign}{over:,}")
            spellings["thousands by spaces"] = (
                f"{sign}{over:,}".replace(",", r"\,"),
                f"{sign}{over:,}".replace(",", " "),
            )
    if places and under > 1:
        spellings["decimal"] = (places, places)
        spellings["decimal with a trailing zero"] = (f"{places}0", f"{places}0")
        if size < 1:
            spellings["decimal without zero"] = (places.replace("0.", ".", 1), places.replace("0.", ".", 1))
        if (percent := decimal(value * 100)) and size < 3:
            spellings["percent"] = (rf"{percent}\%", f"{percent}%")
            spellings["percent in words"] = (rf"{percent} \text{{ percent}}", f"{percent} percent")
    if first in spellings:
        spellings = {first: spellings[first]} | spellings
    return Number(Num(value), (), tuple((name, *texts) for name, texts in spellings.items()))


def scientific(rng: Random) -> Number:
    """Return a number such as 6.02e23."""
    digits, exponent = Fraction(rng.randint(101, 999), 100), rng.choice((-19, -12, -7, -5, 5, 6, 8, 11, 23))
    mantissa, shifted = decimal(digits), decimal(digits * 10)
    above = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    spellings = (
        ("scientific", rf"{mantissa} \times 10^{{{exponent}}}", f"{mantissa} × 10^{exponent}"),
        ("scientific with a dot", rf"{mantissa}\cdot 10^{{{exponent}}}", f"{mantissa}·10{above}"),
        ("scientific with e", f"{mantissa}e{exponent}", f"{mantissa}e{exponent}"),
        ("scientific with a star", rf"{mantissa}\times10^{{{exponent}}}", f"{mantissa}*10^{exponent}"),
        ("scientific, shifted", rf"{shifted} \times 10^{{{exponent - 1}}}", f"{shifted} x 10^{exponent - 1}"),
    )
    return Number(Num(digits * Fraction(10) ** exponent), (), spellings)


def draw_number(rng: Random) -> Number:
    """Return a random number of a random family."""
    small, other = rng.randint(2, 9), rng.randint(2, 12)
    prime_number = rng.choice((2, 3, 5, 6, 7))
    match rng.choice(
        (
            "integer",
            "large",
            "fraction",
            "fraction",
            "decimal",
            "percent",
            "surd",
            "binomial surd",
            "pi",
            "pi sum",
            "power",
            "log",
            "ratio of logs",
            "scientific",
            "complex",
            "e",
        )
    ):
        case "integer":
            return rational(Fraction(rng.randint(-40, 200)))
        case "large":
            return rational(Fraction(rng.randint(1000, 3_000_000)))
        case "fraction":
            return rational(Fraction(rng.choice((-1, 1, 1)) * rng.randint(1, 30), rng.randint(2, 17)))
        case "decimal":
            return rational(Fraction(rng.randint(1, 5000), rng.choice((10, 100, 1000))), "decimal")
        case "percent":
            return rational(Fraction(rng.randint(1, 999), 1000), "percent")
        case "surd":
            factor = Fraction(rng.choice((-1, 1, 1)) * small, rng.choice((1, 1, 3, 5)))
            whole = factor * prime_number
            rewrites = [("rationalised the other way", divide(whole, root(prime_number)))]
            if factor.denominator == 1 and factor > 0:
                rewrites.append(("under one root", root(factor**2 * prime_number)))
            rewrites.append(("fractional exponent", mul(factor, Pow(num(prime_number), num(1, 2)))))
            return Number(mul(factor, root(prime_number)), tuple(rewrites[:2]))
        case "binomial surd":
            tree = add(rng.choice((-1, 1)) * small, mul(rng.choice((-1, 1)) * rng.randint(1, 4), root(prime_number)))
            if rng.random() < 0.5:
                return Number(divide(tree, other), (("split", add(*(divide(term, other) for term in tree.terms))),))
            return Number(tree)
        case "pi":
            factor = Fraction(rng.choice((-1, 1, 1)) * small, rng.choice((1, 2, 3, 4, 6, 12)))
            return Number(mul(factor, "pi"))
        case "pi sum":
            return Number(add(rng.randint(1, 20), mul(rng.choice((-4, -2, -1, 3, Fraction(1, 2))), "pi")))
        case "power":
            exponent = rng.randint(3, 30)
            rewrites = (
                (("square as base", power(small**2, exponent // 2)),)
                if exponent % 2 == 0
                else (("one factor apart", mul(small, power(small, exponent - 1))),)
            )
            tree = Pow(num(small), num(exponent))
            return Number(tree, rewrites)
        case "log":
            return Number(
                Fn("ln", num(small * other)), (("sum of logs", add(Fn("ln", num(small)), Fn("ln", num(other)))),)
            )
        case "ratio of logs":
            base = rng.choice((2, 3))
            return Number(
                Fn(f"log_{base}", num(other + 4)),
                (("other base", divide(Fn("ln", num(other + 4)), Fn("ln", num(base)))),),
            )
        case "scientific":
            return scientific(rng)
        case "complex":
            real, imaginary = rng.randint(-9, 9) or 1, rng.randint(-9, 9) or 2
            return Number(add(real, mul(imaginary, "i")))
    return Number(
        add(rng.randint(1, 5), mul(rng.choice((-1, 2, Fraction(1, 2))), power("e", rng.choice((-2, -1, 2, 3)))))
    )


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
PREFIXES = {"m": "kmcμ", "g": "km"}


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
        if self.unit == "dollars":
            text = decimal(self.value) if self.value.denominator == 1 else f"{float(self.value):.2f}"
            forms["currency sign"] = lambda style: rf"\${text}" if style.latex else f"${text}"
        return forms

    def writer(self, rng: Random) -> Writer:
        _, _, latex, plain = UNITS[self.unit]
        latex_unit, plain_unit = rng.choice(latex), rng.choice(plain)
        if not plain_unit.isascii() and any("一" <= letter <= "鿿" for letter in plain_unit):
            plain_unit = plain_unit.strip()
        if self.unit == "degrees":
            plain_unit = rng.choice(("°", " degrees"))
        return lambda style: decimal(self.value) + (latex_unit if style.latex else plain_unit)

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


@dataclass(frozen=True)
class Expression:
    """An expression with free symbols, and other trees of the same function."""

    tree: Tree
    rewrites: tuple[tuple[str, Tree], ...] = ()
    kind = "expression"

    def forms(self, rng: Random) -> dict[str, Writer]:
        forms = {"written out": writer(self.tree), "reordered": writer(reorder(self.tree, rng))}
        return forms | {name: writer(tree) for name, tree in self.rewrites}

    def mutations(self, rng: Random) -> dict[str, "Expression"]:
        mutations = {"sign of all": Expression(minus(num(0), self.tree))}
        for _ in range(3):
            source = rng.choice((self.tree, *(tree for _, tree in self.rewrites)))
            if change := pick_change(source, rng, lambda tree: different(tree, self.tree)):
                mutations[change[0]] = Expression(change[1])
        return mutations

    def unequal(self, other: object) -> bool:
        return isinstance(other, Expression) and different(self.tree, other.tree)


def polynomial(coefficients: list[int], variable: str) -> Tree:
    """Return the polynomial with these coefficients, the highest first."""
    degree = len(coefficients) - 1
    terms = (
        mul(factor, power(variable, degree - place) if place < degree else 1)
        for place, factor in enumerate(coefficients)
    )
    return add(*terms)


def draw_expression(rng: Random) -> Expression:
    """Return a random expression of a random family."""
    x = rng.choice("xtyak")
    a, b, c = (rng.choice((-1, 1)) * rng.randint(1, 7) for _ in range(3))
    k = rng.randint(2, 6)
    match rng.choice(
        (
            "product",
            "square",
            "cubic",
            "two variables",
            "rational",
            "partial fractions",
            "trig",
            "trig identity",
            "exp",
            "log",
            "indexed",
            "applied",
            "derivative",
            "sum",
            "physics",
            "root",
        )
    ):
        case "product":
            factored = mul(add(mul(k, x), a), add(x, b))
            return Expression(factored, (("expanded", polynomial([k, k * b + a, a * b], x)),))
        case "square":
            return Expression(power(add(x, a), 2), (("expanded", polynomial([1, 2 * a, a * a], x)),))
        case "cubic":
            return Expression(
                polynomial([k, a, b, c], x), (("Horner", add(mul(x, add(mul(x, add(mul(k, x), a)), b)), c)),)
            )
        case "two variables":
            y = rng.choice("bmn") if x == "a" else rng.choice("bmr")
            return Expression(add(mul(a, y, power(x, 2)), mul(b, y), mul(c, x)))
        case "rational":
            return Expression(
                divide(add(mul(k, x), a), add(power(x, 2), abs(b))),
                (("split", add(divide(mul(k, x), add(power(x, 2), abs(b))), divide(a, add(power(x, 2), abs(b))))),),
            )
        case "partial fractions":
            low, high = add(x, k), add(x, k + abs(a))
            return Expression(
                add(divide(1, low), divide(1, high)),
                (("common denominator", divide(add(mul(2, x), 2 * k + abs(a)), mul(low, high))),),
            )
        case "trig":
            return Expression(add(mul(a, Fn("sin", mul(k, x))), mul(b, Fn("cos", Sym(x)))))
        case "trig identity":
            return rng.choice(
                (
                    Expression(Fn("sin", mul(2, x)), (("double angle", mul(2, Fn("sin", Sym(x)), Fn("cos", Sym(x)))),)),
                    Expression(
                        add(1, mul(-1, power(Fn("sin", Sym(x)), 2))), (("Pythagoras", power(Fn("cos", Sym(x)), 2)),)
                    ),
                    Expression(Fn("tan", Sym(x)), (("quotient", divide(Fn("sin", Sym(x)), Fn("cos", Sym(x)))),)),
                )
            )
        case "exp":
            decay = mul(-k, x)
            return Expression(
                add(mul(abs(a) + 1, power("e", decay)), b),
                (("negative exponent as fraction", add(divide(abs(a) + 1, power("e", mul(k, x))), b)),),
            )
        case "log":
            return Expression(
                add(mul(a, x, Fn("ln", Sym(x))), mul(b, x)), (("factored", mul(x, add(mul(a, Fn("ln", Sym(x))), b))),)
            )
        case "indexed":
            name = rng.choice("xam")
            return Expression(add(mul(k, f"{name}_1"), mul(-1, power(f"{name}_2", 2)), mul(a, f"{name}_3")))
        case "applied":
            letter, rate = (
                rng.choice(("I", "V", "N", "Q")),
                rng.choice((divide("t", mul("R", "C")), mul("lambda", "t"), mul(k, "t"))),
            )
            return Expression(
                mul(applied(letter, "0"), power("e", mul(-1, rate))),
                (("as a fraction", divide(applied(letter, "0"), power("e", rate))),),
            )
        case "derivative":
            return Expression(add(mul(k, derivative("y", "x")), mul(a, power("x", 2))))
        case "sum":
            body = power("k", rng.choice((1, 2)))
            closed = (
                divide(mul("n", add("n", 1)), 2)
                if body == Sym("k")
                else divide(mul("n", add("n", 1), add(mul(2, "n"), 1)), 6)
            )
            return Expression(
                mul(abs(a), Sum(body, "k", Sym("n"))),
                (
                    ("index renamed", mul(abs(a), Sum(substitute(body, "k", Sym("j")), "j", Sym("n")))),
                    ("closed form", mul(abs(a), closed)),
                ),
            )
        case "physics":
            return rng.choice(
                (
                    Expression(mul(num(1, 2), "m", power("v", 2))),
                    Expression(divide(mul("G", "m_1", "m_2"), power("r", 2))),
                    Expression(add(mul("v", "t"), mul(num(1, 2), "a", power("t", 2)))),
                    Expression(mul(2, "pi", root(divide("L", "g")))),
                    Expression(mul(num(4, 3), "pi", power("r", 3))),
                )
            )
    k = rng.choice((2, 3, 5))
    return Expression(
        root(add(power(x, 2), abs(a))),
        (("factored out", mul(root(add(mul(k, power(x, 2)), k * abs(a))), divide(1, root(k)))),),
    )


@dataclass(frozen=True)
class Function:
    """A function by its rule, such as `f(x) = x + 1`."""

    name: str
    parameter: str
    body: Expression
    kind = "function"

    def forms(self, rng: Random) -> dict[str, Writer]:
        other = rng.choice(
            [letter for letter in "xtzus" if letter != self.parameter and letter not in symbols(self.body.tree)]
        )
        forms = {}
        for form, write_body in self.body.forms(rng).items():
            forms["definition" if form == "written out" else form] = self.define(self.name, self.parameter, write_body)
        renamed = substitute(self.body.tree, self.parameter, Sym(other))
        forms["parameter renamed"] = self.define(self.name, other, writer(renamed))
        forms["rule only"] = writer(self.body.tree)
        return forms

    @staticmethod
    def define(name: str, parameter: str, write_body: Writer) -> Writer:
        return lambda style: f"{name}{style.parens(parameter)} = {write_body(style)}"

    def mutations(self, rng: Random) -> dict[str, "Function | Defined"]:
        mutations: dict[str, Function | Defined] = {}
        for name, changed in self.body.mutations(rng).items():
            mutations[name] = replace(self, body=changed)
        body, x = self.body.tree, self.parameter
        shifted = substitute(body, x, add(x, 1))
        if different(shifted, body):
            mutations["at another argument"] = Defined(f"{self.name}({x}+1)", body)
        mutations["derivative of it"] = Defined(f"{self.name}'({x})", body)
        mutations["parameter not renamed"] = Defined(f"{self.name}({'t' if x != 't' else 's'})", body)
        return mutations

    def unequal(self, other: object) -> bool:
        if isinstance(other, Defined):
            return True
        return (
            isinstance(other, Function)
            and (other.name == self.name)
            and different(self.body.tree, substitute(other.body.tree, other.parameter, Sym(self.parameter)))
        )


@dataclass(frozen=True)
class Defined:
    """The same rule for something else: another argument or the derivative."""

    left: str
    body: Tree

    def forms(self, rng: Random) -> dict[str, Writer]:
        return {"definition": lambda style: f"{self.left} = {write(self.body, style)}"}


def draw_function(rng: Random) -> Function:
    """Return a function of one variable whose rule has no other unknown and is no solution of f' = f."""
    while True:
        body = draw_expression(rng)
        if len(symbols(body.tree)) == 1:
            (parameter,) = symbols(body.tree)
            if parameter in "xty" and body.rewrites:
                return Function(rng.choice("fgh"), parameter, body)
