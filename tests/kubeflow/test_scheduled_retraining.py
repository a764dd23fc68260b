"""Scheduled retraining on the Kubeflow stand-in: three weeks of one schedule, with real data, registry and MLflow."""

import json
from pathlib import Path
from types import SimpleNamespace

import object_store
import pytest
from growing_source import draw, prepare
from kubeflow_driver import BackendRun, KubeflowBackend, MlflowPlugin
from kubeflow_pods import ForkedPods
from winning_scores import winning_scores

from rubricworks.data.tables import read_rows
from rubricworks.kubeflow.compile import compile_pipeline, load_pipeline
from rubricworks.kubeflow.recipe_runs import run_arguments
from rubricworks.methods.retrain.recipe import RetrainRecipe
from rubricworks.runtime.launch import launch
from rubricworks.runtime.run_uri import RUN_ID
from rubricworks.tracking import TrackingConfig, connect, registry

pytest.importorskip("mlflow")
pytestmark = pytest.mark.slow

GATE = {"b_capscore_gain_low_above": 0.0}


class Schedule:
    """One schedule: the pipeline compiled once, the same arguments for every run."""

    def __init__(self, home: Path, endpoint: str, version: str) -> None:
        self.home, self.tracking = home, f"sqlite:///{home}/mlflow.db"
        self.recipe = RetrainRecipe.model_validate(
            {
                "name": "weekly",
                "pipeline": "retrain",
                "new_samples": {"needed": 10, "admit": {"places": [str(home / "images")]}},
                "challenge": {"approval": "gate"},
                "tracking": {"uri": self.tracking},
                "cluster": {
                    "storage": "s3://models/runs",
                    "images": {"pull_policy": "Never"},
                    "secrets": {"s3": {name: name for name in object_store.environment("")}},
                },
            }
        )
        cluster = self.recipe.cluster
        assert cluster is not None
        self.package = home / "retrain.yaml"
        compile_pipeline(load_pipeline("retrain"), self.package, cluster)
        self.arguments = run_arguments(self.recipe, cluster, f"weekly-{RUN_ID}")
        self.pods = ForkedPods(home / "pods", "quick_stages", {"QUICK_FAILURES": str(home / "faults")})
        plugin = MlflowPlugin(self.tracking) if version == "2.17" else None
        secrets = {"s3": object_store.environment(endpoint)}
        self.backend = KubeflowBackend(version, home / "root", self.pods, secrets=secrets, mlflow=plugin)
        self.fail({})

    def fail(self, faults: dict[str, list[str]]) -> None:
        (self.home / "faults").write_text(json.dumps(faults))

    def begin(self, week: int) -> BackendRun:
        run = self.backend.run(self.package, self.arguments, name=f"weekly-{week}")
        for task in run.tasks:
            if task.phase == "Failed":
                print(f"{task.name}:\n{self.pods.log_of(task.name)}")
        return run

    def folder(self, run: BackendRun) -> Path:
        """Folder of a run in the store, which rclone serves from the disk."""
        return self.home / "buckets" / "models" / "runs" / f"weekly-{run.id}"

    def outcome(self, run: BackendRun) -> SimpleNamespace:
        return SimpleNamespace(**json.loads((self.folder(run) / "outcome" / "outcome.json").read_text()))

    def connection(self):
        connection = connect(TrackingConfig(uri=self.tracking), self.home)
        assert connection is not None
        return connection

    def champion(self) -> int:
        champion = registry.champion(self.connection(), "captioner")
        assert champion is not None
        return champion.version


def make_champion(home: Path, tracking: str) -> None:
    """Version 1 of `captioner`, of a run on 30 images."""
    draw(home / "images", range(30))
    run = home / "first"
    (run / "tracking").mkdir(parents=True)
    settings = {"config": {"uri": tracking, "experiment": "rubricworks"}, "key": "first"}
    (run / "tracking" / "settings.json").write_text(json.dumps(settings))
    stages = {
        "prepare": {"source": str(home / "images"), "held_out": 4},
        "promote": {"model_name": "captioner", "gate": GATE},
    }
    for stage, name, content in (
        ("policy", "model/config.json", "{}"),
        ("scores", "scores.json", winning_scores().model_dump_json()),
    ):
        (home / stage / name).parent.mkdir(parents=True)
        (home / stage / name).write_text(content)
        (home / stage / "done.json").write_text(json.dumps({"digest": stage}))
    config = {**stages["promote"], "recipe": {"name": "mine", "pipeline": "rubicap", "stages": stages}}
    inputs = {
        "samples": prepare(run, home / "images"),
        **{name: str(home / name) for name in ("policy", "scores")},
    }
    launch("promote", json.dumps(config), str(run), inputs)


@pytest.fixture(params=["2.16", "2.17"])
def schedule(request, tmp_path, monkeypatch):
    for name in ("MLFLOW_RUN_ID", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    with object_store.rclone_server(tmp_path / "buckets") as endpoint:
        (tmp_path / "buckets" / "models").mkdir()
        schedule = Schedule(tmp_path, endpoint, request.param)
        make_champion(tmp_path, schedule.tracking)
        yield schedule


def test_three_weeks_train_skip_and_train_on_what_is_new(schedule: Schedule):
    images = schedule.home / "images"
    draw(images, range(100, 120))
    first = schedule.begin(1)
    assert schedule.outcome(first).state == "SUCCEEDED"
    assert schedule.champion() == 2
    second = schedule.begin(2)
    draw(images, range(200, 240))
    third = schedule.begin(3)

    outcomes = [schedule.outcome(run) for run in (first, second, third)]
    assert [outcome.state for outcome in outcomes] == ["SUCCEEDED"] * 3
    assert [run.state for run in (first, second, third)] == ["SUCCEEDED"] * 3
    assert [outcome.message for outcome in outcomes] == [
        "captioner version 2 passed and is the champion",
        "skipped: 0 new samples, 10 needed",
        "captioner version 3 passed and is the champion",
    ]
    assert schedule.champion() == 3
    # The third week read the source of the third week.
    rows = list(read_rows(schedule.folder(third) / "prepare", columns=["sample_id"]))
    assert len(rows) == 30 + 20 + 40
    assert not [task.name for run in schedule.backend.runs for task in run.tasks if task.cached]
    # Kubeflow's pages show what came of what: each artifact names the digests of those that it was made from.
    made = {task.name: task.artifacts for task in third.tasks}
    samples, policy = made["prepare"]["dataset"], made["train-policy"]["checkpoint"]
    assert (samples["type"], policy["type"]) == ("system.Dataset", "system.Model")
    assert samples["metadata"]["uri"] == f"s3://models/runs/weekly-{third.id}/prepare"
    assert policy["metadata"]["samples_digest"] == samples["metadata"]["digest"]
    assert policy["metadata"]["model_digest"] == made["warm-up"]["checkpoint"]["metadata"]["digest"]
    assert made["score"]["dataset"]["metadata"]["policy_digest"] == policy["metadata"]["digest"]
    # Every run closed its own MLflow run, and every stage is nested in it.
    client = schedule.connection().client
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    told = client.search_runs(experiments, "tags.`kubeflow.run` != ''")
    assert sorted(run.info.status for run in told) == ["FINISHED"] * 3
    assert {run.data.tags["kubeflow.run"] for run in told} == {"weekly-1", "weekly-2", "weekly-3"}
    stages = client.search_runs(experiments, "tags.`rubricworks.stage` = 'challenge'")
    trained = {run.info.run_id for run in told if run.data.tags["kubeflow.run"] != "weekly-2"}
    assert {stage.data.tags["mlflow.parentRunId"] for stage in stages} == trained
