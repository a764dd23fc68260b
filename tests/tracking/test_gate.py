"""The gate: what is shown passes, what falls short or was not measured does not."""

import math

import pytest
from pydantic import ValidationError

from rubricworks.tracking import Gate


def interval(value: float, low: float, high: float, samples: int | None = 200) -> dict[str, float]:
    return {"value": value, "low": low, "high": high} | ({} if samples is None else {"samples": samples})


SUMMARY = {
    "win_rate": interval(0.8, 0.72, 0.87),
    "oracle_f1": {"base": 0.7, "policy": 0.8},
    "oracle_f1_gain": interval(0.15, 0.8 - 0.7, 0.2),
    "rubric_reward_gain": interval(0.35, 0.3, 0.4),
}


def test_default_gate_asks_for_a_win_rate_surely_above_one_half():
    assert Gate().check(SUMMARY).passed
    assert not Gate().check({"win_rate": interval(0.6, 0.5, 0.7)}).passed
    assert Gate().check({"win_rate": interval(0.6, 0.51, 0.7)}).passed


def test_gain_of_exactly_the_bound_passes():
    assert Gate(oracle_f1_gain_at_least=0.1).check(SUMMARY).passed
    assert not Gate(oracle_f1_gain_at_least=0.11).check(SUMMARY).passed


def test_low_end_of_a_gain_must_clear_the_bound_not_its_value():
    assert Gate(rubric_reward_gain_at_least=0.3).check(SUMMARY).passed
    assert not Gate(rubric_reward_gain_at_least=0.31).check(SUMMARY).passed


def test_all_rules_must_hold_and_each_says_what_it_found():
    result = Gate(oracle_f1_gain_at_least=0.2, rubric_reward_gain_at_least=0.1).check(SUMMARY)
    assert not result.passed
    win, oracle, reward = result.reasons
    assert "0.720, is above 0.5" in win
    assert "0.100, must be at least 0.2" in oracle
    assert "0.300, is at least 0.1" in reward


@pytest.mark.parametrize(
    "missing",
    [
        {},
        {"oracle_f1": {"base": 0.7, "policy": 0.9}},
        {"oracle_f1_gain": None},
        {"oracle_f1_gain": interval(0.2, math.nan, 1)},
    ],
)
def test_what_was_not_measured_does_not_pass(missing):
    result = Gate(win_rate_low_above=None, oracle_f1_gain_at_least=-1.0).check(missing)
    assert not result.passed
    assert "not measured" in result.reasons[0]


def test_gate_without_rules_passes():
    result = Gate(win_rate_low_above=None).check({})
    assert (result.passed, result.reasons) == (True, ())


def test_misspelt_rule_is_refused():
    with pytest.raises(ValidationError, match="win_rate_above"):
        Gate(win_rate_above=0.5)


@pytest.mark.parametrize(("low", "passes"), [(0.011, True), (0.01, False), (-0.02, False)])
def test_accuracy_gain_must_surely_lie_above_the_bound(low, passes):
    gate = Gate(win_rate_low_above=None, accuracy_gain_low_above=0.01)
    result = gate.check({"accuracy_gain": interval(0.05, low, 0.1)})
    assert result.passed is passes
    (reason,) = result.reasons
    assert reason == f"accuracy gain, low end: {low:.3f}, {'is' if passes else 'must be'} above 0.01"


def test_accuracy_gain_of_a_run_that_answered_nothing_does_not_pass():
    result = Gate(win_rate_low_above=None, accuracy_gain_low_above=-1).check(SUMMARY)
    assert (result.passed, result.reasons) == (False, ("accuracy gain, low end: not measured, must be above -1",))


@pytest.mark.parametrize("samples", [2, 4, 29, None])
@pytest.mark.parametrize(
    ("gate", "figure"),
    [
        (Gate(), "win_rate"),
        (Gate(win_rate_low_above=None, oracle_f1_gain_at_least=0.0), "oracle_f1_gain"),
        (Gate(win_rate_low_above=None, rubric_reward_gain_at_least=-1.0), "rubric_reward_gain"),
        (Gate(win_rate_low_above=None, accuracy_gain_low_above=0.0), "accuracy_gain"),
        (Gate(win_rate_low_above=None, b_capscore_gain_low_above=0.0), "b_capscore_gain"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_too_few_samples_never_pass_however_good_they_look(gate, figure, samples):
    result = gate.check({figure: interval(1.0, 1.0, 1.0, samples)})
    assert not result.passed
    assert f"of {samples or 0} samples, too few to tell (samples_at_least: 30)" in result.reasons[0]
    assert gate.check({figure: interval(1.0, 1.0, 1.0, 30)}).passed


def test_how_many_samples_are_enough_is_the_recipes_to_say():
    figures = {"win_rate": interval(0.9, 0.7, 1.0, 12)}
    assert Gate(samples_at_least=12).check(figures).passed
    assert not Gate(samples_at_least=13).check(figures).passed
