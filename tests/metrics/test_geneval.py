"""GenEval's boxes against pixels counted one by one, symmetries of positions, reasons, and the summary."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.metrics import (
    box_iou,
    confident_detections,
    geneval_correct,
    geneval_reasons,
    geneval_summary,
    relative_position,
)

OPPOSITE = {"above": "below", "below": "above", "left of": "right of", "right of": "left of"}
numbers = st.integers(0, 12)
boxes = st.tuples(numbers, numbers, numbers, numbers).map(
    lambda box: [min(box[0], box[2]), min(box[1], box[3]), max(box[0], box[2]), max(box[1], box[3])]
)


def pixels(box: list[int]) -> set[tuple[int, int]]:
    return {(x, y) for x in range(box[0], box[2] + 1) for y in range(box[1], box[3] + 1)}


def detection(x: float, y: float, color: str = "red") -> dict:
    return {"box": [x, y, x + 10, y + 10, 0.9], "color": color}


@given(boxes, boxes)
def test_intersection_over_union_counts_pixels(a, b):
    assert box_iou(a, b) == pytest.approx(len(pixels(a) & pixels(b)) / len(pixels(a) | pixels(b)))
    assert box_iou(a, b) == box_iou(b, a)
    assert box_iou(a, [*a, 0.5]) == 1


@given(boxes, boxes)
def test_position_seen_from_the_other_box_is_the_opposite(a, b):
    assert relative_position(b, a) == sorted(OPPOSITE[relation] for relation in relative_position(a, b))


@given(boxes, boxes)
def test_position_has_at_most_one_relation_in_each_direction(a, b):
    relations = relative_position(a, b)
    assert relations == sorted(relations)
    assert not any(OPPOSITE[relation] in relations for relation in relations)


@pytest.mark.parametrize(
    ("box", "relations"),
    [
        ([100, 0, 110, 10], ["right of"]),
        ([0, 100, 10, 110], ["below"]),
        ([-100, -100, -90, -90], ["above", "left of"]),
        ([2, 0, 12, 10], []),  # a tenth of both widths is what the centres are apart
        ([3, 0, 13, 10], []),  # only a third of their distance is beyond it
        ([5, 0, 15, 10], ["right of"]),
    ],
)
def test_position_needs_more_than_half_of_the_distance_beyond_a_tenth_of_both_sizes(box, relations):
    assert relative_position(box, [0, 0, 10, 10]) == relations


POSITION = {
    "include": [{"class": "cup", "count": 1}, {"class": "dog", "count": 1, "position": ["left of", 0]}],
    "exclude": [{"class": "dog", "count": 2}],
}


@pytest.mark.parametrize(
    ("detections", "reasons"),
    [
        ({"cup": [detection(50, 0)], "dog": [detection(0, 0)]}, []),
        ({"cup": [detection(0, 0)], "dog": [detection(50, 0)]}, ["expected dog left of target, found right of target"]),
        ({"dog": [detection(0, 0)]}, ["expected cup>=1, found 0", "no target for dog to be left of"]),
        ({"cup": [detection(50, 0)], "dog": [detection(0, 0)] * 2}, ["expected dog<2, found 2"]),
        ({"cup": [detection(0, 0)], "dog": [detection(0, 0)]}, ["expected dog left of target, found  target"]),
    ],
)
def test_each_failure_has_its_reason(detections, reasons):
    assert geneval_reasons(POSITION, detections) == reasons
    correct, words = geneval_correct(POSITION, detections)
    assert correct == (reasons == [])
    assert words == sorted(" ".join(reasons).split())


def test_only_the_most_confident_objects_are_looked_at():
    metadata = {"include": [{"class": "cup", "count": 1, "color": "blue"}]}
    cups = [detection(0, 0, "red"), detection(0, 0, "blue")]
    assert geneval_reasons(metadata, {"cup": cups}) == ["expected blue cup>=1, found 0 blue; and 1 red"]
    assert geneval_correct(metadata, {"cup": cups[::-1]}) == (True, [])


def test_count_has_no_upper_limit_without_an_exclusion():
    assert geneval_correct({"include": [{"class": "cup", "count": 2}]}, {"cup": [detection(0, 0)] * 5}) == (True, [])


@pytest.mark.parametrize(
    ("entry", "says"),
    [({"color": "blue"}, "no color"), ({"position": ["above", 0]}, "refers to entry 0; 0 come before it")],
)
def test_what_cannot_be_checked_is_refused(entry, says):
    with pytest.raises(ValueError, match=says):
        geneval_correct({"include": [{"class": "cup", "count": 1, **entry}]}, {"cup": [{"box": [0, 0, 1, 1]}]})


rows = st.lists(
    st.fixed_dictionaries(
        {"tag": st.sampled_from(["colors", "counting"]), "correct": st.booleans(), "metadata": st.sampled_from("abc")}
    ),
    min_size=1,
    max_size=12,
)


@given(rows)
def test_overall_is_the_mean_over_tasks_in_any_order_of_images(images):
    summary = geneval_summary(images)
    tasks = {image["tag"] for image in images}
    assert summary["overall"] == pytest.approx(sum(summary[task] for task in tasks) / len(tasks))
    assert summary["correct_images"] <= 1
    shuffled = random.Random(0).sample(images, len(images))
    assert geneval_summary(shuffled) == pytest.approx(summary)


def test_prompt_is_correct_with_one_correct_image():
    images = [{"tag": "colors", "correct": number == 0, "metadata": "a"} for number in range(4)]
    summary = geneval_summary([*images, {"tag": "counting", "correct": False, "metadata": "b"}])
    assert summary == {
        **{"overall": 0.125, "colors": 0.25, "counting": 0.0, "images": 5, "prompts": 2},
        **{"correct_images": 0.2, "correct_prompts": 0.5},
    }
    with pytest.raises(ValueError, match="no image"):
        geneval_summary([])


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("counting", [1.0, 0.99, 0.91]),
        ("two_object", [1.0, 0.99, 0.91, 0.9, 0.31]),
        ("color_attr", [1.0, 0.99, 0.91, 0.9, 0.31]),
    ],
)
def test_detections_count_above_the_threshold_of_the_task(tag, expected):
    """The official code compares with >, and sorts by confidence before the rules take the first ones."""
    confidences = (0.3, 0.31, 0.9, 0.91, 0.99, None)
    objects = [{"box": [n, 0, n + 5, 5, *([] if c is None else [c])]} for n, c in enumerate(confidences)]
    counted = confident_detections({"tag": tag}, {"dog": objects, "cat": [{"box": [0, 0, 5, 5, 0.2]}]})
    assert {
        name: [box["box"][4] if len(box["box"]) > 4 else 1.0 for box in boxes] for name, boxes in counted.items()
    } == {"dog": expected}


def test_a_class_has_at_most_sixteen_objects():
    objects = [{"box": [n, 0, n + 5, 5, 0.5 + n / 100]} for n in range(20)]
    first = confident_detections({"tag": "colors"}, {"dog": objects})["dog"]
    assert [detection["box"][0] for detection in first] == list(range(19, 3, -1))
