"""Relations read: names with their values, functions, intervals, memberships, chains and conjunctions.

A relation without unknowns (`1=2`, `x=x`, `e<\\pi`) becomes a word: it equals its own form and nothing else.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from rubricworks.verifiers.expression.amounts import INFINITY, MINUS_INFINITY, formula_tree
from rubricworks.verifiers.expression.relations import (
    as_region,
    half_line,
    intersection,
    is_constant,
    linear_region,
    name_of,
    relation_of,
    same_constants,
)
from rubricworks.verifiers.expression.tokens import TooHard, TooLarge
from rubricworks.verifiers.expression.trees import Tree, contains
from rubricworks.verifiers.expression.values import Amount, Answer, Assignment, Listing, Piece, Region, Word

Read = Callable[[str], Answer]
"""Reader of a side of a relation."""
SIGN = re.compile(r"\\(?:leq|geq|neq|in)(?![A-Za-z])|<=|>=|!=|[<>=]")
"""Signs of relations."""
_OPENINGS, _CLOSINGS = ("(", "[", "{", "\\begin"), (")", "]", "}", "\\end")
_MOST_ITEMS = 200
SIGNS = {
    "<": "<", ">": ">", "=": "=", "\\leq": "<=", "\\geq": ">=", "\\neq": "!=", "<=": "<=", ">=": ">=", "!=": "!=",
    "\\in": "in",
}  # fmt: skip
_MIRRORED = str.maketrans("<>", "><")


def amount_of(answer: Answer) -> Amount:
    if not isinstance(answer, Amount):
        raise TooHard("no amount")
    return answer


def piece_of(low: Amount, high: Amount, with_low: bool, with_high: bool) -> Piece:
    endless = (low.tree == MINUS_INFINITY, high.tree == INFINITY)
    if low.tree == INFINITY or high.tree == MINUS_INFINITY:
        raise TooHard("an interval beyond infinity")
    low_end, high_end = None if endless[0] else low, None if endless[1] else high
    return Piece(low_end, high_end, with_low and not endless[0], with_high and not endless[1])


def read_relation(body: str, sides: list[str], signs: list[str], fold: bool, read: Read) -> Answer:
    if "in" in signs:
        return _membership(body, sides, signs, fold, read)
    if set(signs) == {"="}:
        return _equation(body, sides, fold, read)
    if len(signs) == 1:
        return _inequality(body, signs[0], sides, fold, read)
    if {sign[0] for sign in signs} in ({"<"}, {">"}, {"<", "="}, {">", "="}):
        return _chain(body, sides, signs, fold, read)
    raise TooHard("a chain of relations")


def _chain(body: str, sides: list[str], signs: list[str], fold: bool, read: Read) -> Answer:
    """1 < x < 3 is an interval, 0 < a < b a conjunction of relations."""
    name = name_of(sides[1], fold) if len(signs) == 2 else None
    if name is not None and "=" not in signs:
        if signs[0][0] == ">":
            sides, signs = sides[::-1], [sign.replace(">", "<") for sign in signs[::-1]]
        low, high = amount_of(read(sides[0])), amount_of(read(sides[2]))
        if is_constant(low.tree) or is_constant(high.tree) or INFINITY in (low.tree, high.tree):
            piece = piece_of(low, high, signs[0] == "<=", signs[1] == "<=")
            region = Region((piece,), name.text)
            if piece.is_constant:
                return region if intersection(region, region) else unsolvable(body)
    pairs = pairwise(sides)
    return conjunction(
        body, [read_relation(body, list(pair), [sign], fold, read) for pair, sign in zip(pairs, signs, strict=True)]
    )


def conjunction(body: str, relations: list[Answer]) -> Answer:
    regions = [relation if isinstance(relation, Region) else as_region(relation) for relation in relations]
    known = [region for region in regions if region is not None]
    if len(known) == len(regions) and len({region.unknown for region in known}) == 1:
        common: Region | None = known[0]
        for region in known[1:]:
            common = common and intersection(common, region)
        return common or unsolvable(body)
    if any(isinstance(relation, Word) for relation in relations):
        raise TooHard("a relation without unknowns")
    return Listing("and", tuple(relations))


def _membership(body: str, sides: list[str], signs: list[str], fold: bool, read: Read) -> Answer:
    name = name_of(sides[0], fold)
    if name is None or len(signs) > 1:
        raise TooHard("membership")
    members = read(sides[1])
    region = as_region(members)
    if isinstance(members, Region | Listing) and region is not None:
        return replace(region, unknown=name.text)
    if isinstance(members, Amount) and not sides[1].startswith("\\mathbb"):
        raise TooHard("membership in a set without members")
    return Assignment(name.text, members, name.tree, name.parameters)


def unsolvable(body: str) -> Word:
    """A relation that is always true, or never: its own form and nothing else."""
    return Word(f"relation {''.join(body.split())}")


def _equation(body: str, sides: list[str], fold: bool, read: Read) -> Answer:
    names = [name_of(side, fold) for side in sides]
    if len(sides) == 2 and names[0] is None and names[1] and names[1].tree and _is_constant_text(sides[0], fold, read):
        sides, names = sides[::-1], names[::-1]  # 5 = x
    name = names[0]
    if name is None and len(sides) == 2:
        return _unsolved(body, sides, fold, read)
    value = read(sides[-1])
    others = [other for other in names[:-1] if other is not None and (other.tree is None or other.tree[0] == "s")]
    if isinstance(value, Amount) and is_constant(value.tree) and (name is None or len(others) > 1):
        trees = [formula_tree(side.strip(" $"), fold=fold) for side, each in zip(sides, names, strict=True) if not each]
        if all(map(is_constant, trees)) and not others:
            return _arithmetic(body, sides, trees, fold, read)
        values = tuple(Assignment(other.text, value, other.tree) for other in others)
        return Listing("bare", values) if name else values[-1]
    if name is None or (isinstance(value, Word) and value.text.startswith("relation ")):
        raise TooHard("a chain of equations")
    if isinstance(value, Amount) and name.tree and contains(value.tree, name.tree):
        return relation_of("=", name.tree, value.tree) or unsolvable(body)
    return Assignment(name.text, value, name.tree, name.parameters)


def _is_constant_text(side: str, fold: bool, read: Read) -> bool:
    try:
        return is_constant(formula_tree(side, fold=fold))
    except TooHard:
        return True  # no formula: a set, a quantity


def _unsolved(body: str, sides: list[str], fold: bool, read: Read) -> Answer:
    trees = [formula_tree(side.strip(" $"), fold=fold) for side in sides]
    if all(map(is_constant, trees)):
        return _arithmetic(body, sides, trees, fold, read)
    return relation_of("=", *trees) or unsolvable(body)


def _arithmetic(body: str, sides: list[str], trees: list[Tree], fold: bool, read: Read) -> Answer:
    """2 + 3 = 5 says 5; 1 = 2 and 5 = 5 say nothing."""
    is_true = all(same_constants(trees[0], tree) for tree in trees[1:])
    return read(sides[-1]) if is_true and trees[-1] not in trees[:-1] else unsolvable(body)


def _inequality(body: str, sign: str, sides: list[str], fold: bool, read: Read) -> Answer:
    """The interval of a linear inequality in one unknown; else a relation."""
    if not sides[0]:  # > 3
        return half_line(sign, amount_of(read(sides[1])), None)
    for side, other, of_side in ((*sides, sign), (*sides[::-1], sign.translate(_MIRRORED))):
        name = name_of(side, fold)
        bound = amount_of(read(other)) if name else None
        if name and bound and is_constant(bound.tree):
            return half_line(of_side, bound, name.text)
    relation = relation_of(sign, *(formula_tree(side, fold=fold) for side in sides))
    if relation is None:
        return unsolvable(body)
    return linear_region(relation) or relation


def closes_last(body: str) -> bool:
    """Return True if the first bracket is closed by the last."""
    depth = 0
    for place, character in enumerate(body):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character in ")]}":
            return place == len(body) - 1
    return False


def split_outside(body: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """The parts between separators that stand outside all brackets, and the separators."""
    parts, separators, start, depth, at = [], [], 0, 0, 0
    for match in separator.finditer(body):
        if match.start() < at:
            continue
        between = body[at : match.start()]
        depth += sum(map(between.count, _OPENINGS)) - sum(map(between.count, _CLOSINGS))
        at = match.start()
        if depth == 0:
            parts.append(body[start:at].strip())
            separators.append(match[0].strip())
            start = at = match.end()
    parts.append(body[start:].strip())
    if len(parts) > 1 and (not all(parts[1:]) or (not parts[0] and separator is not SIGN)):
        raise TooHard("an empty part")
    if len(parts) > _MOST_ITEMS:
        raise TooLarge("a long list")
    return parts, separators
