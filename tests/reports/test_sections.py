"""Sections, the report made of them, and results that several methods share."""

import json

import pytest
import synthetic_run as folder
from report_page import Page, text_of

from rubricworks.llm.served import EVENTS_FILE
from rubricworks.reports.page import Block, Report, build_report, of_stage
from rubricworks.reports.parts import Cell, Table, Text
from rubricworks.reports.record import what_ran
from rubricworks.reports.results import task_results
from rubricworks.reports.run_folder import RunFolder


def test_report_holds_the_blocks_of_its_sections_and_their_figures(tmp_path):
    sections = (
        lambda run: None,
        lambda run: Block("counts", "Counts <of>", [Text("two <b>")], name="Numbers", details={"count": 2}),
    )
    page, summary = build_report(RunFolder(tmp_path, "report"), Report("mine", sections))
    assert (summary.method, summary.details) == ("mine", {"count": 2})
    assert [attributes["href"] for tag, attributes in Page(page).tags if tag == "a"] == ["#counts"]
    assert [attributes["id"] for tag, attributes in Page(page).tags if tag == "section"] == ["counts"]
    assert "Numbers" in text_of(page)
    assert "Counts <of> two <b>" in text_of(page)


def test_section_of_a_stage_reads_that_stage_and_leaves_its_metrics_out(tmp_path):
    seen = []

    def section(run: RunFolder) -> Block:
        seen.append((run.stage, run.out, run.trainings))
        return Block("own", "Own", metrics={"loss": 1.0}, details={"kept": True})

    run = RunFolder(tmp_path, "report", trainings={"train_policy": ""})
    block = of_stage("warm_up", section, title="Warm-up")(run)
    assert seen == [("warm_up", tmp_path / "warm_up", {})]
    assert (block.title, block.metrics, block.details) == ("Warm-up", {}, {"kept": True})


def test_numbers_of_a_table_stand_on_the_right_under_their_column(tmp_path):
    rows = [("first", 3, Cell("50.0", "40.0 to 60.0"), None), ("total", 3, "+1.5", "words that are long")]
    sections = (lambda run: Block("t", "T", [Table(("Name", "Count", "Share", "Note"), rows, total=True)]),)
    tags = Page(build_report(RunFolder(tmp_path, "report"), Report("mine", sections))[0]).tags
    cells = [(attributes["class"], attributes.get("data-name")) for tag, attributes in tags if tag == "td"]
    assert cells == [
        *(("wide", None), ("n", "Count"), ("n", "Share"), ("n", "Note")),
        *(("wide", None), ("n", "Count"), ("n", "Share"), ("wide", None)),
    ]
    assert [tag for tag, _ in tags if tag == "tfoot"] == ["tfoot"]


def test_results_by_task_are_paired_by_sample(tmp_path):
    samples = [folder.sample(key, b"", "held_out") | {"task": task} for key, task in zip("abcd", "xxyy", strict=True)]
    folder.write_table(tmp_path / "prepare_questions", "samples", samples)
    values = {"base": (0.0, 1.0, 0.0, None), "policy": (1.0, 1.0, 1.0, 1.0)}
    rows = [
        {"sample_id": key, "model": model, "step": None, "right": value, "response": "", "tokens": 1, "task": ""}
        for model, of_model in values.items()
        for key, value in zip("abcd", of_model, strict=True)
    ]
    folder.write_scores(tmp_path, "evaluate_answers", rows)
    first, second = task_results(RunFolder(tmp_path, "report"), "answers")
    assert (first.task, first.base.value, first.policy.value) == ("x", 0.5, 1.0)
    assert (first.difference.value, first.difference.samples) == (0.5, 2)
    assert (second.base.value, second.base.missing) == (0.0, 1)
    assert second.difference.value == pytest.approx(1.0)


def test_record_lists_the_models_that_the_run_served_and_how_each_ended(tmp_path):
    (tmp_path / "recipe.yaml").write_text("name: x\npolicy: {reward: {judge: {serve: genrm}}}\n")
    shared = {"name": "genrm", "model": "sha256:77 vllm-0.30.0", "replicas": 1, "accelerators": 2}
    events = [
        {"event": "ready", **shared, "ready_seconds": 61.0},
        {"event": "restarted", **shared, "reason": "its server ended with -9"},
        {
            "event": "stopped",
            **shared,
            "seconds": 3600.0,
            "accelerator_hours": 2.0,
            "reason": "train_rlr3 was the last",
        },
        {"event": "ready", **shared, "ready_seconds": 30.0},
    ]
    lines = [json.dumps(event) for event in events]
    (tmp_path / EVENTS_FILE).write_text("\n".join([*lines, '{"event": "stop']))
    block = what_ran(RunFolder(tmp_path, "report"))
    [served] = [part for part in block.parts if isinstance(part, Table) and "Restarts" in part.columns]
    first, second = served.rows
    assert first[:2] == ("genrm", "sha256:77 vllm-0.30.0")
    assert first[4:] == (1, "2.00", "train_rlr3 was the last")
    assert second[4] == 0  # killed with its run: it has no end
    [models] = [part for part in block.parts if isinstance(part, Table) and "Role" in part.columns]
    assert models.rows == [("policy reward judge", "genrm", "served by the run")]
