"""Further attempts of a task that failed, on the Kubeflow stand-in with a stage's real launch."""

import json
from pathlib import Path

import pytest
from kfp import dsl
from kubeflow_driver import BackendRun, KubeflowBackend
from kubeflow_pods import ForkedPods

from rubricworks.components.training.warm_up.component import warm_up
from rubricworks.kubeflow.compile import compile_pipeline
from rubricworks.recipe import ClusterConfig
from rubricworks.runtime.config import canonical_json
from rubricworks.stages.cluster.preflight import Config as PreflightConfig
from rubricworks.tracking import TrackingConfig

pytest.importorskip("mlflow")
pytestmark = pytest.mark.e2e
RETRIES = 3


@dsl.pipeline(name="small")
def small(run: str, warm_up_config: str) -> None:
    warm_up(config=warm_up_config, run=run, samples="")


class Backend(KubeflowBackend):
    """A backend whose `warm_up` fails as it is told, attempt after attempt, and then works."""

    def __init__(self, home: Path, faults: list[str], **settings: str) -> None:
        self.home = home
        (home / "faults").write_text(json.dumps({"warm_up": faults}))
        pods = ForkedPods(home / "pods", "quick_stages", {"QUICK_FAILURES": str(home / "faults")})
        super().__init__("2.17", home / "root", pods, **settings)

    def begin(self) -> BackendRun:
        package = self.home / "small.yaml"
        images, stages = {"pull_policy": "Never"}, {"warm_up": {"retries": RETRIES}}
        cluster = {"storage": "s3://unused", "images": images, "stages": stages}
        compile_pipeline(small, package, ClusterConfig.model_validate(cluster))
        check = PreflightConfig(
            recipe="name: mine\npipeline: small\n", tracking=TrackingConfig(uri=f"sqlite:///{self.home}/mlflow.db")
        )
        arguments = {
            "run": (self.home / "runs" / "mine").as_uri(),
            "preflight_config": canonical_json(check),
            "warm_up_config": "{}",
            "outcome_config": "{}",
        }
        return self.run(package, arguments)

    def outcome(self) -> tuple[str, str | None]:
        record = json.loads((self.home / "runs" / "mine" / "outcome.json").read_text())
        return record["state"], record["message"]


def test_a_users_mistake_is_met_once_and_looked_for_again_when_a_person_retries_the_run(tmp_path):
    backend = Backend(tmp_path, ["mistake"])
    run = backend.begin()
    # A second look would have found nothing wrong.
    assert (run.task("warm-up").phase, run.task("warm-up").attempts) == ("Failed", 1 + RETRIES)
    assert backend.outcome() == ("FAILED", "warm_up.student: no such model; name another")
    assert backend.retry(run).state == "SUCCEEDED"
    assert run.task("warm-up").attempts == 1
    assert backend.outcome() == ("SUCCEEDED", None)


@pytest.mark.parametrize("faults", [["crash"], ["transient", "transient", "crash"]])
def test_what_may_go_better_is_tried_again(tmp_path, faults):
    backend = Backend(tmp_path, faults)
    run = backend.begin()
    assert (run.task("warm-up").phase, run.task("warm-up").attempts) == ("Succeeded", 1 + len(faults))
    assert backend.outcome() == ("SUCCEEDED", None)


def test_a_mistake_after_a_crash_is_met_once(tmp_path):
    run = Backend(tmp_path, ["crash", "mistake"]).begin()
    assert (run.task("warm-up").phase, run.task("warm-up").attempts) == ("Failed", 1 + RETRIES)


def test_a_lost_pod_is_started_again_where_argo_is_told_to_and_named_where_it_is_not(tmp_path):
    """docs/cluster.md has the setting of Argo's ConfigMap; a pipeline has no word for it."""
    backend = Backend(tmp_path, ["lost"])
    assert backend.begin().task("warm-up").attempts == 1
    assert backend.outcome() == ("FAILED", "ended without a word of its own: warm_up")
    assert backend.retry(backend.runs[0]).state == "SUCCEEDED"
    again = tmp_path / "again"
    again.mkdir()
    backend = Backend(again, ["lost"], retry_policy="Always")
    assert backend.begin().task("warm-up").attempts == 2
    assert backend.outcome() == ("SUCCEEDED", None)
