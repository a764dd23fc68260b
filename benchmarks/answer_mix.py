"""Expressions as answers come: six in ten are option letters and numbers, a quarter fractions and amounts with units,
the rest LaTeX. Half of the answers are right, by construction, and often written otherwise than the target.
"""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple


class Pair(NamedTuple):
    target: str
    answer: str
    equal: bool
    kind: str


def pairs(seed: int, count: int) -> list[Pair]:
    """Draw pairs; another seed gives other pairs, so that no round repeats an earlier one."""
    dice = random.Random(seed)
    kinds = dice.choices(list(_SHARES), list(_SHARES.values()), k=count)
    drawn_pairs = []
    for kind in kinds:
        equal = dice.random() < 0.5
        target, answer = dice.choice(_MAKERS[kind])(dice, equal)
        drawn_pairs.append(Pair(f"${target}$", f"${answer}$", equal, kind))
    return drawn_pairs


_SHARES = {"letters and numbers": 60, "fractions and units": 25, "LaTeX": 15}
Maker = Callable[[random.Random, bool], tuple[str, str]]


def _letter(dice: random.Random, equal: bool) -> tuple[str, str]:
    right = dice.choice("ABCDE")
    answer = right if equal else dice.choice([letter for letter in "ABCDE" if letter != right])
    return right, dice.choice([answer, f"\\text{{{answer}}}", f"\\boxed{{{answer}}}"])


def _number(dice: random.Random, equal: bool) -> tuple[str, str]:
    right = dice.randint(-999, 99_999)
    answer = right if equal else right + dice.choice([-10, -1, 1, 7])
    return str(right), dice.choice([str(answer), f"{answer}.0", f"{answer:,}", f"x = {answer}"])


def _decimal(dice: random.Random, equal: bool) -> tuple[str, str]:
    right = dice.randint(1, 99_999)
    answer = right if equal else right + dice.choice([-1, 1, 100])
    return f"{right / 100:.2f}", dice.choice([f"{answer / 100:.2f}", f"{answer / 100:.3f}"])


def _fraction(dice: random.Random, equal: bool) -> tuple[str, str]:
    right = Fraction(dice.randint(1, 99), dice.randint(2, 99))
    answer = right if equal else right + Fraction(1, dice.randint(2, 99))
    times = dice.randint(1, 4)
    top, bottom = answer.numerator * times, answer.denominator * times
    return f"{right}", dice.choice([f"{top}/{bottom}", f"\\frac{{{top}}}{{{bottom}}}", f"\\dfrac{{{top}}}{{{bottom}}}"])


def _unit(dice: random.Random, equal: bool) -> tuple[str, str]:
    right = dice.randint(1, 5000)
    answer = right if equal else right + dice.randint(1, 9)
    return str(right), with_unit(dice.choice(["cm", "m", "kg", "m^2", "km/h", "degrees"]), answer)


def with_unit(unit: str, number: int) -> str:
    return f"{number}^\\circ" if unit == "degrees" else f"{number} \\text{{ {unit}}}"


def _percentage(dice: random.Random, equal: bool) -> tuple[str, str]:
    right = dice.randint(1, 99)
    return f"{right}\\%", f"{right if equal else right + dice.randint(1, 9)}\\%"


def _radical(dice: random.Random, equal: bool) -> tuple[str, str]:
    a, n = dice.randint(2, 12), dice.choice([2, 3, 5, 6, 7, 10, 11])
    return f"{a}\\sqrt{{{n}}}", f"\\sqrt{{{a * a * n + (0 if equal else 1)}}}"


def _with_pi(dice: random.Random, equal: bool) -> tuple[str, str]:
    a, b = dice.randint(1, 40), dice.randint(2, 12)
    return f"\\frac{{{a}\\pi}}{{{b}}}", f"\\frac{{{a if equal else a + 1}}}{{{b}}}\\pi"


def _polynomial(dice: random.Random, equal: bool) -> tuple[str, str]:
    a, b, c, d = (dice.randint(1, 9) for _ in range(4))
    last = b * d + (0 if equal else dice.randint(1, 9))
    return f"({a}x + {b})({c}x + {d})", f"{a * c}x^{{2}} + {a * d + b * c}x + {last}"


def _tuple(dice: random.Random, equal: bool) -> tuple[str, str]:
    a, b = dice.randint(-20, 20), dice.randint(21, 60)
    left, right = dice.choice([("(", ")"), ("[", ")"), ("\\{", "\\}")])
    answer = b if equal else b + 1
    return f"{left}{a}, {b}{right}", f"\\left{left}{a},\\frac{{{2 * answer}}}{{2}}\\right{right}"


def _equation(dice: random.Random, equal: bool) -> tuple[str, str]:
    a, b, c, times = dice.randint(1, 9), dice.randint(1, 9), dice.randint(1, 30), dice.randint(2, 4)
    return f"{a}x + {b}y = {c}", f"{times * a}x + {times * b}y - {times * c + (0 if equal else 1)} = 0"


def _function(dice: random.Random, equal: bool) -> tuple[str, str]:
    a, b = dice.randint(2, 9), dice.randint(2, 30)
    c = b if equal else b + 1
    return dice.choice(
        [
            (f"{b}\\sin {2 * a}x", f"{2 * c}\\sin {a}x\\cos {a}x"),
            (f"\\ln {a * b}", f"\\ln {a} + \\ln {c}"),
            (f"{b}e^{{-{a}t}}", f"\\frac{{{c}}}{{e^{{{a}t}}}}"),
            (f"{b}\\cos^2 x", f"{c} - {c}\\sin^2 x"),
        ]
    )


def _calculus(dice: random.Random, equal: bool) -> tuple[str, str]:
    a, n = dice.randint(2, 9), dice.randint(3, 20)
    more = 0 if equal else 1
    return dice.choice(
        [
            (f"\\int_0^{a} 2x \\, dx", str(a * a + more)),
            (f"\\sum_{{k=1}}^{{{n}}} {a}k", str(a * n * (n + 1) // 2 + more)),
            (_matrix("p", a, n), _matrix("b", a, n + more)),
        ]
    )


def _matrix(brackets: str, a: int, b: int) -> str:
    return f"\\begin{{{brackets}matrix}}{a}&0\\\\0&{b}\\end{{{brackets}matrix}}"


_LATEX = (_radical, 6), (_with_pi, 5), (_polynomial, 5), (_tuple, 5), (_equation, 3), (_function, 5), (_calculus, 2)
_MAKERS: dict[str, list[Maker]] = {
    "letters and numbers": [_letter, _letter, _number, _number, _decimal],
    "fractions and units": [_fraction, _fraction, _unit, _percentage],
    "LaTeX": [maker for maker, share in _LATEX for _ in range(share)],
}
