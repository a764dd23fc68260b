"""Stages of a pipeline in this process: their order, inputs and log."""

import json
import os

import pytest

from rubricworks.runs import in_process
from rubricworks.runs.in_process import run_in_process, stage_inputs
from rubricworks.runtime.stage_table import NOT_REUSABLE, STAGES


@pytest.mark.parametrize("method", ["rubicap", "rlr3", "balcaprl", "rubricrl"])
def test_inputs_are_those_of_the_stage_table_and_come_from_stages_of_the_pipeline(method):
    inputs = stage_inputs(method, NOT_REUSABLE)
    assert "score" in inputs
    assert not inputs.keys() & NOT_REUSABLE
    for stage, of_stage in inputs.items():
        assert of_stage.keys() <= set(STAGES[stage].inputs), stage
        assert set(of_stage.values()) <= inputs.keys(), stage


def test_each_stage_runs_once_after_those_it_reads_and_writes_to_the_log(tmp_path, monkeypatch, capfd):
    calls = []

    def launch(stage, config, run, inputs):
        calls.append((stage, json.loads(config), inputs))
        os.write(1, f"output of {stage}\n".encode())
        return f"{run}/{stage}"

    monkeypatch.setattr(in_process, "launch", launch)
    expected, told = stage_inputs("balcaprl", NOT_REUSABLE), []
    configs = {stage: json.dumps({"stage": stage}) for stage in expected}
    run_in_process("balcaprl", configs, run=tmp_path / "run", without=NOT_REUSABLE, on_stage=told.append)
    assert sorted(told) == sorted(expected)
    assert told == [stage for stage, _, _ in calls]
    for place, (stage, config, inputs) in enumerate(calls):
        assert config == {"stage": stage}
        assert inputs == {name: f"{tmp_path / 'run'}/{producer}" for name, producer in expected[stage].items()}
        assert set(expected[stage].values()) <= set(told[:place])
    assert (tmp_path / "run" / "log").read_text().splitlines() == [f"output of {stage}" for stage in told]
    assert capfd.readouterr().out == ""
