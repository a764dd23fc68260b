"""Folder of a run on a cluster: the name that the client chose, or for a schedule's run one with Kubeflow's run id."""

from pathlib import Path

import pytest
from kfp import dsl
from kubeflow_driver import KubeflowBackend
from kubeflow_pods import ForkedPods

from rubricworks.components.data import prepare
from rubricworks.kubeflow.compile import compile_pipeline
from rubricworks.recipe import ClusterConfig
from rubricworks.runtime.run_uri import RUN_ID


@dsl.pipeline(name="small")
def small(run: str, prepare_config: str) -> None:
    prepare(config=prepare_config, run=run)


@pytest.fixture
def pods(tmp_path) -> ForkedPods:
    return ForkedPods(tmp_path / "pods", "recorded_launches", {"LAUNCHES": str(tmp_path)})


def folders(folder: Path) -> dict[str, str]:
    """Stage → folder of the run that it was launched in."""
    return {path.stem: path.read_text() for path in folder.glob("*.launch")}


@pytest.mark.parametrize("version", ["2.16", "2.17"])
@pytest.mark.parametrize("name", ["monday", f"weekly-{RUN_ID}"])
def test_every_task_of_a_run_is_given_the_folder_of_that_run(tmp_path, pods, version, name):
    package = tmp_path / "small.yaml"
    compile_pipeline(small, package, ClusterConfig(storage="s3://models/runs", images={"pull_policy": "Never"}))
    backend = KubeflowBackend(version, tmp_path / "root", pods)
    arguments = {
        "run": f"s3://models/runs/{name}",
        **{f"{task}_config": "{}" for task in ("preflight", "prepare", "outcome")},
    }
    run = backend.run(package, arguments)
    assert run.phases == {"preflight": "Succeeded", "prepare": "Succeeded", "outcome": "Succeeded"}
    folder = f"s3://models/runs/{name}".replace(RUN_ID, run.id)
    assert folders(tmp_path) == dict.fromkeys(("preflight", "prepare", "outcome"), folder)
