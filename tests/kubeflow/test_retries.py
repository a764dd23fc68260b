"""Further attempts of a task that failed, on the Kubeflow stand-in with a stage's real launch."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import dsl
from kubeflow_driver import BackendRun, KubeflowBackend
from kubeflow_pods import ForkedPods

from rubricworks.components.training import warm_up
from rubricworks.kubeflow.compile import compile_pipeline
from rubricworks.recipe import ClusterConfig
from rubricworks.runtime.config import canonical_json
from rubricworks.stages.cluster.preflight import Config as PreflightConfig
from rubricworks.tracking import TrackingConfig

pytest.importorskip("mlflow")
pytestmark = pytest.mark.slow
RETRIES = 3
ROOT = Path(__file__).parents[2]


@dsl.pipeline(name="small")
def small(run: str, warm_up_config: str) -> None:
    warm_up(config=warm_up_config, run=run, samples="")


class Backend(KubeflowBackend):
    """A backend whose `warm_up` fails as it is told, attempt after attempt, and then works."""

    def __init__(self, home: Path, faults: list[str], **settings: Any) -> None:
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


def test_users_mistake_fails_fast_and_is_checked_again_on_a_retry(tmp_path):
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


def test_a_lost_pod_is_named_where_argo_is_told_nothing(tmp_path):
    backend = Backend(tmp_path, ["lost"])
    assert backend.begin().task("warm-up").attempts == 1
    assert backend.outcome() == ("FAILED", "ended without a word of its own: warm_up")
    assert backend.retry(backend.runs[0]).state == "SUCCEEDED"


def documented_defaults() -> dict[str, str]:
    """`retryStrategy` of the ConfigMap in docs/cluster.md."""
    (block,) = re.findall(r"```yaml\n(data:\n.*?)```", (ROOT / "docs" / "cluster.md").read_text(), re.DOTALL)
    defaults = yaml.safe_load(yaml.safe_load(block)["data"]["workflowDefaults"])
    return defaults["spec"]["templateDefaults"]["retryStrategy"]


@pytest.mark.parametrize(
    ("faults", "phase", "pods"),
    [
        (["lost"], "Succeeded", 2),
        (["crash", "lost"], "Succeeded", 3),
        (["mistake"], "Failed", 1 + RETRIES),
    ],
)
def test_argo_told_as_documented_starts_lost_pods_again_and_no_group(tmp_path, faults, phase, pods):
    run = Backend(tmp_path, faults, template_defaults=documented_defaults()).begin()
    assert (run.task("warm-up").phase, run.pods["warm-up"]) == (phase, pods)
    assert (run.pods["preflight"], run.pods["outcome"]) == (1, 1)


def test_without_the_expression_every_group_is_run_again(tmp_path):
    """The stages' group twice in each of the run's two."""
    told = {"limit": "1", "retryPolicy": "Always"}
    run = Backend(tmp_path, ["mistake"] * 9, template_defaults=told).begin()
    assert run.pods["warm-up"] == 4 * (1 + RETRIES)
    assert run.pods["outcome"] == 2


def test_the_policy_of_kubeflows_own_manifests_leaves_failed_stages(tmp_path):
    told = {"limit": "2", "retryPolicy": "OnError"}
    assert Backend(tmp_path, ["lost"], template_defaults=told).begin().task("warm-up").attempts == 2
    other = tmp_path / "other"
    other.mkdir()
    run = Backend(other, ["crash"], template_defaults=told).begin()
    assert (run.task("warm-up").phase, run.task("warm-up").attempts) == ("Failed", 1)
