"""A copy of a run, whose files have the date of the copy: times and order are those of the run."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta

from rubricworks.reports.run_folder import RunFolder
from rubricworks.runs.records import run_record
from rubricworks.runs.store import open_run_store
from rubricworks.runs.working_copy import write_stop

BEGAN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
STAGES = ("prepare", "warm_up", "caption_student")
"""In the order of their ends, which is not that of their names."""


def test_a_copy_tells_the_runs_own_times_and_the_order_of_its_stages(tmp_path):
    run = tmp_path / "runs" / "mine"
    run.mkdir(parents=True)
    (run / "recipe.yaml").write_text("name: mine\npipeline: rubicap\n")
    with (run / "ledger.jsonl").open("w") as ledger:
        for number, stage in enumerate(STAGES):
            (run / stage).mkdir()
            (run / stage / "made_from.json").write_text("{}")
            done = {"stage": stage, "version": "1", "config": "c", "inputs": {}, "digest": "d"}
            (run / stage / "done.json").write_text(json.dumps(done))
            ended = (BEGAN + timedelta(minutes=number + 1)).isoformat()
            ledger.write(json.dumps({"stage": stage, "seconds": 60.0, "ended": ended}) + "\n")
    shutil.copytree(run, tmp_path / "runs" / "copy", copy_function=shutil.copyfile)
    record = run_record(open_run_store(str(tmp_path / "runs")), "copy")
    assert record.started == BEGAN
    assert [stage.stage for stage in record.stages] == list(STAGES)
    assert record.stages[-1].changed == BEGAN + timedelta(minutes=3)
    copied = RunFolder(tmp_path / "runs" / "copy", "report", {})
    assert [stage.stage for stage in copied.stage_records] == list(STAGES)


def test_a_copy_ended_as_the_run_did_whatever_file_was_copied_first(tmp_path):
    run = tmp_path / "runs" / "mine"
    for stage in STAGES:
        (run / stage).mkdir(parents=True)
        (run / stage / "made_from.json").write_text("{}")
    (run / "recipe.yaml").write_text("name: mine\npipeline: rubicap\n")
    write_stop(str(tmp_path / "runs"), run, "continue with: x")
    os.utime(run / "outcome.json", (1, 1))
    store = open_run_store(str(tmp_path / "runs"))
    assert run_record(store, "mine").state == "stopped"
    (run / "score").mkdir()
    (run / "score" / "made_from.json").write_text("{}")
    assert run_record(store, "mine").state == "unfinished"
