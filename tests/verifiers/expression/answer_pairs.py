"""Pairs of answers with known truth, by construction: a typed value, written twice, or written and then changed.

The generator knows nothing of the verifier: it computes truth from the values (exact fractions, canonical forms of
sets, evaluation at points, points that solve one relation and not the other). A change that its own arithmetic cannot
tell from the value is not yielded, nor is what the verifier's policies leave open: rounded decimals, a unit on one side
only, letter case. To see some:

    python tests/verifiers/expression/answer_pairs.py interval 20
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from answers.functions import draw_expression, draw_function
from answers.numbers import draw_number
from answers.quantities import draw_quantity
from answers.real_sets import RealSet, draw_real_set
from answers.relations import draw_equation, draw_relation
from answers.spelling import DIALECTS, Style, denied, wrap
from answers.tuples import draw_list, draw_matrix, draw_point, draw_set
from answers.words import FAMILIES, Text, draw_choice, draw_text

DRAWS: dict[str, Callable[[Random], Any]] = {
    "number": draw_number,
    "quantity": draw_quantity,
    "expression": draw_expression,
    "function": draw_function,
    "equation": draw_equation,
    "relation": draw_relation,
    "interval": draw_real_set,
    "set": draw_set,
    "list": draw_list,
    "point": draw_point,
    "matrix": draw_matrix,
    "choice": draw_choice,
    "text": draw_text,
}
KINDS = tuple(DRAWS)
# Kinds of different groups have no answer in common.
GROUPS = (
    ("number", "quantity", "expression", "function", "equation", "relation"),
    ("interval", "set", "list", "point"),
    ("matrix",),
    ("choice", "text"),
)
# Strings that game verifiers which collapse an answer to a truth value or an empty set.
CONTRADICTIONS = ("1=2", r"x\in\emptyset", r"\{\}", r"\emptyset", "False", "no solution")
TAUTOLOGIES = ("0=0", "x=x", "True", r"e<\pi", "2<3", "1=1")
NONSENSE = (
    r"\text{undefined}",
    "nan",
    "None",
    "I don't know",
    "?",
    r"\infty = \infty",
    "0/0",
    r"\frac{1}{0}",
    r"\ldots",
    "=",
)
# Forms that an answer has, but no target.
ANSWERS_ONLY = (
    "aligned",
    "each named, reordered",
    "parameter renamed",
    "percent in words",
    "in words",
    "rule only",
    "bold",
    "bold words",
    "option",
    "quotes",
    "Chinese enumeration",
)


@dataclass(frozen=True)
class Pair:
    """Two answers and whether they are equal; `change` names the mutation or the form, the dialect and the wrapper."""

    kind: str
    target: str
    predict: str
    equal: bool
    change: str


def pairs(count: int, seed: int) -> Iterator[Pair]:
    """Yield `count` pairs, balanced over the kinds, every other one of a kind equal; the same for the same seed."""
    for index in range(count):
        rng = Random(f"{seed}/{index}")
        kind = KINDS[index % len(KINDS)]
        make = equal_pair if index // len(KINDS) % 2 == 0 else unequal_pair
        pair = None
        while pair is None:
            pair = make(DRAWS[kind](rng), kind, rng)
        yield pair


def equal_pair(value: Any, kind: str, rng: Random) -> Pair | None:
    """Return a value written twice; None if it was written the same way."""
    forms = value.forms(rng)
    target = write_target(value, forms, rng)
    name = rng.choice(list(forms))
    style = Style(rng.choice(DIALECTS), rng)
    wrapper, predict = wrap(forms[name](style), style, scalar=target_unnamed(kind, target))
    return Pair(kind, target, predict, True, f"{name} | {style.dialect} | {wrapper}") if predict != target else None


def target_unnamed(kind: str, target: str) -> bool:
    """Return whether `x equals …` answers a target: it is one value and names no other unknown."""
    return kind in ("number", "quantity") and "=" not in target


def unequal_pair(value: Any, kind: str, rng: Random) -> Pair | None:
    """Return a value and a wrong answer; None if the change does not surely make it wrong."""
    forms = value.forms(rng)
    target = write_target(value, forms, rng)
    style = Style(rng.choice(DIALECTS), rng)
    chance = rng.random()
    if chance < 0.08:
        return Pair(kind, target, fixed_string(value, rng), False, "fixed string")
    if chance < 0.10:
        return Pair(kind, target, rng.choice(("", " ", "$$", r"\boxed{}")), False, "empty")
    if chance < 0.15:
        if isinstance(value, Text) and value.text in FAMILIES["yes or no"]:
            return None
        name = rng.choice(list(forms))
        text = forms[name](style)
        return Pair(kind, target, denied(text.rstrip("."), style), False, f"denied | {style.dialect} | {name}")
    if chance < 0.20:
        other_kind = rng.choice([name for group in GROUPS if kind not in group for name in group])
        change, wrong = "another kind", DRAWS[other_kind](rng)
    elif chance < 0.28:
        change, wrong = "another value", DRAWS[kind](rng)
        if not value.unequal(wrong):
            return None
    else:
        mutations = value.mutations(rng)
        change = rng.choice(list(mutations))
        wrong = mutations[change]
        if not value.unequal(wrong):
            return None
    wrong_forms = wrong.forms(rng)
    wrapper, predict = wrap(rng.choice(list(wrong_forms.values()))(style), style)
    return Pair(kind, target, predict, False, f"{change} | {style.dialect} | {wrapper}")


def write_target(value: Any, forms: dict[str, Any], rng: Random) -> str:
    """Return the value as data sets write it: mostly in LaTeX, mostly bare."""
    if hasattr(value, "target_forms"):
        forms = value.target_forms(forms)
    names = [name for name in forms if name not in ANSWERS_ONLY]
    name = names[0] if rng.random() < 0.6 else rng.choice(names)
    style = Style(rng.choice((*DIALECTS, "latex", "latex", "latex")), rng)
    return wrap(forms[name](style), style, calm=True)[1]


def fixed_string(value: Any, rng: Random) -> str:
    """Return a string that answers nothing, and is not what the value is."""
    if isinstance(value, Text):
        return rng.choice(NONSENSE)
    strings = NONSENSE + 2 * CONTRADICTIONS + 2 * TAUTOLOGIES
    if isinstance(value, RealSet) and not value.pieces:
        strings = (*TAUTOLOGIES, "?", "I don't know")
    elif isinstance(value, RealSet) and "in words" in value.forms(rng):
        strings = NONSENSE + CONTRADICTIONS
    return rng.choice(strings)


if __name__ == "__main__":
    for pair in pairs(len(KINDS) * int(sys.argv[2]), 0):
        if pair.kind == sys.argv[1]:
            print(f"{pair.target!r:60} {'==' if pair.equal else '<>'} {pair.predict!r:70} {pair.change}")
