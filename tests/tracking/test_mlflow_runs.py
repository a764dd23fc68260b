"""Pipelines and stages as runs in a real MLflow: SQLite files, an HTTP server, and no server at all."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow_server import start_mlflow, stop_mlflow
from object_store import free_port

from rubricworks.errors import UserError
from rubricworks.tracking import (
    TrackingConfig,
    check_tracking,
    close_pipeline,
    connect,
    open_pipeline,
    pipeline_run,
    stage_run,
    tracking_uri,
)
from rubricworks.tracking.delivery import deliver

pytest.importorskip("mlflow")

pytestmark = pytest.mark.slow
DEFAULT = TrackingConfig()


@pytest.fixture(autouse=True)
def _no_server_in_the_environment(monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "RUBRICWORKS_TRACKED_RUN"):
        monkeypatch.delenv(name, raising=False)


def tracked(runs: Path, config: TrackingConfig = DEFAULT) -> dict[str, object]:
    """Name → run, as MLflow's own client finds them."""
    connection = connect(config, runs)
    result = connection.client.search_runs([connection.experiment_id])
    assert len({run.info.run_name for run in result}) == len(result)
    return {run.info.run_name: run for run in result}


def curve(runs: Path, run: object, name: str, config: TrackingConfig = DEFAULT) -> list[tuple[int, float]]:
    history = connect(config, runs).client.get_metric_history(run.info.run_id, name)
    return sorted((point.step, point.value) for point in history)


def test_stages_are_nested_in_the_pipeline_with_their_curves_settings_and_tables(tmp_path):
    recipe = {
        "policy": {"algorithm": {"steps": 200}, "betas": [0.9, 0.99]},
        "teachers": [{"model": "a"}, {"model": "b"}],
    }
    with pipeline_run(DEFAULT, tmp_path, "demo", recipe), stage_run(tmp_path / "demo", "train_policy") as log:
        for step in range(1_500):
            log.log_metrics({"reward": step / 2, "kl": None, "odd name (%)": float("nan")}, step=step)
        log.log_table("rollouts", [{"caption": "a red circle", "reward": 1.0}, {"caption": "…", "reward": None}])
        log.log_input("samples", "file:///x/samples", "ab" * 32, context="training")
        log.set_tags({"alarm": "length"})
    runs = tracked(tmp_path)
    assert runs.keys() == {"demo", "train_policy"}
    pipeline, stage = runs["demo"], runs["train_policy"]
    assert pipeline.data.params == {
        "policy.algorithm.steps": "200",
        "policy.betas": "[0.9, 0.99]",
        "teachers.0.model": "a",
        "teachers.1.model": "b",
    }
    assert stage.data.tags["mlflow.parentRunId"] == pipeline.info.run_id
    assert (pipeline.info.status, stage.info.status) == ("FINISHED", "FINISHED")
    assert curve(tmp_path, stage, "reward") == [(step, step / 2) for step in range(1_500)]
    assert stage.data.metrics == {"reward": 749.5}
    assert stage.data.tags["alarm"] == "length"
    (used,) = stage.inputs.dataset_inputs
    assert (used.dataset.name, json.loads(used.dataset.source)["digest"]) == ("samples", "ab" * 32)
    stored = next((tmp_path / "mlartifacts").rglob("rollouts.json"))
    assert json.loads(stored.read_text()) == {
        "columns": ["caption", "reward"],
        "data": [["a red circle", 1.0], ["…", None]],
    }


def test_resumed_pipeline_and_stage_continue_their_runs(tmp_path):
    def breaks():
        with pipeline_run(DEFAULT, tmp_path, "demo", {"steps": 100}), stage_run(tmp_path / "demo", "warm_up") as log:
            log.log_metrics({"loss": 1.0}, step=1)
            raise RuntimeError("the power went")

    with pytest.raises(RuntimeError):
        breaks()
    broken = tracked(tmp_path)
    assert {run.info.status for run in broken.values()} == {"FAILED"}
    assert broken["warm_up"].data.tags["error"] == "the power went"
    with pipeline_run(DEFAULT, tmp_path, "demo", {"steps": 200}), stage_run(tmp_path / "demo", "warm_up") as log:
        log.log_metrics({"loss": 0.5}, step=2)
    runs = tracked(tmp_path)
    assert {name: run.info.run_id for name, run in runs.items()} == {name: r.info.run_id for name, r in broken.items()}
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert curve(tmp_path, runs["warm_up"], "loss") == [(1, 1.0), (2, 0.5)]
    assert runs["demo"].data.params == {"steps": "100"}
    assert runs["demo"].data.tags["changed.steps"] == "200"


