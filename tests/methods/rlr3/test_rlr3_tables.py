"""Every figure of the page is the one in the stage's file, or follows from it by hand."""

import shutil
from pathlib import Path

import pytest
import synthetic_rlr3_run as rlr3
import synthetic_run as folder
from report_page import Page, text_of, write_rlr3_report


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def test_table_2_holds_every_model_with_its_interval_and_the_change_over_rlvr(tmp_path: Path) -> None:
    answers = rlr3.write_answers(tmp_path)
    html, _ = write_rlr3_report(tmp_path)

    def of(arm: str, step: int | None = None) -> str:
        macro = answers.accuracy(arm, step).macro
        return f"{percent(macro.low)} to {percent(macro.high)}"

    row = (
        f"Macro average · 90 questions 40.0 {of('base')} 60.0 {of('rlvr')} 90.0 +30.0 {of('rlr3')} "
        f"53.3 {of('rlvr', 30)} 90.0 +36.7 {of('rlr3', 30)}"
    )
    assert row in text_of(html)
    assert "RLVR best, step 20" in text_of(html)
    assert "RLR³ last, step 30" in text_of(html)


def test_figure_2_has_a_chart_for_each_task_and_one_for_the_average(tmp_path: Path) -> None:
    rlr3.write_answers(tmp_path)
    page = Page(write_rlr3_report(tmp_path)[0])
    labels = [a["aria-label"] or "" for _, a in page.tags if "over milestones" in (a.get("aria-label") or "")]
    text = "percent over milestones: Base 40.0, RLVR 60.0, RLR³ 90.0"
    assert labels == [f"{title}, {text}" for title in ("Macro average", *rlr3.TASKS)]
    assert len([a for _, a in page.tags if a.get("class") == "level"]) == 4
    markers = [a["title"] for _, a in page.tags if "picked" in (a.get("class") or "")]
    assert markers == ["RLVR, step 20: 60.0", "RLR³, step 30: 90.0"] * 4


def test_tables_of_data_and_checklists_hold_the_files_figures(tmp_path: Path) -> None:
    rlr3.write_whole_run(tmp_path)
    text = text_of(write_rlr3_report(tmp_path)[0])
    assert "scenes 120 100 30 20 36.0 20.0 20.0 0.4450 0.3450" in text  # table 1
    assert "which keeps 20 of 40 graded questions" in text
    assert "opened 21, not unique 4" in text
    assert "7 checklists with 14 criteria." in text
    assert "gives it away 5 repeats another 3" in text
    assert "Train 12 6 50.0 % 6 50.0 % 24 2.00 12 100.0 % 12 50.0 % 6 50.0 %" in text  # table 3


def test_counts_of_the_source_fill_table_1_before_the_filter_has_run(tmp_path: Path) -> None:
    rlr3.write_corpus(tmp_path)
    shutil.rmtree(tmp_path / "offline_filter")
    text = text_of(write_rlr3_report(tmp_path)[0])
    missing = "–"  # noqa: RUF001  an en dash is meant
    assert f"scenes 120 100 {missing} {missing} 36.0 {missing}" in text
    assert "the offline_filter stage has not finished" in text


def test_table_4_and_its_picture_hold_the_figures_of_all_three_models(tmp_path: Path) -> None:
    reports = rlr3.write_genrm(tmp_path)
    html, summary = write_rlr3_report(tmp_path)
    assert {model: item["value"] for model, item in summary["details"]["genrm"].items()} == pytest.approx(
        {"base": 0.5, "sft": 0.9, "rlvr": 0.95}
    )
    base = reports["base"]
    schema, level = base.schema_accuracy, base.criterion_level
    assert schema is not None
    assert f"Base 60.0 {percent(schema.low)} to {percent(schema.high)}" in text_of(html)
    text = f"Criterion-level: Base 50.0 percent, {percent(level.low)} to {percent(level.high)}; SFT 90.0 percent"
    assert any((a.get("aria-label") or "").startswith(text) for _, a in Page(html).tags)


def test_table_5_stands_with_its_figure_and_marks_what_is_worse(tmp_path: Path) -> None:
    figures = rlr3.write_audit(tmp_path)
    html, summary = write_rlr3_report(tmp_path)
    assert summary["details"]["audit"] == pytest.approx(
        {"no_final_answer": 0.2, "irrelevant": 0.3, "wrong_but_plausible": 0.4, "adversarial": 0.5}
    )
    share = figures.settings["image"]["adversarial"].average
    assert share is not None
    assert share.low is not None
    assert share.high is not None
    text = text_of(html)
    assert f"60.0 (60.0 / 60.0) {percent(share.low)} to {percent(share.high)} · 12 of 20 criteria" in text
    page = Page(html)
    assert len([a for _, a in page.tags if a.get("class") == "bar-body"]) == 16
    assert len([a for _, a in page.tags if a.get("class") == "change down"]) == 12  # all but the default, regular


def test_both_arms_curves_tell_their_rewards_lengths_and_failures(tmp_path: Path) -> None:
    rlr3.write_training(tmp_path, steps=10)
    rollouts = [folder.rollout(step, "a cat", 20 + step, None if step == 2 else 0.5) for step in range(1, 4)]
    shutil.rmtree(tmp_path / "train_rlvr")
    folder.write_table(tmp_path / "train_rlvr" / "rollouts", "rollouts", rollouts)
    page = Page(write_rlr3_report(tmp_path)[0])
    labels = [a["aria-label"] or "" for _, a in page.tags if "over training steps" in (a.get("aria-label") or "")]
    assert labels == [
        "Reward over training steps: RLVR from 0.50 to 0.50, RLR³ from 0.12 to 0.30",
        "Tokens per response over training steps: RLVR from 21.0 to 23.0, RLR³ from 21.0 to 30.0",
    ]
    assert "1 of RLVR's 3 rollouts could not be judged" in " ".join(" ".join(page.words).split())
