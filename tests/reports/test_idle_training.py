"""Runs that learnt nothing, and warnings of a run: in the headline, on the terminal, and in their own section."""

from pathlib import Path

import pytest
import synthetic_run as folder
from report_page import text_of, write_report

from rubricworks.methods.rubicap.sections import success_lines
from rubricworks.reports.run_summary import read_summary

IDLE = "Learnt almost nothing: 86\u202f% of 14 groups had equal rewards, in 71\u202f% all rollouts were identical"


def write_rollouts(run: Path, groups: list[list[tuple[str, float | None]]]) -> None:
    rows = [
        folder.rollout(step, response, 5, reward)
        for step, group in enumerate(groups, start=1)
        for response, reward in group
    ]
    folder.write_table(run / "train_policy" / "rollouts", "rollouts", rows)


SAME = [("a cat", 0.5), ("a cat", 0.5)]
EQUAL = [("a cat", 0.5), ("a dog", 0.5)]
UNJUDGED = [("a cat", 0.5), ("a dog", None)]
DIFFERENT = [("a cat", 0.5), ("a dog", 0.0)]


def test_equal_rewards_and_a_warm_up_known_by_heart_are_the_headline(tmp_path):
    folder.write_small_run(tmp_path)
    write_rollouts(tmp_path, [SAME] * 10 + [EQUAL, UNJUDGED] + [DIFFERENT] * 2)
    folder.write_ledger(tmp_path, [{"stage": "warm_up", "seconds": 1.0, "examples": 31, "loss": 0.0003}])
    html, summary = write_report(tmp_path)
    sentence = f"{IDLE}; the warm-up knows its 31 captions by heart (loss 0.0003)."
    assert summary["learnt_nothing"] == sentence
    assert f'<p class="headline bad" dir="auto">{sentence}</p>' in html
    assert html.count('class="headline ') == 1
    assert sentence in success_lines(read_summary(tmp_path))


@pytest.mark.parametrize("loss", [0.2, None])
def test_a_warm_up_that_is_not_known_by_heart_is_not_in_it(tmp_path, loss):
    folder.write_small_run(tmp_path)
    write_rollouts(tmp_path, [SAME] * 10 + [EQUAL, UNJUDGED] + [DIFFERENT] * 2)
    folder.write_ledger(tmp_path, [{"stage": "warm_up", "seconds": 1.0, "examples": 31, "loss": loss}])
    assert write_report(tmp_path)[1]["learnt_nothing"] == f"{IDLE}."


def test_a_training_whose_groups_mostly_differ_says_nothing_of_it(tmp_path):
    folder.write_small_run(tmp_path)
    write_rollouts(tmp_path, [SAME, EQUAL, DIFFERENT, DIFFERENT])
    html, summary = write_report(tmp_path)
    assert summary["learnt_nothing"] == ""
    assert "Learnt almost nothing" not in html


def test_warnings_of_the_last_attempts_and_cut_off_rollouts_have_their_section(tmp_path):
    folder.write_small_run(tmp_path)
    recipe = folder.RECIPE | {"policy": {"algorithm": {"rollouts": {"max_new_tokens": 5}}}}
    folder.write_recipe(tmp_path, recipe)
    write_rollouts(tmp_path, [DIFFERENT] * 2)
    entries = [
        {"stage": "prepare", "seconds": 1.0, "warnings": ["3 rejected"]},
        {"stage": "synthesize_rubrics", "seconds": 1.0, "warnings": ["6 samples got no rubric <b>", "no guard"]},
        {"stage": "prepare", "seconds": 1.0},
    ]
    folder.write_ledger(tmp_path, entries)
    html, _ = write_report(tmp_path)
    text = text_of(html)
    assert (
        "Stage Warning synthesize_rubrics 6 samples got no rubric <b> synthesize_rubrics no guard train_policy" in text
    )
    assert "4 of 4 rollouts were cut off at policy.algorithm.rollouts.max_new_tokens = 5" in text
    assert "3 rejected" not in text


def test_a_run_without_a_warning_has_no_such_section(tmp_path):
    folder.write_small_run(tmp_path)
    folder.write_ledger(tmp_path, [{"stage": "prepare", "seconds": 1.0}])
    assert ">Warnings<" not in write_report(tmp_path)[0]
