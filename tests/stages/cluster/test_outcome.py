"""The last task of a run on a cluster: what it writes down of the run, whatever became of it."""

import json

import pytest
from kfp.dsl import PipelineTaskFinalStatus

from rubricworks.llm import Spending
from rubricworks.llm.spending import SPENDING_FILE
from rubricworks.llm.usage import Totals
from rubricworks.runtime.job import RECORD_VERSION
from rubricworks.runtime.launch import launch
from rubricworks.stages.cluster.outcome import with_final_status
from rubricworks.tracking import TrackingConfig, open_pipeline
from rubricworks.tracking.connection import connect

JOB = "projects/p/locations/l/pipelineJobs/mine-x7"


@pytest.fixture
def run(tmp_path):
    """A run that MLflow knows, with a stage that is done and something spent."""
    folder = tmp_path / "runs" / "mine"
    (folder / "prepare").mkdir(parents=True)
    (folder / "prepare" / "done.json").write_text("{}")
    spending, totals = Spending(folder / SPENDING_FILE, "caption_committee"), Totals()
    spending.open_account("captions", "m", totals)
    totals.calls, totals.prompt_tokens, totals.cost = 1, 900, 0.25
    spending.close()
    return folder


RUBICAP = json.dumps({"expected": ["prepare"], "branches": False})
RETRAIN = json.dumps({"expected": ["find_new_samples"], "branches": True})
TOLD = ["SUCCEEDED", "COMPLETE", "RUNNING", "FAILED"]
"""States that backends tell of the same good end."""


def tell(run, state: str, message: str | None = None, pipeline: str = RUBICAP):
    status = PipelineTaskFinalStatus(state, JOB, "exit-handler-1", 13 if message else None, message)
    launch("outcome", with_final_status('{"seed": 1}', pipeline, status), run.as_uri(), {})
    return json.loads((run / "outcome" / "outcome.json").read_text())


def write(run, path: str, content: object) -> None:
    (run / path).parent.mkdir(exist_ok=True)
    (run / path).write_text(json.dumps(content))


@pytest.mark.parametrize("told", TOLD)
def test_a_good_end_says_what_was_done_and_what_it_cost_whatever_kubeflow_says(run, told):
    record = tell(run, told)
    assert (record["state"], record["stages"]) == ("SUCCEEDED", ["prepare"])
    assert (record["tokens"], record["dollars"]) == (900, 0.25)
    assert record["message"] is None
    assert json.loads((run / "outcome.json").read_text()) == record


@pytest.mark.parametrize("told", TOLD)
def test_a_retraining_that_was_skipped_ended_well(run, told):
    write(run, "find_new_samples/done.json", {})
    write(run, "summary.json", {"outcome": SKIPPED})
    record = tell(run, told, pipeline=RETRAIN)
    assert (record["state"], record["message"]) == ("SUCCEEDED", SKIPPED)


@pytest.mark.parametrize("told", TOLD)
def test_a_branch_that_broke_off_without_a_word_is_a_failure(run, told):
    write(run, "find_new_samples/done.json", {})
    record = tell(run, told, pipeline=RETRAIN)
    assert (record["state"], record["message"]) == (
        "FAILED",
        "ended without a word of its own: the branch that the run took",
    )
    write(run, "warm_up/made_from.json", {"record": RECORD_VERSION})  # its pod was lost
    assert tell(run, told, pipeline=RETRAIN)["message"] == "ended without a word of its own: warm_up"


@pytest.mark.parametrize("told", TOLD)
def test_a_stage_that_never_began_is_a_failure(run, told):
    pipeline = json.dumps({"expected": ["prepare", "warm_up"], "branches": False})
    record = tell(run, told, pipeline=pipeline)
    assert (record["state"], record["stage"]) == ("FAILED", None)
    assert record["message"] == "ended without a word of its own: warm_up"


@pytest.mark.parametrize("told", ["CANCELED", "CANCELLED"])
def test_a_run_that_was_stopped_is_cancelled_unless_it_had_ended_well(run, told):
    assert tell(run, told)["state"] == "SUCCEEDED"
    write(run, "warm_up/made_from.json", {"record": RECORD_VERSION})
    assert tell(run, told)["state"] == "CANCELLED"


