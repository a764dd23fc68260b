"""Gates of the world: string rules, bounds, and numbers from the world itself."""

import pytest

from rubricworks.claims.gates import (
    GATES,
    GateReading,
    gate_readings,
    in_reading_order,
    measure_gates,
    without_remarks,
    without_repetition,
    won_by,
)
from rubricworks.claims.run_results import RunResult

CAPTION = "at left a big red star . at top a small blue square . at left a big red star . remarks . the word CAT ."


def test_string_rules_mend_captions_without_a_look_at_the_picture():
    assert without_repetition(CAPTION).count("at left") == 1
    assert "remarks" not in without_remarks(CAPTION)
    assert "the word CAT ." in without_remarks(CAPTION)
    assert in_reading_order("at left a star . at top a square .") == "at top a square . at left a star ."
    assert without_remarks("at left a big red star . at") == "at left a big red star ."


@pytest.mark.parametrize(
    ("gate", "value", "state"),
    [
        ("base-length", 0.6, "passes"),
        ("base-length", 0.71, "fails"),
        ("base-length", 0.49, "fails"),
        ("cap", 4.0, "passes"),
        ("cap", 2.2, "fails"),
        ("string-rule", 0.66, "fails"),
        ("string-rule", 0.5, "passes"),
        ("grows", None, "not measured"),
    ],
)
def test_gate_passes_inside_its_bounds_alone(gate, value, state):
    assert GateReading(gate=GATES[gate], value=value).state == state


def test_reading_is_the_mean_of_the_runs_that_measured_it():
    def run(seed, **readings):
        names = {name.replace("_", "-"): value for name, value in readings.items()}
        return RunResult(
            registration="", settings="", version="", run="own", seed=seed, arms={}, readings=names, cpu_seconds=0
        )

    first, second = gate_readings(["cap", "grows"], [run(1, cap=2.0), run(2, cap=4.0), run(3)])
    assert (first.value, first.state) == (3.0, "fails")
    assert (second.value, second.state) == (None, "not measured")


def test_share_won_counts_both_orders_and_halves_ties():
    def longer(scene, first, second):
        return "Tie" if len(first) == len(second) else "A" if len(first) > len(second) else "B"

    captions = [(None, "aa"), (None, "b")]
    assert won_by(longer, captions, [str.upper]) == 0.5
    assert won_by(longer, captions, [lambda text: text + "!"]) == 1.0
    assert won_by(longer, captions, [lambda text: text.replace("aa", "a")]) == 0.25


def test_programmed_effects_are_read_beside_table_5(tmp_path):
    text = {"no_final_answer": {"audit": 0.1}, "adversarial": {"audit": 0.2}}
    image = {"no_final_answer": {"audit": 0.1 + 3 * 0.026}}
    readings = measure_gates(tmp_path, "own", None, {"audit_text": text, "audit_image": image}, tmp_path)
    assert readings == {"programmed-effects": pytest.approx(3)}
