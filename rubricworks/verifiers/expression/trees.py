"""Formulas as trees: tuples of a kind and its parts."""

from functools import lru_cache
from typing import Any

Tree = tuple[Any, ...]
CONSTANTS = frozenset({"\\pi", "e", "i"})
BINDING = frozenset({"int", "sum", "prod", "lim"})
"""Kinds with a variable of their own: its name, two bounds, the body."""
CALCULUS = BINDING | {"diff"}
"""Kinds that SymPy computes."""
OPAQUE = frozenset(f"opaque {kind}" for kind in CALCULUS)
"""Kinds that SymPy could not compute."""
BINDING_KINDS = BINDING | {f"opaque {kind}" for kind in BINDING}
_BRANCHING = frozenset({"root", "abs", "floor", "ceil", "fn", "call", "!", "binom"}) | CALCULUS


def subtrees(tree: Tree) -> list[Tree]:
    return [part for part in tree[1:] if isinstance(part, tuple)]


@lru_cache(maxsize=8192)
def symbols(tree: Tree) -> frozenset[str]:
    """The free variables, e, i and pi, and unknown functions as "f("."""
    kind = tree[0]
    if kind == "s":
        return frozenset({tree[1]})
    names: frozenset[str] = frozenset()
    for part in subtrees(tree):
        names |= symbols(part) - {tree[1]} if kind in BINDING_KINDS and part is tree[-1] else symbols(part)
    if kind in ("diff", "opaque diff", "call"):
        return names | {tree[1] if kind != "call" else f"{tree[1]}("}
    return names


@lru_cache(maxsize=8192)
def kinds_of(tree: Tree) -> frozenset[str]:
    return frozenset({tree[0]}).union(*map(kinds_of, subtrees(tree)))


@lru_cache(maxsize=8192)
def is_branching(tree: Tree) -> bool:
    """Return True if the formula may differ between points of different signs."""
    is_power = tree[0] == "^" and not (tree[2][0] == "n" and isinstance(tree[2][1], int))
    return is_power or tree[0] in _BRANCHING or any(map(is_branching, subtrees(tree)))


def kind_count(tree: Tree, kinds: frozenset[str]) -> int:
    """The number of parts of these kinds."""
    if kinds_of(tree).isdisjoint(kinds):
        return 0
    return (tree[0] in kinds) + sum(kind_count(part, kinds) for part in subtrees(tree))


def renamed(tree: Tree, names: dict[str, str]) -> Tree:
    """The formula with variables renamed."""
    if tree[0] == "s":
        return ("s", names.get(tree[1], tree[1]))
    if tree[0].endswith("diff"):
        return (tree[0], names.get(tree[1], tree[1]), tree[2], renamed(tree[3], names))
    inner = names
    if tree[0].removeprefix("opaque ") in BINDING:  # its own variable hides an outer one of that name
        inner = {name: other for name, other in names.items() if name != tree[1]}
    parts = [renamed(part, names) if isinstance(part, tuple) else part for part in tree[1:-1]]
    last = renamed(tree[-1], inner) if isinstance(tree[-1], tuple) else tree[-1]
    return (tree[0], *parts, last)


def contains(tree: Tree, part: Tree) -> bool:
    return tree == part or any(isinstance(inner, tuple) and contains(inner, part) for inner in tree[1:])
