"""The best pairing, against all pairings tried one by one."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from rubricworks.verifiers.matching import best_total, best_total_of_matrix

# Few different values, so that ties and rivals for the same column are common.
similarity = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1)
matrices = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda shape: st.lists(
        st.lists(similarity, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    )
)


def brute_force(matrix: list[list[float]]) -> float:
    rows, columns = len(matrix), len(matrix[0])
    if rows > columns:
        return brute_force([list(column) for column in zip(*matrix, strict=True)])
    pairings = permutations(range(columns), rows)
    return max(sum(matrix[row][column] for row, column in enumerate(pairing)) for pairing in pairings)


@given(matrices)
def test_total_is_that_of_the_best_of_all_pairings(matrix):
    assert abs(best_total(matrix) - brute_force(matrix)) < 1e-9


@given(matrices)
def test_scipy_finds_the_same_total(matrix):
    assert abs(best_total_of_matrix(matrix) - brute_force(matrix)) < 1e-9


def test_taking_the_most_similar_pair_first_would_be_wrong():
    assert best_total([[0.9, 0.8], [0.85, 0.0]]) == 0.8 + 0.85


def test_nothing_pairs_with_nothing():
    assert best_total([]) == best_total([[], []]) == 0
