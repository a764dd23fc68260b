"""Boxes and points: what responses get wrong scores 0, what rubrics get wrong is an error."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.verifiers import CannotVerify, bbox_verify, point_verify

BOX = [10, 10, 20, 20]
NO_BOXES = [
    "[[10, 10, 20, 20]]", None, 5, {"box": BOX}, BOX, [[10, 10, 20]], [["10", "10", "20", "20"]], [[[10] * 4]], [None],
    [[10, 10, 20, math.nan]], [[10, 10, 20, math.inf]], [[10, 10, 20, 10**400]], [[True, 10, 20, 20]],
]  # fmt: skip
NO_POINTS = ["(1, 2)", None, [1, 2], [[1]], [["1", "2"]], [[1, math.nan]], [[1, 2, 3]]]


def test_the_example_of_the_paper_is_nearly_right():
    shared, predicted, other = (890 - 531) * (433 - 119), (890 - 529) * (433 - 119), (892 - 531) * (435 - 118)
    score = bbox_verify([[529, 119, 890, 433]], target=[[531, 118, 892, 435]])
    assert score == pytest.approx(shared / (predicted + other - shared))


@pytest.mark.parametrize("predict", NO_BOXES, ids=repr)
def test_what_is_no_box_scores_nothing(predict):
    assert bbox_verify(predict, target=[BOX]) == 0


@pytest.mark.parametrize("target", NO_BOXES, ids=repr)
def test_a_target_that_is_no_list_of_boxes_cannot_be_verified(target):
    with pytest.raises(CannotVerify):
        bbox_verify([BOX], target=target)


def test_a_fault_beside_a_right_box_counts_as_a_box_too_many():
    assert bbox_verify([BOX, [1, 2, 3]], target=[BOX]) == 0.5


def test_a_box_with_its_corners_swapped_overlaps_nothing_not_even_itself():
    swapped = [20, 20, 10, 10]  # both sides negative: a product of them would be positive
    assert bbox_verify([swapped], target=[BOX]) == bbox_verify([BOX], target=[swapped]) == 0
    assert bbox_verify([swapped], target=[swapped]) == 0
    assert bbox_verify([swapped] * 50 + [BOX], target=[swapped, BOX]) == 1 / 51


def test_no_boxes_on_either_side_are_alike_and_on_one_side_are_not():
    assert bbox_verify([], target=[]) == 1
    assert bbox_verify([], target=[BOX]) == bbox_verify([BOX], target=[]) == 0


def grid(count: int) -> list[list[int]]:
    return [[20 * (n % 25), 20 * (n // 25), 20 * (n % 25) + 15, 20 * (n // 25) + 15] for n in range(count)]


def test_five_hundred_boxes_in_another_order_are_all_found():
    boxes = grid(500)
    assert bbox_verify(boxes[::-1], target=boxes) == pytest.approx(1)
    assert bbox_verify(boxes[:250], target=boxes) == pytest.approx(0.5)


def test_ten_thousand_boxes_have_a_score_as_answer_and_are_refused_as_target():
    many = [[n, n, n + 1, n + 1] for n in range(10_000)]
    assert bbox_verify(many, target=many[:3]) == pytest.approx(3 / 10_000)
    assert bbox_verify(many, target=grid(500)) == 0  # five million pairs
    with pytest.raises(CannotVerify, match="10,000"):
        bbox_verify([BOX], target=many)


boxes = st.lists(st.tuples(*[st.integers(0, 12)] * 4).map(list), min_size=1, max_size=12)


@given(boxes, boxes)
def test_many_boxes_score_as_few_do(predict, target):
    """Many boxes are compared with NumPy: boxes far away on both sides change only the count."""
    far = [[1000 + 10 * n, 0, 1000 + 10 * n + 5, 5] for n in range(8)]
    alone = bbox_verify(predict, target=target) * max(len(predict), len(target))
    with_others = bbox_verify(predict + far, target=target + far) * (max(len(predict), len(target)) + 8)
    assert with_others == pytest.approx(alone + 8)


def test_a_point_fades_to_nothing_at_the_radius():
    scores = [point_verify([[0, 0]], target=[[distance, 0]]) for distance in (0, 25, 99, 100, 500)]
    assert scores == pytest.approx([1, 0.75, 0.01, 0, 0])
    assert point_verify([[0, 0]], target=[[3, 4]], radius=10) == pytest.approx(0.5)


def test_points_are_paired_for_the_best_score_not_for_the_least_distance():
    # Least distance: 3 + 4. Best score: 1 away, and one that is lost.
    assert point_verify([[0, 0], [4, 0]], target=[[3, 0], [8, 0]], radius=4.5) == pytest.approx((1 - 1 / 4.5) / 2)


def test_many_points_score_as_few_do():
    points = [[37 * n % 1000, 91 * n % 1000] for n in range(400)]
    assert point_verify(points[::-1], target=points) == pytest.approx(1)
    assert point_verify(points[:100], target=points) == pytest.approx(0.25)


@pytest.mark.parametrize("predict", NO_POINTS, ids=repr)
def test_what_is_no_point_scores_nothing(predict):
    assert point_verify(predict, target=[[1, 2]]) == 0


@pytest.mark.parametrize("radius", [0, -1, math.nan, math.inf, "10", True], ids=repr)
def test_a_radius_that_is_not_positive_is_the_targets_fault(radius):
    with pytest.raises(CannotVerify):
        point_verify([[1, 2]], target=[[1, 2]], radius=radius)
