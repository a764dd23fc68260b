"""States that the exit handler is told of, and tasks that the cache passes over, with pods that all end well."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from kubeflow_driver import KubeflowBackend, Pod
from placed_tasks import cluster_of

from rubricworks.kubeflow.compile import compile_pipeline, load_pipeline
from rubricworks.runtime.run_uri import RUN_ID

RETRAIN = ("find_new_samples", "fetch_champion", "challenge", "preflight", "outcome")


class Pods:
    """Pods that only hand on their outputs; `find_new_samples` chooses a branch."""

    def __init__(self, branch: str) -> None:
        self.branch = branch

    def __call__(self, pod: Pod) -> int:
        given = json.loads(pod.command[pod.command.index("--executor_input") + 1])
        outputs = dict.fromkeys(given["outputs"]["parameters"], f"output of {pod.task}")
        if pod.task == "preflight":
            outputs["run"] = given["inputs"]["parameterValues"]["run_id"]
        if pod.task == "find-new-samples":
            outputs["Output"] = self.branch
        written = {"parameterValues": outputs, "artifacts": {}}
        Path(given["outputs"]["outputFile"]).write_text(json.dumps(written))
        return 0


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("compiled") / "retrain.yaml"
    compile_pipeline(load_pipeline("retrain"), path, cluster_of("retrain"))
    return path


def backend(version: str, branch: str, folder: Path) -> KubeflowBackend:
    return KubeflowBackend(version, folder, Pods(branch), secrets=defaultdict(lambda: defaultdict(str)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "branch", "told"),
    [
        *(("2.16", branch, "RUNNING") for branch in ("rubicap", "balcaprl", "rlr3", "none")),
        *(("2.17", branch, "COMPLETE") for branch in ("rubicap", "balcaprl", "rlr3")),
        ("2.17", "none", "RUNNING"),
    ],
)
def test_a_good_end_is_told_as_running_where_no_container_ends_after_a_branch(tmp_path, package, version, branch, told):
    arguments = {"run": f"s3://runs/weekly-{RUN_ID}", **{f"{stage}_config": "{}" for stage in RETRAIN}}
    run = backend(version, branch, tmp_path).run(package, arguments)
    assert (run.state, run.told) == ("SUCCEEDED", told)


def test_two_runs_of_a_schedule_share_no_cached_task(tmp_path, package):
    arguments = {"run": f"s3://runs/weekly-{RUN_ID}", **{f"{stage}_config": "{}" for stage in RETRAIN}}
    weekly = backend("2.17", "rubicap", tmp_path)
    for run in (weekly.run(package, arguments), weekly.run(package, arguments)):
        assert not [task.name for task in run.tasks if task.cached]