def test_delivering_twice_changes_nothing(tmp_path):
    with pipeline_run(DEFAULT, tmp_path, "demo", {"a": 1}) as log:
        log.log_metrics({"x": 1.0}, step=1)
    (tmp_path / "demo" / "tracking" / "pipeline.delivered.json").unlink()
    deliver(DEFAULT, tmp_path / "demo")
    assert curve(tmp_path, tracked(tmp_path)["demo"], "x") == [(1, 1.0)]


def test_log_of_a_killed_stage_is_delivered_up_to_its_last_whole_line(tmp_path):
    run = tmp_path / "demo"
    with pipeline_run(DEFAULT, tmp_path, "demo", {}):
        program = (
            "import os, signal, sys; from pathlib import Path; from rubricworks.tracking import stage_run\n"
            f"with stage_run(Path({str(run)!r}), 'train_policy') as log:\n"
            "    log.log_metrics({'reward': 0.5}, step=1)\n"
            f'    open({str(run / "tracking" / "train_policy.jsonl")!r}, \'ab\').write(b\'{{"at": 17, "kind": "met\')\n'
            "    assert 'mlflow' not in sys.modules\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        assert subprocess.run([sys.executable, "-B", "-c", program]).returncode == -signal.SIGKILL
    assert tracked(tmp_path)["train_policy"].info.status == "RUNNING"
    with pipeline_run(DEFAULT, tmp_path, "demo", {}), stage_run(run, "train_policy") as log:
        log.log_metrics({"reward": 0.6}, step=2)
    stage = tracked(tmp_path)["train_policy"]
    assert stage.info.status == "FINISHED"
    assert curve(tmp_path, stage, "reward") == [(1, 0.5), (2, 0.6)]


def test_an_mlflow_run_deleted_during_training_is_told_once_and_loses_no_step(tmp_path, caplog):
    with pipeline_run(DEFAULT, tmp_path, "demo", {"a": 1}), stage_run(tmp_path / "demo", "train_policy") as log:
        for step in range(10):
            log.log_metrics({"reward": step}, step=step)
        deliver(DEFAULT, tmp_path / "demo")
        deleted = tracked(tmp_path)["train_policy"].info.run_id
        connect(DEFAULT, tmp_path).client.delete_run(deleted)
        for step in range(10, 20):
            log.log_metrics({"reward": step}, step=step)
        deliver(DEFAULT, tmp_path / "demo")
    new = tracked(tmp_path)["train_policy"]
    assert new.info.run_id != deleted
    assert curve(tmp_path, new, "reward") == [(step, step) for step in range(20)]
    assert [line for line in caplog.messages if "deleted" in line] == [
        f"tracking: the MLflow run {deleted} of train_policy was deleted, or is another pipeline's; all that was "
        f"logged goes to {new.info.run_id}"
    ]


def test_a_deleted_run_of_a_pipeline_comes_back_with_the_stages_that_had_ended(tmp_path):
    with pipeline_run(DEFAULT, tmp_path, "demo", {"a": 1}):
        with stage_run(tmp_path / "demo", "prepare") as log:
            log.log_metrics({"rows": 5})
        deliver(DEFAULT, tmp_path / "demo")
        client = connect(DEFAULT, tmp_path).client
        for run in tracked(tmp_path).values():
            client.delete_run(run.info.run_id)
    runs = tracked(tmp_path)
    assert runs["demo"].data.params == {"a": "1"}
    assert runs["prepare"].data.metrics == {"rows": 5}
    assert runs["prepare"].data.tags["mlflow.parentRunId"] == runs["demo"].info.run_id


@pytest.mark.parametrize("folder", ["what?", "100% #1", "a%41?b=c"])
def test_a_folder_of_runs_may_have_any_name(tmp_path, folder):
    runs = tmp_path / folder / "runs"
    runs.mkdir(parents=True)
    with pipeline_run(DEFAULT, runs, "demo", {}) as log:
        log.log_metrics({"reward": 1.0})
        log.log_table("samples", [{"caption": "a"}])
    assert tracked(runs)["demo"].data.metrics == {"reward": 1.0}
    assert (runs / "mlflow.db").is_file()
    assert len(list((runs / "mlartifacts").rglob("samples.json"))) == 1
    # MLflow makes an empty folder for what it takes for the path.
    assert [path for path in tmp_path.rglob("*") if path.is_file() and folder not in path.parts] == []


def test_same_run_id_in_two_folders_on_one_server_is_two_runs(tmp_path):
    config = TrackingConfig(uri=f"sqlite:///{tmp_path}/shared.db")
    for folder in ("mine", "yours"):
        with pipeline_run(config, tmp_path / folder, "demo", {"folder": folder}):
            pass
    connection = connect(config, tmp_path)
    runs = connection.client.search_runs([connection.experiment_id])
    assert sorted(run.data.params["folder"] for run in runs) == ["mine", "yours"]


def test_run_that_the_environment_gives_becomes_the_parent(tmp_path, monkeypatch):
    connection = connect(DEFAULT, tmp_path)
    run_id = connection.client.create_run(connection.experiment_id, run_name="given").info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", run_id)
    with pipeline_run(DEFAULT, tmp_path, "demo", {"a": 1}), stage_run(tmp_path / "demo", "prepare"):
        pass
    runs = tracked(tmp_path)
    assert runs.keys() == {"given", "prepare"}
    assert runs["given"].data.params == {"a": "1"}
    assert runs["prepare"].data.tags["mlflow.parentRunId"] == run_id


def test_tasks_with_an_id_each_share_the_run_around_them(tmp_path, monkeypatch):
    """The MLflow plugin of Kubeflow Pipelines 2.17 nests a run per task, and one per group of tasks."""
    connection = connect(DEFAULT, tmp_path)

    def create(name: str, parent: str = "") -> str:
        tags = {"mlflow.parentRunId": parent} if parent else {}
        return connection.client.create_run(connection.experiment_id, run_name=name, tags=tags).info.run_id

    kubeflow_run = create("weekly-1")
    group = create("exit-handler-1", kubeflow_run)
    monkeypatch.setenv("MLFLOW_RUN_ID", create("task preflight", group))
    open_pipeline(DEFAULT, tmp_path / "demo", {"a": 1})
    monkeypatch.setenv("MLFLOW_RUN_ID", create("task prepare", group))
    with stage_run(tmp_path / "demo", "prepare"):
        pass
    monkeypatch.setenv("MLFLOW_RUN_ID", create("task outcome", kubeflow_run))
    close_pipeline(tmp_path / "demo", "FINISHED", {"outcome": "succeeded"})
    runs = tracked(tmp_path)
    assert runs["prepare"].data.tags["mlflow.parentRunId"] == kubeflow_run
    assert runs["weekly-1"].data.params == {"a": "1"}
    assert (runs["weekly-1"].info.status, runs["weekly-1"].data.tags["outcome"]) == ("FINISHED", "succeeded")


def test_stage_on_its_own_delivers_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/cluster.db")
    for stage in ("prepare", "evaluate"):
        with stage_run(tmp_path / "demo", stage) as log:
            log.log_metrics({"rows": 7.0})
    runs = tracked(tmp_path)
    assert runs.keys() == {"demo", "prepare", "evaluate"}
    assert {runs[stage].data.tags["mlflow.parentRunId"] for stage in ("prepare", "evaluate")} == {
        runs["demo"].info.run_id
    }


def test_stage_that_nobody_asked_to_track_only_writes_its_log(tmp_path):
    with stage_run(tmp_path / "demo", "prepare") as log:
        log.log_metrics({"rows": 7.0})
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["prepare.jsonl"]


@pytest.mark.parametrize("silent", [False, True])
def test_server_that_is_not_there_is_one_line_with_how_to_test_it(tmp_path, silent, monkeypatch):
    monkeypatch.setattr("rubricworks.tracking.connection._CHECK_SECONDS", 0.3)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silent:
            listener.listen()
        uri = f"http://user:secret@127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(UserError) as refused, pipeline_run(TrackingConfig(uri=uri), tmp_path, "demo", {}):
            pass
    message = str(refused.value)
    assert f"no MLflow server at {uri.replace('user:secret', '***')}" in message
    assert "curl http://" in message
    assert "/health" in message
    assert "secret" not in message


def test_without_mlflow_tracking_is_off_unless_a_server_was_asked_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pipeline_run(DEFAULT, tmp_path, "demo", {}) as log:
        log.log_metrics({"x": 1.0})
    assert [record.getMessage() for record in caplog.records if "tracking is off" in record.getMessage()]
    assert not check_tracking(DEFAULT, tmp_path)
    assert connect(DEFAULT, tmp_path) is None
    with pytest.raises(UserError, match=r"pip install 'rubricworks\[tracking\]'"):
        check_tracking(TrackingConfig(uri="http://mlflow:5000"), tmp_path)


def test_deleted_experiment_is_a_user_error(tmp_path):
    connection = connect(TrackingConfig(experiment="old"), tmp_path)
    connection.client.delete_experiment(connection.experiment_id)
    with pytest.raises(UserError, match=r"'old' is deleted .* mlflow experiments restore"):
        connect(TrackingConfig(experiment="old"), tmp_path)


def test_database_that_is_none_is_a_user_error(tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database at all" * 100)
    with pytest.raises(UserError, match=r"MLflow at sqlite:///.*mlflow\.db"):
        connect(DEFAULT, tmp_path)


def test_default_database_is_whole_from_its_first_moment_and_lies_in_the_runs_folder(tmp_path):
    connect(DEFAULT, tmp_path)
    assert tracking_uri(DEFAULT, tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


@pytest.mark.parametrize("named_by", ["recipe", "environment"])
def test_files_of_a_database_that_is_named_lie_beside_it_wherever_one_is(tmp_path, monkeypatch, named_by):
    folder, databases = tmp_path / "here", tmp_path / "databases"
    folder.mkdir()
    databases.mkdir()
    monkeypatch.chdir(folder)
    uri = f"sqlite:///{databases}/team.db"
    if named_by == "environment":
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    page = tmp_path / "report.html"
    page.write_text("<p>fine</p>")
    config = TrackingConfig(uri=uri) if named_by == "recipe" else DEFAULT
    with pipeline_run(config, tmp_path / "runs", "demo", {}) as log:
        log.log_artifact(page, "report")
    assert list(folder.iterdir()) == []
    assert next((databases / "mlartifacts").rglob("report.html")).read_text() == "<p>fine</p>"


def test_http_server_gets_runs_curves_and_files_and_its_end_is_not_the_runs(tmp_path, caplog, monkeypatch):
    port = free_port()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:hunter2@127.0.0.1:{port}")
    config = TrackingConfig(experiment="served")
    server = start_mlflow(tmp_path, port)
    try:
        with pipeline_run(config, tmp_path / "runs", "demo", {"a": 1}) as log:
            (tmp_path / "report.html").write_text("<p>fine</p>")
            log.log_metrics({"win_rate": 0.75})
            log.log_artifact(tmp_path / "report.html", "report")
        runs = tracked(tmp_path / "runs", config)
        assert runs["demo"].data.metrics == {"win_rate": 0.75}
        assert next((tmp_path / "artifacts").rglob("report.html")).read_text() == "<p>fine</p>"
        with pipeline_run(config, tmp_path / "runs", "demo", {"a": 1}) as log:
            stop_mlflow(server)
            log.log_metrics({"win_rate": 0.8}, step=1)
        assert "are kept and delivered on --resume" in caplog.text
        server = start_mlflow(tmp_path, port)
        deliver(config, tmp_path / "runs" / "demo")
        assert curve(tmp_path / "runs", runs["demo"], "win_rate", config) == [(0, 0.75), (1, 0.8)]
        assert "hunter2" not in caplog.text
        files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
        assert any(path.name.endswith(".delivered.json") for path in files)
        assert not [path for path in files if b"hunter2" in path.read_bytes()]
    finally:
        stop_mlflow(server)
