"""Typed answers: no crossing of types, no fixed string and no mistake of one step is credited; every spelling is."""

from itertools import product

import pytest
from answer_pairs import pairs
from typed_answers import GAMES, RIGHT, TARGETS, WRONG, lines

from rubricworks.verifiers import CannotVerify, expr_verify

GAMING = [game for line in lines(GAMES) for game in line.split("|") if game]
WRAPPERS = {
    "box": r"\boxed{%s}",
    "dollars": "$%s$",
    "display": r"\[ %s \]",
    "sentence": "The answer is $%s$.",
    "label": "Answer: $%s$",
    "colour": r"\boxed{\color{red}{%s}}",
    "box in a sentence": r"Thus the final answer is $\boxed{%s}$.",
}


def score(answer: str, target: str) -> float:
    """The score; 0 where the target says nothing."""
    try:
        return expr_verify(answer, target=target)
    except CannotVerify:
        return 0.0


@pytest.mark.parametrize("target", TARGETS)
def test_target_equals_itself_in_every_wrapper(target):
    bare = target.replace("$4.50", r"\$4.50")
    assert expr_verify(target, target=target) == 1
    assert [name for name, wrapper in WRAPPERS.items() if expr_verify(wrapper % bare, target=target) != 1] == []


@pytest.mark.parametrize("target", TARGETS)
def test_every_spelling_of_a_target_is_credited_and_as_a_target_accepts_it(target):
    assert [spelling for spelling in TARGETS[target] if expr_verify(spelling, target=target) != 1] == []
    assert [spelling for spelling in TARGETS[target] if expr_verify(target, target=spelling) != 1] == []


@pytest.mark.parametrize("target", TARGETS)
def test_no_spelling_of_another_target_is_credited(target):
    others = [(other, text) for other, texts in TARGETS.items() if other != target for text in (other, *texts)]
    assert [pair for pair in others if expr_verify(pair[1], target=target) != 0] == []


@pytest.mark.parametrize("target", TARGETS)
def test_no_fixed_string_is_credited_against_any_target(target):
    right = {target, *TARGETS[target]}
    assert [game for game in GAMING if game not in right and expr_verify(game, target=target) != 0] == []


@pytest.mark.parametrize("line", lines(WRONG))
def test_answer_that_is_wrong_by_one_step_is_not_credited_in_either_order(line):
    target, _, answer = line.rpartition("|")
    assert score(answer, target) == score(target, answer) == 0


@pytest.mark.parametrize("line", lines(RIGHT))
def test_right_answer_in_an_unusual_form_is_credited(line):
    target, _, answer = line.rpartition("|")
    assert expr_verify(answer, target=target) == 1


def test_values_of_two_unknowns_are_no_list_of_values_of_one():
    assert expr_verify("x=1, y=2", target="1,2") == 0
    assert expr_verify("1, 2", target="x=1, y=2") == 1


@pytest.mark.parametrize("name", ["x", "A", "area"])
def test_named_bare_value_is_the_value(name):
    bare = [
        "7",
        r"\frac{3}{8}",
        r"16-4\pi",
        r"11\ \mu\mathrm{T}",
        r"\{1,2,9\}",
        "(1,4,0)",
        r"\begin{pmatrix}1&3\\2&4\end{pmatrix}",
    ]
    assert [value for value in bare if expr_verify(f"{name} = {value}", target=value) != 1] == []
    assert [value for value in bare if expr_verify(value, target=f"{name} = {value}") != 1] == []


def shares(count: int, seed: int) -> tuple[list[object], float]:
    """Pairs that are credited wrongly, and the share of the right ones that are credited."""
    wrong, outcomes = [], []
    for pair in pairs(count, seed=seed):
        outcome = score(pair.predict, pair.target)
        if pair.equal:
            outcomes.append(outcome)
        elif outcome:
            wrong.append(pair)
    return wrong, sum(outcomes) / len(outcomes)


def test_of_generated_pairs_none_is_credited_wrongly_and_nearly_all_right_ones_are():
    wrong, right = shares(500, seed=41)
    assert wrong == []
    assert right >= 0.97


@pytest.mark.long
def test_of_twenty_thousand_generated_pairs_none_is_credited_wrongly():
    wrong, right = shares(20_000, seed=2041)
    assert wrong == []
    assert right >= 0.97


def test_the_lists_are_as_long_as_they_claim_to_be():
    assert len(TARGETS) >= 60
    assert len(lines(WRONG)) >= 100
    assert len(list(product(TARGETS, GAMING))) >= 8000
    assert sum(map(len, TARGETS.values())) >= 100
