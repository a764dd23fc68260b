# ruff: noqa: RUF001 - answers in Unicode
"""Numbers: integers, fractions, decimals, percents, surds, multiples of pi, powers, logarithms, complex numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from answers.spelling import SUPERSCRIPTS, Style, write
from answers.trees import (
    Fn,
    Num,
    Pow,
    Tree,
    add,
    changes,
    different,
    divide,
    minus,
    mul,
    num,
    power,
    reorder,
    root,
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
    """Return a random change of one node that `certain` confirms to matter; rare sorts are as likely as common ones."""
    candidates: dict[str, list[Tree]] = {}
    for name, changed in changes(tree):
        candidates.setdefault(name, []).append(changed)
    for name in rng.sample(list(candidates), len(candidates)):
        for changed in rng.sample(candidates[name], len(candidates[name])):
            if certain(changed):
                return name, changed
    return None


@dataclass(frozen=True)
class Number:
    """A number without unknowns; `spellings` are texts of the same number that no tree gives."""

    tree: Tree
    rewrites: tuple[tuple[str, Tree], ...] = ()
    spellings: tuple[tuple[str, str, str], ...] = ()  # name, LaTeX, plain
    notation: tuple[Fraction, int] | None = None  # digits and exponent, of a number in scientific notation
    kind = "number"

    def forms(self, rng: Random) -> dict[str, Writer]:
        forms = {
            name: (lambda style, latex=latex, plain=plain: latex if style.latex else plain)
            for name, latex, plain in self.spellings
        }
        if not self.notation:
            forms["written out"] = writer(self.tree)
        elif 0 < self.notation[1] < 9:
            forms["written out"] = lambda style: f"{int(self.tree.value):,}" if style.careful else f"{self.tree.value}"
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
        if self.notation:
            digits, exponent = self.notation
            return {
                "sign": scientific(-digits, exponent),
                "exponent": scientific(digits, exponent + rng.choice((-1, 1))),
                "sign of the exponent": scientific(digits, -exponent),
                "digits": scientific(digits + Fraction(rng.choice((-1, 1, 10)), 100), exponent),
            }
        mutations: dict[str, Number | Raw] = {"sign": Number(minus(num(0), self.tree))}
        if isinstance(self.tree, Num):
            value = self.tree.value
            mutations |= {
                "value": rational(value + rng.choice((-2, -1, 1, 2, 10))),
                "scale of ten": rational(value * rng.choice((Fraction(10), Fraction(1, 10)))),
                "hundredfold": rational(value * rng.choice((Fraction(100), Fraction(1, 100)))),
                "two values": Raw(
                    rf"{write_plain(value)} \text{{ or }} {write_plain(value + 1)}",
                    f"{write_plain(value)} or {write_plain(value + 1)}",
                ),
            }
            if value.denominator > 1:
                mutations["inverted"] = rational(1 / value) if value else self
                mutations["numerator"] = rational(Fraction(value.numerator + 1, value.denominator))
        else:
            for _ in range(3):
                if change := pick_change(self.tree, rng, lambda tree: different(tree, self.tree)):
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


def scientific_texts(digits: Fraction, exponent: int) -> dict[str, tuple[str, str]]:
    """Return `digits` times a power of ten in scientific notation, in LaTeX and in plain text."""
    mantissa, shifted = decimal(digits), decimal(digits * 10)
    above = str(exponent).translate(SUPERSCRIPTS)
    return {
        "scientific": (rf"{mantissa} \times 10^{{{exponent}}}", f"{mantissa} × 10^{exponent}"),
        "scientific with a dot": (rf"{mantissa}\cdot 10^{{{exponent}}}", f"{mantissa}·10{above}"),
        "scientific with e": (f"{mantissa}e{exponent}", f"{mantissa}e{exponent}"),
        "scientific with a star": (rf"{mantissa}\times10^{{{exponent}}}", f"{mantissa}*10^{exponent}"),
        "scientific, shifted": (rf"{shifted} \times 10^{{{exponent - 1}}}", f"{shifted} x 10^{exponent - 1}"),
    }


def scientific(digits: Fraction, exponent: int) -> Number:
    """Return a number such as 6.02e23."""
    spellings = tuple((name, *texts) for name, texts in scientific_texts(digits, exponent).items())
    return Number(Num(digits * Fraction(10) ** exponent), (), spellings, (digits, exponent))


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
            return scientific(Fraction(rng.randint(101, 999), 100), rng.choice((-19, -12, -7, -5, 5, 6, 8, 11, 23)))
        case "complex":
            real, imaginary = rng.randint(-9, 9) or 1, rng.randint(-9, 9) or 2
            return Number(add(real, mul(imaginary, "i")))
    return Number(
        add(rng.randint(1, 5), mul(rng.choice((-1, 2, Fraction(1, 2))), power("e", rng.choice((-2, -1, 2, 3)))))
    )
