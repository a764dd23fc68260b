"""DPG-Bench against ancestors walked one by one, its order quirk, and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.metrics import dpg_categories, dpg_score

answers_of = st.sampled_from(["yes", "no", "Yes", "two"])


@st.composite
def prompts(draw: st.DrawFn) -> tuple[dict[int, list[int]], list[str]]:
    """Questions whose parents come before them, and an answer to each."""
    count = draw(st.integers(1, 7))
    dependency = {
        number: draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=3)) for number in range(1, count + 1)
    }
    return dependency, draw(st.lists(answers_of, min_size=count, max_size=count))


@given(prompts())
def test_question_passes_with_all_its_ancestors(prompt):
    dependency, answers = prompt

    def passes(number: int) -> bool:
        return number == 0 or (answers[number - 1] == "yes" and all(map(passes, dependency[number])))

    expected = sum(map(passes, dependency)) / len(dependency)
    assert dpg_score([answers], dependency) == [expected]
    assert dpg_score([answers, answers], {str(number): row for number, row in dependency.items()}) == [expected] * 2


def test_parent_that_comes_later_counts_by_its_answer():
    # Question 2 asks for 3, which fails on account of 1 only after 2 was visited.
    assert dpg_score([["no", "yes", "yes"]], {1: [0], 2: [3], 3: [1]}) == [pytest.approx(1 / 3)]
    assert dpg_score([["no", "yes", "yes"]], {1: [0], 3: [1], 2: [3]}) == [0]


def test_categories_pool_the_last_images_of_all_prompts():
    first = ({1: "attribute - color (a)", 2: "attribute - size (b)"}, [["no", "no"], ["yes", "no"]])
    second = ({1: "attribute - color (c)", 2: "global -  (d)"}, [["no", "yes"]])
    assert dpg_categories([first, second]) == {
        "l1": {"attribute": pytest.approx(1 / 3), "global": 1},
        "l2": {"attribute - color": 0.5, "attribute - size": 0, "global -": 1},
    }


@pytest.mark.parametrize(
    ("answers", "dependency", "says"),
    [
        ([["yes"]], {1: [0], 2: [1]}, "image 0 has 1 answers to 2 questions"),
        ([["yes"]], {1: [4]}, "question 1 depends on question 4"),
        ([[]], {}, "no question"),
    ],
)
def test_answers_that_do_not_fit_are_refused(answers, dependency, says):
    with pytest.raises(ValueError, match=says):
        dpg_score(answers, dependency)


@pytest.mark.parametrize("answers", [[], [["yes", "no"]]])
def test_categories_without_an_answer_each_are_refused(answers):
    with pytest.raises(ValueError, match="answers to 1 questions"):
        dpg_categories([({1: "entity - whole (x)"}, answers)])
