import fcntl
import json
import os
from datetime import UTC, datetime, timedelta

import object_store
import pytest
import yaml

from rubricworks.errors import UserError
from rubricworks.runs.pruning import parse_age, prune_runs
from rubricworks.runs.records import run_record, run_records
from rubricworks.runs.store import PRUNED, open_run_store
from rubricworks.storage import open_bucket
from rubricworks.tracking import registry, stage_connection

NOW = datetime(2026, 6, 1, tzinfo=UTC)
IN_A_YEAR = datetime.now(UTC) + timedelta(days=365)
RECIPE = yaml.safe_dump({"name": "ours"})


def done_run(name="ours"):
    """Files of a finished run, in the order in which they are written."""
    return {
        "recipe.yaml": yaml.safe_dump({"name": name, "pipeline": "balcaprl"}),
        "prepare/made_from.json": "{}",
        "prepare/samples.parquet": "rows" * 100,
        "prepare/done.json": "{}",
        "train_policy/images/3f/3f0a.png": "pixels",
        "report/made_from.json": "{}",
        "report/done.json": "{}",
        "outcome.json": json.dumps({"state": "SUCCEEDED"}),
    }


@pytest.fixture(autouse=True)
def no_server(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)


@pytest.fixture
def write_runs(tmp_path):
    """Writes a run into a folder, a second between its files, the last one so many days ago."""
    folder = tmp_path / "runs"
    folder.mkdir()

    def write(name, files, days=100):
        for number, (path, content) in enumerate(files.items()):
            place = folder / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
            timestamp = NOW.timestamp() - days * 86_400 - len(files) + 1 + number
            os.utime(place, (timestamp, timestamp))
        return folder

    return write


def pruned(folder, days="90d", **more):
    outcomes = prune_runs(open_run_store(str(folder)), parse_age(days), **{"dry_run": False, "now": NOW, **more})
    return {outcome.run.name: outcome.keep_reason for outcome in outcomes}


def failed_run(**more):
    return {"recipe.yaml": RECIPE, "error.json": '{"stage": "prepare", "message": "no images"}', **more}


def test_old_runs_go_however_they_ended_and_young_ones_stay(write_runs):
    folder = write_runs("old", done_run())
    write_runs("young", done_run(), days=89)
    write_runs("half", {"recipe.yaml": RECIPE, "prepare/made_from.json": "{}"})
    write_runs("failed", failed_run())
    write_runs("failed-lately", failed_run(), days=89)
    write_runs("no-run", {"notes.txt": "mine"})
    expected = {"old": "", "half": "", "failed": ""}
    assert pruned(folder, dry_run=True) == expected
    assert (folder / "old" / "recipe.yaml").exists()
    assert pruned(folder) == expected
    assert sorted(os.listdir(folder)) == ["failed-lately", "no-run", "young"]


def test_command_tells_what_it_would_delete_and_then_deletes_it(write_runs, tell):
    folder = write_runs("failed", failed_run())
    arguments = ("runs", "prune", "--older-than", "90d", "--runs", folder)
    told = tell(*arguments, "--dry-run")
    assert (told.code, told.out.splitlines()[-1].rpartition(",")[0]) == (0, "would delete 1 runs"), told
    assert (folder / "failed").exists()
    assert tell(*arguments).out.startswith("deleted failed: failed, last changed ")
    assert not (folder / "failed").exists()


