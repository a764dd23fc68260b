"""Matrices in LaTeX: rows and cells, sums, products and multiples of them, transposes, determinants, cases."""

import re
from itertools import zip_longest

from rubricworks.verifiers.expression.amounts import formula_tree
from rubricworks.verifiers.expression.tokens import TooHard, TooLarge
from rubricworks.verifiers.expression.trees import Tree
from rubricworks.verifiers.expression.values import Amount, Matrix

BLOCK = re.compile(
    r"[\[(|]?\s*\\begin\s*\{([A-Za-z]+)\*?\}(?:\s*\{[clr|\s]*\})?(.*?)\\end\s*\{\1\*?\}\s*[\])|]?", re.DOTALL
)
_MATRICES = {"pmatrix", "bmatrix", "matrix", "Bmatrix", "smallmatrix", "array"}
_ROW_END = re.compile(r"\\\\(?:\[[^\]]*\])?|\\cr\b")
_TRANSPOSED = re.compile(r"\s*\^\s*\{?\s*(?:T|\\top|\\intercal)\s*\}?")
_SIGN = re.compile(r"\s*([-+]?)\s*")
_DETERMINANT = re.compile(r"(?:\\det|\bdet)\s*")
_MOST_CELLS, _LARGEST_DETERMINANT = 150, 4
Rows = tuple[tuple[Tree, ...], ...]


def rows_of(content: str) -> list[list[str]]:
    rows = [[cell.strip() for cell in row.replace("\\hline", "").split("&")] for row in _ROW_END.split(content)]
    rows = [row for row in rows if row != [""]]
    if sum(map(len, rows)) > _MOST_CELLS:
        raise TooLarge("a large matrix")
    return rows


def read_matrix(body: str, *, fold: bool) -> Matrix | Amount:
    """A matrix, or a sum of products of matrices and numbers; a determinant.

    Raises:
        TooHard: it is neither.
    """
    determinant = _DETERMINANT.match(body)
    block = BLOCK.fullmatch(body, determinant.end() if determinant else 0)
    if block and (determinant or block[1] == "vmatrix" or is_between_bars(block)):
        return Amount(_determinant(_entries(block[2], fold)))
    total: Rows | None = None
    at = 0
    while at < len(body):
        sign = _SIGN.match(body, at)
        assert sign is not None
        if total is not None and not sign[1]:
            raise TooHard("something follows a matrix")
        term, at = _term(body, sign.end(), fold)
        if sign[1] == "-":
            term = tuple(tuple(("-", cell) for cell in row) for row in term)
        total = term if total is None else _added(total, term)
    if total is None:
        raise TooHard("no matrix")
    return Matrix(tuple(tuple(Amount(cell) for cell in row) for row in total))


def is_between_bars(block: re.Match[str]) -> bool:
    """Return True for |...|, a determinant.

    Raises:
        TooHard: a bar stands on one side only.
    """
    bars = [bracket == "|" for bracket in (block[0][0], block[0][-1])]
    if bars[0] != bars[1]:
        raise TooHard("one bar")
    return bars[0]


def transposed(rows: Rows) -> Rows:
    return tuple(zip(*rows, strict=True))


def _term(body: str, at: int, fold: bool) -> tuple[Rows, int]:
    """A multiple of a product of matrices, and the place after it."""
    product: Rows | None = None
    scalar: Tree | None = None
    while block := BLOCK.search(body, at):
        before = re.sub(r"\\(?:cdot|times)\s*$", "", body[at : block.start()].strip()).strip()
        if product is not None and before:
            break
        if before and before != "*":
            scalar = formula_tree(before, fold=fold)
        if block[1] not in _MATRICES or is_between_bars(block):
            raise TooHard(f"{block[1]} is no matrix")
        rows, at = _entries(block[2], fold), block.end()
        if turned := _TRANSPOSED.match(body, at):
            rows, at = transposed(rows), turned.end()
        product = rows if product is None else _multiplied(product, rows)
    if product is None:
        raise TooHard("no matrix")
    rest = body[at:].strip()
    if rest and rest[0] not in "+-":
        raise TooHard("something follows a matrix")
    if scalar is not None:
        product = tuple(tuple(("*", scalar, cell) for cell in row) for row in product)
    return product, at


def _entries(content: str, fold: bool) -> Rows:
    rows = tuple(tuple(formula_tree(cell, fold=fold) for cell in row) for row in rows_of(content))
    if not rows or len({len(row) for row in rows}) > 1:
        raise TooHard("rows of different lengths")
    return rows


def _added(a: Rows, b: Rows) -> Rows:
    if [len(row) for row in a] != [len(row) for row in b]:
        raise TooHard("matrices of different sizes")
    return tuple(tuple(("+", x, y) for x, y in zip_longest(*rows)) for rows in zip(a, b, strict=True))


def _multiplied(a: Rows, b: Rows) -> Rows:
    if len(a[0]) != len(b):
        raise TooHard("matrices of sizes that do not fit")
    return tuple(
        tuple(("+", *(("*", x, y) for x, y in zip(row, column, strict=True))) for column in transposed(b)) for row in a
    )


def _determinant(rows: Rows) -> Tree:
    if len(rows) != len(rows[0]) or len(rows) > _LARGEST_DETERMINANT:
        raise TooHard("no square, or a large one")
    if len(rows) == 1:
        return rows[0][0]
    terms: list[Tree] = []
    for place, cell in enumerate(rows[0]):
        minor = ("*", cell, _determinant(tuple(row[:place] + row[place + 1 :] for row in rows[1:])))
        terms.append(("-", minor) if place % 2 else minor)
    return ("+", *terms)
