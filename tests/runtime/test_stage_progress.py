"""Progress of a stage in a small file of its run: items, steps, cost; an unwritable folder stops nothing."""

import json
from types import SimpleNamespace

import pytest

from rubricworks.llm.spending import SPENDING_FILE, Spending
from rubricworks.llm.usage import Totals
from rubricworks.runtime import progress
from rubricworks.runtime.job import Job
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.training.progress import StepLog


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def job(tmp_path):
    return Job(stage="score", run=tmp_path, out=tmp_path / "score", inputs={}, made_by={})


def written(run, stage="score"):
    return json.loads((run / "state" / stage / "progress.json").read_bytes())


def test_items_are_written_with_their_rate_and_what_the_run_has_cost(job, clock):
    spending = Spending(job.run / SPENDING_FILE, "caption")
    totals = Totals()
    spending.open_account("caption", "judge", totals)
    totals.calls, totals.prompt_tokens, totals.completion_tokens, totals.cost = 3, 70, 30, 0.25
    spending.close()
    counted = job.progress(40, "rows")
    assert written(job.run) | {"tokens": 100, "dollars": 0.25} == written(job.run)
    assert (written(job.run)["done"], written(job.run)["seconds_left"]) == (0, None)
    clock.now += 5
    counted.at(12, skipped=2)
    assert written(job.run) == {
        **{"done": 12, "total": 40, "unit": "rows", "rate": 2.0, "seconds_left": 14.0},
        **{"tokens": 100, "dollars": 0.25, "waiting": ""},
    }
    clock.now += 1
    counted.at(13)
    assert written(job.run)["done"] == 12, "it is replaced every few seconds"
    job.progress_file.write(12, 40, "rows", 2.0, "exceeded quota")
    assert written(job.run)["waiting"] == "exceeded quota", "what pods wait for is written at once"
    counted.at(40)
    assert (written(job.run)["done"], written(job.run)["seconds_left"]) == (40, None)
    job.progress_file.clear()
    assert not (job.run / "state" / "score" / "progress.json").exists()


def test_steps_of_a_trainer_are_written_with_the_pace_of_its_log_lines(job, clock):
    lines = []
    log = SimpleNamespace(log_metrics=lambda metrics, step: lines.append((metrics, step)))
    listen = step_listener(job, log, choose=lambda metrics: {"loss": metrics["loss"]})
    listen(StepLog(120, 500, {"loss": 1.5, "lr": 0.1}, 2.5, 950.0))
    assert lines == [({"loss": 1.5}, 120)]
    shown = written(job.run)
    assert (shown["done"], shown["total"], shown["unit"]) == (120, 500, "steps")
    assert (shown["rate"], shown["seconds_left"]) == (pytest.approx(0.4), pytest.approx(950))


def test_a_process_of_several_writes_nothing_but_the_main_one(job, clock, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    job.progress(40, "rows")
    assert not (job.run / "state").exists()


def test_a_folder_that_cannot_be_written_stops_no_stage(job, clock):
    (job.run / "state").write_text("in the way")
    job.progress(40, "rows").at(40)
