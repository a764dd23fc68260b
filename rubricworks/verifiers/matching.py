"""The best one-to-one pairing of two lists: the largest total of similarities that any pairing reaches.

Most matrices are small and solved in plain Python if the result is provably optimal. SciPy's Hungarian method, whose
call alone takes microseconds, solves the rest.
"""

import math
from collections.abc import Sequence
from typing import Any

from rubricworks.verifiers.failure import needed

MOST_PAIRS = 4_000_000
"""Largest product of two lists' lengths (2,000 by 2,000). More would take seconds and hundreds of megabytes."""


def best_total(similarities: Sequence[Sequence[float]]) -> float:
    """Sum of the similarities of the best one-to-one pairing; of the longer side some stay alone.

    Args:
        similarities: a row per item of one list, a column per item of the other; finite, at least 0.
    """
    if not similarities or not similarities[0]:
        return 0.0
    rows, columns = len(similarities), len(similarities[0])
    if rows == 1:
        return max(similarities[0])
    if rows > columns:
        similarities = list(zip(*similarities, strict=True))
        rows, columns = columns, rows
    # No pairing exceeds the sum of each row's best; where these lie in different columns, they are a pairing.
    best = [(row, top) for row in similarities if (top := max(row)) > 0]
    if len({row.index(top) for row, top in best}) == len(best):
        return math.fsum([top for _, top in best])
    if rows == 2:
        # One of the two has its best. Both want the same column here: the other takes its second best.
        (a, best_a), (b, best_b) = best
        column = a.index(best_a)
        return max(best_a + _best_without(b, column), best_b + _best_without(a, column))
    if columns == 3:
        (a0, a1, a2), (b0, b1, b2), (c0, c1, c2) = similarities
        return max(a0 + max(b1 + c2, b2 + c1), a1 + max(b0 + c2, b2 + c0), a2 + max(b0 + c1, b1 + c0))
    return best_total_of_matrix(similarities)


def best_total_of_matrix(similarities: Any) -> float:
    """The same with SciPy, for large matrices and NumPy arrays."""
    optimize = needed("scipy.optimize", "SciPy")
    numpy = needed("numpy", "NumPy")
    matrix = numpy.asarray(similarities, dtype=float)
    chosen = optimize.linear_sum_assignment(matrix, maximize=True)
    return math.fsum(matrix[chosen].tolist())


def _best_without(row: Sequence[float], column: int) -> float:
    return max((*row[:column], *row[column + 1 :]))
