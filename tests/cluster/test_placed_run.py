"""A pipeline as it is compiled for a cluster, run whole by kfp.local: real stages, a real S3 server, MLflow."""

import json
import shutil

import object_store
import pytest
from kfp import dsl

from rubricworks.components.data import prepare
from rubricworks.errors import UserError
from rubricworks.kubeflow.arguments import pipeline_arguments
from rubricworks.kubeflow.cluster_pipeline import place_pipeline
from rubricworks.recipe import ClusterConfig
from rubricworks.runs.local import run_local
from rubricworks.runtime.config import canonical_json
from rubricworks.runtime.preflight_checks import DataSource
from rubricworks.stages.cluster.outcome import Config as OutcomeConfig
from rubricworks.stages.cluster.preflight import Config as PreflightConfig
from rubricworks.tracking import TrackingConfig
from rubricworks.tracking.connection import connect
from rubricworks.world.scene.export import export_scenes

pytestmark = pytest.mark.cluster


@dsl.pipeline(name="small")
def small(run: str, prepare_config: str) -> None:
    prepare(config=prepare_config, run=run)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The folder behind a bucket `models`, which the environment leads to."""
    with object_store.rclone_server(tmp_path / "buckets") as endpoint:
        for name, value in object_store.environment(endpoint).items():
            monkeypatch.setenv(name, value)
        for name in ("MLFLOW_RUN_ID", "MLFLOW_TRACKING_URI"):
            monkeypatch.delenv(name, raising=False)
        (tmp_path / "buckets" / "models").mkdir()
        yield tmp_path / "buckets" / "models"


def test_a_run_that_fails_is_told_and_goes_on_when_what_was_wrong_is_put_right(tmp_path, store):
    export_scenes(tmp_path / "scenes", seed=3, count=12)
    tracking = TrackingConfig(uri=f"sqlite:///{tmp_path}/mlflow.db")
    cluster = ClusterConfig(
        storage="s3://models/runs",
        images={role: f"registry.example/{role}:1" for role in ("cpu", "trainer")},
        stages={"default": {"retries": 0}},
        env={"RUBRICWORKS_WORKSPACE": str(tmp_path / "workspace")},
    )
    broken = tmp_path / "broken"
    broken.mkdir()
    for number in range(3):
        (broken / f"{number}.png").write_text("not a picture")
    check = PreflightConfig(
        recipe="name: mine\npipeline: small\n",
        storage=cluster.storage,
        tracking=tracking,
    )

    def go(attempt: str, source: str) -> None:
        shutil.rmtree(tmp_path / "workspace", ignore_errors=True)  # another pod, another node
        configs = {
            "preflight": canonical_json(check.model_copy(update={"data": DataSource(kind="images", source=source)})),
            "prepare": json.dumps({"source": source, "held_out": 4}),
            "outcome": canonical_json(OutcomeConfig()),
        }
        arguments = pipeline_arguments(cluster.run_uri("mine"), configs)
        run_local(place_pipeline(small, cluster), arguments, run=tmp_path / attempt)

    def outcome() -> dict:
        return json.loads((store / "runs" / "mine" / "outcome" / "outcome.json").read_text())

    # What is missing stops the run before its first stage, and the end is told.
    with pytest.raises(UserError, match=r"images: .*/nowhere"):
        go("missing", "/nowhere")
    ending = outcome()
    assert (ending["state"], ending["stage"], ending["stages"]) == ("FAILED", "preflight", [])
    assert "/nowhere" in ending["message"]
    assert not (store / "runs" / "mine" / "recipe.yaml").exists()

    # A stage that fails speaks for itself.
    with pytest.raises(UserError, match="stage prepare failed"):
        go("failing", str(broken))
    ending = outcome()
    assert (ending["state"], ending["stage"]) == ("FAILED", "prepare")
    assert str(broken) in ending["message"]
    error = json.loads((store / "runs" / "mine" / "outcome" / "error.json").read_text())
    assert error["stage"] == "prepare"
    assert (store / "runs" / "mine" / "recipe.yaml").read_text() == check.recipe

    go("well", str(tmp_path / "scenes" / "images"))
    ending = outcome()
    assert (ending["state"], ending["stages"], ending["message"]) == ("SUCCEEDED", ["prepare"], None)
    assert (store / "runs" / "mine" / "prepare" / "done.json").is_file()

    # One MLflow run for all attempts that were begun.
    connection = connect(tracking, tmp_path)
    runs = connection.client.search_runs([connection.experiment_id], "tags.`rubricworks.stage` = 'pipeline'")
    assert [run.info.status for run in runs] == ["FINISHED"]
    assert runs[0].data.params["pipeline"] == "small"
    assert runs[0].data.tags["outcome"] == "succeeded"