SKIPPED = "skipped: 12 new samples, 500 needed"
GATE = {"model_name": "captioner", "version": "3", "passed": True, "promoted": True, "reasons": ["win rate is above"]}


@pytest.mark.parametrize(
    ("left", "message"),
    [
        ({"summary.json": {"outcome": SKIPPED}}, SKIPPED),
        ({"promote/promotion.json": GATE}, "captioner version 3 is the champion"),
        (
            {"promote/promotion.json": GATE | {"passed": False, "promoted": False, "reasons": ["a is low", "b too"]}},
            "captioner is not promoted: a is low; b too",
        ),
        (
            {"promote/promotion.json": GATE | {"version": None, "promoted": False}},
            "captioner is not promoted: there is no model registry",
        ),
    ],
)
def test_success_message_is_that_of_the_deciding_stage(run, left, message):
    for path, content in left.items():
        write(run, path, content)
    assert tell(run, "SUCCEEDED")["message"] == message
    assert json.loads((run / "outcome.json").read_text())["message"] == message
    write(run, "error.json", {"stage": "report", "message": "no room"})
    assert tell(run, "FAILED")["message"] == "no room"


@pytest.mark.parametrize("told", TOLD)
def test_a_failure_is_told_in_the_stages_own_words_which_stay(run, told):
    error = {"stage": "train_policy", "message": "the loss is not a number at step 7", "traceback": "…"}
    write(run, "error.json", error)
    record = tell(run, told, "main: exit code 2")
    assert (record["state"], record["stage"]) == ("FAILED", "train_policy")
    assert record["message"] == "the loss is not a number at step 7"
    assert json.loads((run / "error.json").read_text()) == error
    assert json.loads((run / "outcome" / "error.json").read_text()) == error


def test_a_check_that_failed_this_time_is_a_failure_though_it_was_done_before(run):
    write(run, "preflight/done.json", {})
    write(run, "error.json", {"stage": "preflight", "message": "1 of 3 checks failed"})
    assert tell(run, "FAILED")["stage"] == "preflight"


def test_a_failure_that_no_stage_could_report_is_told_in_kubeflows_words(run):
    write(run, "train_policy/made_from.json", {"record": RECORD_VERSION})
    record = tell(run, "FAILED", "OOMKilled")
    assert (record["stage"], record["message"]) == (None, "OOMKilled")


def test_error_of_an_earlier_attempt_is_not_reported_after_success(run):
    write(run, "error.json", {"stage": "prepare", "message": "old"})
    assert tell(run, "SUCCEEDED")["message"] is None


def test_a_second_attempt_is_told_anew(run):
    write(run, "train_policy/made_from.json", {"record": RECORD_VERSION})
    assert tell(run, "FAILED", "OOMKilled")["state"] == "FAILED"
    write(run, "train_policy/done.json", {})
    assert tell(run, "SUCCEEDED")["state"] == "SUCCEEDED"


def test_the_run_is_closed_in_mlflow_with_the_reason(run, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    config = TrackingConfig(uri=f"sqlite:///{tmp_path}/mlflow.db")
    open_pipeline(config, run, {"policy": {"steps": 2}})
    write(run, "error.json", {"stage": "warm_up", "message": "no images"})
    tell(run, "FAILED", "exit code 2")
    connection = connect(config, run.parent)
    (runs,) = connection.client.search_runs([connection.experiment_id], "tags.`rubricworks.stage` = 'pipeline'")
    assert runs.info.status == "FAILED"
    assert runs.data.tags["error"] == "warm_up: no images"
    assert runs.data.tags["kubeflow.run"] == JOB
    assert runs.data.params["policy.steps"] == "2"


def test_mlflow_out_of_reach_spoils_nothing(run):
    (run / "tracking").mkdir()
    config = {"uri": "http://127.0.0.1:9", "experiment": "x"}
    (run / "tracking" / "settings.json").write_text(json.dumps({"config": config, "key": "k"}))
    assert tell(run, "SUCCEEDED")["state"] == "SUCCEEDED"
