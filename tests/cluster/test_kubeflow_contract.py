"""Requests of the real `kfp.Client` and answers of the small Kubeflow, checked against the API's own description.

The description is read out of the client that Kubeflow generates from it; RUBRICWORKS_KFP_SWAGGER names a file.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from kfp_api_description import describe_api
from kubeflow_api import FakeKubeflow
from kubeflow_stand_in import ARGUMENTS, compiled_pipeline
from peer_folders import PEERS

from rubricworks.errors import UserError
from rubricworks.kubeflow.connection import Kubeflow, connect
from rubricworks.kubeflow.remote_runs import list_runs, retry_run, show_run, start_run, stop_run
from rubricworks.kubeflow.schedules import (
    create_schedule,
    delete_schedule,
    list_schedules,
    pause_schedule,
    resume_schedule,
)
from rubricworks.kubeflow.versions import push
from rubricworks.recipe.kubeflow import KubeflowConfig
from rubricworks.runtime.run_uri import RUN_ID

pytestmark = pytest.mark.cluster

PRISM = shutil.which("prism") or str(PEERS / "prism" / "node_modules" / ".bin" / "prism")


@pytest.fixture(scope="module")
def fake():
    with FakeKubeflow() as fake:
        yield fake


@pytest.fixture(scope="module")
def kubeflow(fake, tmp_path_factory):
    """Reached through prism, which answers an error for a request or an answer that the API does not describe."""
    if not Path(PRISM).exists():
        pytest.skip("prism is not installed; tests/cluster/install.sh does it")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("prism") / "log"
    description = os.environ.get("RUBRICWORKS_KFP_SWAGGER")
    if not description:
        description = str(log.with_name("description.json"))
        Path(description).write_text(json.dumps(describe_api()))
    with log.open("wb") as out:
        prism = subprocess.Popen(
            [PRISM, "proxy", "--errors", "-p", str(port), "-h", "127.0.0.1", description, fake.url],
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url, prism, log)
            os.environ["RUBRICWORKS_KUBEFLOW_TOKEN"] = "a-token"  # the API's description asks for one
            yield connect(KubeflowConfig(url=url))
        finally:
            os.environ.pop("RUBRICWORKS_KUBEFLOW_TOKEN", None)
            prism.terminate()
            prism.wait(300)


def _wait_for(url: str, prism: subprocess.Popen[bytes], log: Path) -> None:
    request = urllib.request.Request(f"{url}/apis/v2beta1/healthz", headers={"Authorization": "Bearer a-token"})
    for _ in range(600):
        assert prism.poll() is None, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=120):
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def version(kubeflow, tmp_path_factory):
    return push(kubeflow, compiled_pipeline(tmp_path_factory.mktemp("compiled")), revision="g0123abc")


def test_prism_refuses_what_the_api_does_not_describe(kubeflow: Kubeflow):
    with pytest.raises(UserError, match="HTTP 4"), kubeflow.request("send nonsense") as client:
        client.runs.run_service_create_run({"display_name": "x", "colour": "blue"})


def test_an_answer_that_the_api_does_not_describe_is_found(kubeflow: Kubeflow, fake: FakeKubeflow):
    fake.health["colour"] = "blue"
    try:
        with pytest.raises(UserError, match="HTTP 5"):
            connect(KubeflowConfig(url=kubeflow.url))
    finally:
        del fake.health["colour"]


def test_versions(kubeflow: Kubeflow, version, tmp_path):
    assert version.uploaded
    assert not push(kubeflow, compiled_pipeline(tmp_path), revision="g0123abc").uploaded
    push(kubeflow, compiled_pipeline(tmp_path), revision="g0123abc", name="release-1")
    with pytest.raises(UserError, match="with other content"):
        push(kubeflow, compiled_pipeline(tmp_path, cpu="4"), revision="g0123abc", name="release-1")


def test_runs(kubeflow: Kubeflow, fake: FakeKubeflow, version):
    run = start_run(kubeflow, version, "monday", ARGUMENTS, experiment="captioner", service_account="trainer")
    assert [run.name for run in list_runs(kubeflow)] == ["monday"]
    assert list_runs(kubeflow, name="tuesday") == []
    assert stop_run(kubeflow, "monday").state == "CANCELING"
    fake.end(run.id, "CANCELED", {"first": "SUCCEEDED", "second": "CANCELED"})
    assert [(stage.stage, stage.state) for stage in show_run(kubeflow, "monday").stages] == [
        ("first", "SUCCEEDED"),
        ("second", "CANCELED"),
    ]
    assert retry_run(kubeflow, run.id).state == "RUNNING"


def test_schedules(kubeflow: Kubeflow, fake: FakeKubeflow, version):
    own = {**ARGUMENTS, "run": f"s3://runs/weekly-{RUN_ID}"}
    schedule = create_schedule(kubeflow, "weekly", "0 3 * * 1", version, own, experiment="retrain")
    assert fake.only("recurringruns")["trigger"] == {"cron_schedule": {"cron": "0 0 3 * * 1"}}
    assert [schedule.name for schedule in list_schedules(kubeflow)] == ["weekly"]
    assert not pause_schedule(kubeflow, "weekly").on
    assert resume_schedule(kubeflow, "weekly").on
    assert show_run(kubeflow, fake.begin_of(schedule.id)["run_id"]).schedule == schedule.id
    delete_schedule(kubeflow, "weekly")
    assert list_schedules(kubeflow) == []


def test_a_refusal_of_the_server_reaches_the_user(kubeflow: Kubeflow, version):
    with pytest.raises(UserError, match=r"parameters differ: \['first_config'\] \(HTTP 400\)"):
        start_run(kubeflow, version, "tuesday", {"run": "s3://runs/tuesday"}, experiment="captioner")


@pytest.mark.parametrize(
    "body", [{"display_name": "x", "nonsense": 1}, {"display_name": 1}, {"storage_state": "SOMEWHERE"}, []]
)
def test_a_request_that_the_description_does_not_know_is_refused(kubeflow: Kubeflow, body):
    """Else the tests above would show nothing."""
    headers = {"Authorization": "Bearer a-token", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{kubeflow.url}/apis/v2beta1/runs", json.dumps(body).encode(), headers)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=120)
    assert caught.value.code == 422