def test_a_run_that_may_be_going_stays_however_short_the_limit(write_runs):
    folder = write_runs("done", done_run(), days=2)
    write_runs("failed", failed_run(), days=2)
    write_runs("half", {"recipe.yaml": RECIPE, "prepare/made_from.json": "{}"}, days=2)
    write_runs("given-up", {"recipe.yaml": RECIPE, "prepare/made_from.json": "{}"}, days=4)
    write_runs("held", failed_run(lock=""), days=4)
    with (folder / "held" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcomes = pruned(folder, "12h")
    assert (outcomes["done"], outcomes["given-up"], outcomes["held"]) == ("", "", "it is going")
    assert outcomes["failed"] == "it is failed, but was changed in the last 3 days: it may be going, or go on"
    assert outcomes["half"] == "it is unfinished, but was changed in the last 3 days: it may be going, or go on"
    assert sorted(os.listdir(folder)) == ["failed", "half", "held"]


def test_runs_that_a_run_which_stays_takes_from_stay_and_the_others_go(write_runs):
    def takes_from(name):
        return {"reuse.json": json.dumps({"runs": [f"/elsewhere/{name}"]})}

    folder = write_runs("first", done_run())
    write_runs("second", failed_run(**takes_from("first")))
    write_runs("arm", failed_run(**takes_from("second")), days=10)
    write_runs("unneeded", failed_run())
    write_runs("old-arm", done_run() | takes_from("unneeded"))
    expected = {"first": "second takes from it", "second": "arm takes from it", "unneeded": "", "old-arm": ""}
    assert pruned(folder) == expected
    assert sorted(os.listdir(folder)) == ["arm", "first", "second"]


@pytest.mark.slow
def test_a_run_whose_model_is_in_use_stays(write_runs, tmp_path):
    folder = write_runs("champion", done_run())
    for name in ("older", "before"):
        write_runs(name, done_run())
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    for number, name in enumerate(("older", "before", "champion")):
        connection, mlflow_run = stage_connection(folder / name, "promote")
        (model / "config.json").write_text(json.dumps({"name": name}))
        version = registry.register(connection, model, "captioner", run=mlflow_run, tags={"run": name})
        registry.promote(connection, "captioner", version.version, expected=number or None)
    for name in ("older", "before", "champion"):
        write_runs(name, done_run())
        for place, _, files in os.walk(folder / name):
            for file in files:
                os.utime(os.path.join(place, file), (NOW.timestamp() - 9e6,) * 2)
    assert pruned(folder) == {
        "older": "",
        "before": "captioner version 2, the previous, came from it",
        "champion": "captioner version 3, the champion, came from it",
    }
    versions = connection.client.search_model_versions("name = 'captioner'")
    assert sorted(int(version.version) for version in versions) == [2, 3], (
        "a version that nothing uses goes with its run"
    )
    tracked = connection.client.search_runs([connection.experiment_id])
    assert "older" not in {run.data.tags.get("mlflow.runName") for run in tracked}


def test_where_the_registry_does_not_answer_nothing_goes(write_runs):
    files = done_run() | {"tracking/settings.json": json.dumps({"config": {"uri": "http://127.0.0.1:9"}, "key": "x"})}
    folder = write_runs("old", files)
    with pytest.raises(UserError, match=r"no MLflow server at http://127\.0\.0\.1:9"):
        pruned(folder)
    assert (folder / "old" / "recipe.yaml").exists()


def test_what_a_killed_sweep_began_is_finished(write_runs):
    folder = write_runs("old", done_run())
    (folder / "old").rename(folder / ".pruned-old")
    assert pruned(folder) == {}
    assert os.listdir(folder) == []


def test_a_run_is_told_from_its_folder(write_runs):
    folder = write_runs("good", done_run())
    write_runs("going-on", {**done_run(), "train/made_from.json": "{}"}, days=2)
    write_runs("bad", {"recipe.yaml": RECIPE, "error.json": '{"stage": "prepare", "message": "no\\nimages"}'}, days=1)
    write_runs("no-outcome", {path: text for path, text in done_run().items() if path != "outcome.json"}, days=3)
    begun = {"recipe.yaml": RECIPE, "prepare/made_from.json": "{}"}
    interrupted = {"error.json": '{"stage": "prepare", "message": "interrupted"}'}
    stopped = {**begun, **interrupted, "outcome.json": '{"state": "CANCELLED", "message": "continue with: x"}'}
    write_runs("stopped", stopped, days=4)
    write_runs("resumed", {**stopped, "prepare/made_from.json": "{}", "train/made_from.json": "{}"}, days=5)
    write_runs("refused", {**stopped, "outcome.json": '{"state": "FAILED"}'}, days=6)
    store = open_run_store(str(folder))
    assert [(record.name, record.state) for record in run_records(store)] == [
        ("bad", "failed"),
        ("going-on", "unfinished"),
        ("no-outcome", "unfinished"),
        ("stopped", "stopped"),
        ("resumed", "failed"),
        ("refused", "failed"),
        ("good", "done"),
    ]
    assert run_record(store, "stopped").message == "continue with: x"
    assert run_record(store, "refused").message == "prepare: interrupted"
    good = run_record(store, "good")
    assert (good.recipe, good.pipeline, good.changed) == ("ours", "balcaprl", NOW - timedelta(days=100))
    assert [(stage.stage, stage.done) for stage in good.stages] == [("prepare", True), ("report", True)]
    assert run_record(store, "bad").message == "prepare: no images"
    assert run_record(store, "bad").pipeline == "rubicap"
    assert run_record(store, "none") is None


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    (tmp_path / "buckets").mkdir()
    with object_store.rclone_server(tmp_path / "buckets") as endpoint:
        for name, value in object_store.environment(endpoint).items():
            monkeypatch.setenv(name, value)
        name = object_store.bucket_name()
        (tmp_path / "buckets" / name).mkdir()
        yield open_bucket(f"s3://{name}/runs")


@pytest.mark.slow
def test_runs_of_a_bucket_are_told_like_those_of_a_folder(bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MLflow makes its folder of artifacts where it is asked
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    of_cluster = {path: text for path, text in done_run().items() if path != "outcome.json"}
    of_cluster["outcome/outcome.json"] = json.dumps({"state": "SUCCEEDED"})
    failed = {"recipe.yaml": RECIPE, "state/prepare/error.json": '{"stage": "prepare", "message": "no images"}'}
    refused = {"state/preflight/error.json": '{"stage": "preflight", "message": "1 of 3 checks failed"}'}
    start = {"recipe.yaml": RECIPE, PRUNED: "{}"}
    for run, files in {"old": of_cluster, "bad": failed, "refused": refused, "begun": start}.items():
        for path, content in files.items():
            bucket.write(f"{run}/{path}", content.encode())
    store = open_run_store(bucket.uri)
    states = {"old": "done", "bad": "failed", "refused": "failed", "begun": "unfinished"}
    assert {record.name: record.state for record in run_records(store)} == states
    refused_run = run_record(store, "refused")
    assert (refused_run.pipeline, refused_run.message) == ("", "preflight: 1 of 3 checks failed")
    assert pruned(bucket.uri, now=IN_A_YEAR, dry_run=True) == dict.fromkeys(states, "")
    assert bucket.folders() == ["bad", "begun", "old", "refused"]


def test_runs_of_a_bucket_stay_where_nobody_knows_the_registry(bucket):
    for path, content in done_run().items():
        bucket.write(f"old/{path}", content.encode())
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI is not set, so nobody can tell"):
        pruned(bucket.uri, now=IN_A_YEAR)
    assert bucket.folders() == ["old"]


@pytest.mark.parametrize("text", ["90", "0d", "-1d", "d", "90days", "1.5d", ""])
def test_an_age_that_is_none_is_refused(text):
    with pytest.raises(UserError, match="give hours, days or weeks, such as 12h, 90d or 8w"):
        parse_age(text)
    assert parse_age("8w") == timedelta(days=56)
