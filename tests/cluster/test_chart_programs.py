"""The chart's programs run with the command, the variables and the script that the chart renders."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import helm_python
import pytest
import yaml
from object_store import ACCESS, SECRET, free_port, rclone_server, wait_for_port
from rendered_chart import (
    DIGEST,
    MATRIX,
    NAMESPACE,
    PRODUCTION,
    at,
    containers,
    environment_of,
    merged,
    of_kind,
    rendered,
    the,
)

from rubricworks.kubeflow.placement import pod_plan
from rubricworks.recipe.cluster import ClusterConfig
from rubricworks.recipe.placement import StagePlacement
from rubricworks.storage.s3_settings import settings_from_environment

pytestmark = pytest.mark.cluster

BIN = Path(sys.executable).parent
TOKEN = "a-token-that-is-long-enough"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MLFLOW_", "RUBRICWORKS_"))}


def plain(container: Mapping[str, Any]) -> dict[str, str]:
    """The variables that hold values; those of Secrets are left out."""
    return {name: value for name, value in environment_of(dict(container)).items() if isinstance(value, str)}


@contextmanager
def running(command: list[str], port: int, environment: Mapping[str, str], folder: Path) -> Iterator[str]:
    program = [str(BIN / command[0]), *command[1:]]
    with (folder / f"{command[0]}.log").open("w") as log:
        own = {**CLEAN, **environment}
        process = subprocess.Popen(program, env=own, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_for_port(port, process, 240)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(300)


@pytest.mark.parametrize("case", ["production", "trial", "models", "keys", "ingress and scaling", "everything"])
def test_the_cluster_map_is_a_section_that_recipes_take(case: str) -> None:
    objects = rendered(MATRIX[case])
    section = yaml.safe_load(the(objects, "ConfigMap", "rubricworks-cluster")["data"]["cluster.yaml"])["cluster"]
    cluster = ClusterConfig.model_validate(section)
    assert cluster.service_account == of_kind(objects, "RoleBinding")[0]["subjects"][0]["name"]
    placement = StagePlacement(pool="cpu", memory="4Gi")
    plan = pod_plan("prepare", "image", cluster, placement)
    accounts = {item["metadata"]["name"]: item for item in of_kind(objects, "ServiceAccount")}
    assert accounts[plan.service_account]["automountServiceAccountToken"] is False
    bound = {subject["name"] for item in of_kind(objects, "RoleBinding") for subject in item["subjects"]}
    assert plan.service_account not in bound
    assert cluster.production == (case != "trial")
    if case != "trial":
        assert cluster.images.trainer.endswith(f"rubricworks/trainer:0.2.0@{DIGEST}")
        assert cluster.run_uri("run-1") == "s3://rubricworks-team/runs/run-1"
    if case == "everything":
        assert cluster.namespace == "profile-a"
        assert cluster.queue == "gpus"
        assert cluster.pools["h100"].accelerator == "nvidia.com/gpu"
        assert [item.seconds for item in cluster.pools["h100"].tolerations] == [None, 60]
        assert cluster.secrets["store"]["AWS_SECRET_ACCESS_KEY"] == "AWS_SECRET_ACCESS_KEY"
        assert cluster.secrets["sse"] == {"key": "RUBRICWORKS_S3_SSE_KEY"}
        assert cluster.secrets["mlflow"] == {"user": "MLFLOW_TRACKING_USERNAME", "password": "MLFLOW_TRACKING_PASSWORD"}
        assert cluster.env["AWS_ENDPOINT_URL_S3"] == "https://s3.example.com:9443"
    if case == "keys":
        # The stages trust the store's authority, as the chart's own pods do.
        (folder,) = cluster.config_map_files.values()
        assert cluster.env["AWS_CA_BUNDLE"] == f"{folder}/ca.crt"
        assert {"name": "ca", "configMap": {"name": "ca"}} in plan.volumes


ODD_NAMES = ["on", "null", "123", "0777", "1e3", "a.b", "n" * 63, "n" * 64, "m" * 253, "workspace", "v1.2"]
"""Names that YAML takes for something else, or that are too long for some objects."""
NAMED = [
    ("storage.ca.existingConfigMap", lambda cluster: next(iter(cluster.config_map_files))),
    ("storage.credentials.existingSecret", lambda cluster: next(iter(cluster.secrets))),
    ("storage.region", lambda cluster: cluster.env["AWS_REGION"]),
    ("kueue.queue", lambda cluster: cluster.queue),
    ("serviceAccounts.pipelines.name", lambda cluster: cluster.service_account),
    ("serviceAccounts.workers.name", lambda cluster: cluster.worker_service_account),
    ("images.cpu.tag", lambda cluster: cluster.images.cpu.partition(":")[2].partition("@")[0]),
]
ODD_VALUES = [
    *((path, name, of) for path, of in NAMED for name in ODD_NAMES),
    *(
        ("pools", {name: {}}, lambda cluster, name=name: {name: {}} if name in cluster.pools else {})
        for name in ODD_NAMES
    ),
    *(("pipelines.namespaces", [name], lambda cluster: [cluster.namespace]) for name in ODD_NAMES),
    *(("images.pullSecrets", [name], lambda cluster: [*cluster.images.pull_secrets]) for name in ODD_NAMES),
    *(
        ("storage.uri", uri, lambda cluster: cluster.storage)
        for uri in ("s3://runs/a:", "s3://runs/{a}", "s3://runs/a'")
    ),
    *(
        ("pools", {"h100": {"tolerations": [toleration]}}, None)
        for toleration in (
            {"key": "gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 60},
            {"key": "gpu", "operator": "Equal", "value": ""},
            {"key": "gpu", "value": "on"},
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
        )
    ),
    *(("pools", {"h100": {"accelerator": name}}, None) for name in ("-x/y", "nvidia.com/" + "g" * 64, "a..b/gpu")),
    *(("pools", {"h100": {"nodeSelector": {key: "on"}}}, None) for key in ("a..b/c", "on", "p" * 254 + "/a")),
]


def test_a_value_that_the_chart_takes_gives_a_map_that_a_recipe_takes() -> None:
    taken = 0
    for path, value, of in ODD_VALUES:
        try:
            objects = rendered(merged(PRODUCTION, at(path, value)))
        except helm_python.HelmError:
            continue
        taken += 1
        try:
            content = the(objects, "ConfigMap", "-cluster")["data"]["cluster.yaml"]
            cluster = ClusterConfig.model_validate(yaml.safe_load(content)["cluster"])
            shown = of(cluster) if of else None
        except ValueError as error:
            pytest.fail(f"{path}={value!r}: {error}")
        assert shown in (None, value), path
    assert taken > 60


def test_kubeflow_runs_request_promotions_by_their_own_token() -> None:
    def section(**more: Any) -> ClusterConfig:
        content = the(rendered(merged(PRODUCTION, more)), "ConfigMap", "rubricworks-cluster")["data"]["cluster.yaml"]
        return ClusterConfig.model_validate(yaml.safe_load(content)["cluster"])

    named = section(pipelines={"apiToken": {"existingSecret": "runner"}})
    assert named.env["RUBRICWORKS_API"] == "http://rubricworks-api.team.svc:80"
    assert named.secrets["runner"] == {"token": "RUBRICWORKS_API_TOKEN"}
    unable = section()  # a run that would promote a model fails at its start
    assert unable.env["RUBRICWORKS_API"] == named.env["RUBRICWORKS_API"]
    assert "RUBRICWORKS_API_TOKEN" not in {key for keys in unable.secrets.values() for key in keys.values()}
    without_api = section(pipelines={"apiToken": {"existingSecret": "runner"}}, api={"enabled": False})
    assert ("RUBRICWORKS_API" in without_api.env, "runner" in without_api.secrets) == (False, False)


OPEN, SAFE = "open.example.com", "safe.example.com"


@pytest.mark.parametrize(
    ("hosts", "tls", "public_url"),
    [
        ([SAFE], [], None),
        ([SAFE], [{"secretName": "tls", "hosts": [SAFE]}], f"https://{SAFE}"),
        ([OPEN, SAFE], [{"secretName": "tls", "hosts": [SAFE]}], f"https://{SAFE}"),
        ([OPEN], [{"secretName": "tls", "hosts": ["other.example.com"]}], None),
        ([SAFE], [{"secretName": "tls", "hosts": ["*.example.com"]}], f"https://{SAFE}"),
        ([SAFE, OPEN], [{"secretName": "tls"}], f"https://{SAFE}"),
        (["*.example.com"], [{"secretName": "tls", "hosts": ["*.example.com"]}], None),
    ],
)
def test_the_public_address_is_the_first_host_of_the_ingress_with_tls(hosts, tls, public_url) -> None:
    ingress = {"enabled": True, "hosts": [{"host": host} for host in hosts], "tls": tls}
    deployment = the(rendered(merged(PRODUCTION, {"api": {"ingress": ingress}})), "Deployment", "-api")
    assert plain(containers(deployment["spec"]["template"])[0]).get("RUBRICWORKS_PUBLIC_URL") == public_url


def test_the_store_that_is_meant_is_the_one_that_is_reached(tmp_path: Path) -> None:
    container = containers(the(rendered(MATRIX["keys"]), "Deployment", "-api")["spec"]["template"])[0]
    environment = plain(container)
    mount = next(item["mountPath"] for item in container["volumeMounts"] if item["name"] == "storage-ca")
    assert environment["AWS_CA_BUNDLE"] == f"{mount}/ca.crt"
    ca, key = tmp_path / "ca.crt", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    ca.write_text("certificates")
    settings = settings_from_environment({**environment, "AWS_CA_BUNDLE": str(ca), "RUBRICWORKS_S3_SSE_KEY": key})
    assert settings.endpoint == "https://s3.example.com:9443"
    assert (settings.region, settings.ca_file, settings.sse) == ("us-east-1", str(ca), "c")


def test_retention_runs_as_rendered_and_says_what_would_go(tmp_path: Path) -> None:
    job = the(rendered(PRODUCTION), "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    command = containers(job)[0]["command"]
    (tmp_path / "runs").mkdir()
    command = [str(tmp_path / "runs") if word.startswith("s3://") else word for word in command]
    done = subprocess.run(
        [BIN / command[0], *command[1:]], env=CLEAN, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "would delete 0 runs" in done.stdout


def test_buckets_are_made_once(tmp_path: Path) -> None:
    job = the(rendered(MATRIX["trial"]), "Job")["spec"]["template"]
    (container,) = containers(job)
    assert container["command"][:2] == ["python", "-c"]
    with rclone_server(tmp_path / "store") as url:
        environment = {**CLEAN, **plain(container), "AWS_ENDPOINT_URL_S3": url}
        environment |= {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}
        program = [sys.executable, *container["command"][1:], *container["args"]]
        for message in ("made", "was there"):
            done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120)
            assert done.stdout.splitlines() == [f"rubricworks: {message}", f"mlflow: {message}"]
            assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in (tmp_path / "store").iterdir()} == {"rubricworks", "mlflow"}


def test_the_api_starts_as_rendered_and_passes_the_helm_test_only_when_it_is_well(tmp_path: Path) -> None:
    objects = rendered(MATRIX["trial"])
    (api,) = containers(the(objects, "Deployment", "-api")["spec"]["template"])
    (test,) = containers(the(objects, "Pod", "-test"))
    port = free_port()
    assert api["command"][2:4] == ["--host", "::"]
    command = [str(port) if word == "8080" else word for word in api["command"]]
    values = {**plain(api), "RUBRICWORKS_API_TOKEN": TOKEN, "RUBRICWORKS_STORAGE": str(tmp_path)}
    values["RUBRICWORKS_DATABASE_URL"] = values["RUBRICWORKS_DATABASE_URL"].replace(
        "/var/lib/rubricworks", str(tmp_path)
    )

    def run_helm_test(url: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
        service = f"http://rubricworks-api.{NAMESPACE}.svc:80"
        questions = [question.replace(service, url) for question in test["args"] if "mlflow" not in question]
        assert len(questions) == 4
        assert all(url in question for question in questions)
        environment = {**CLEAN, **plain(test), "RUBRICWORKS_API_TOKEN": token, "ANSWER_WITHIN": "2"}
        program = [sys.executable, *test["command"][1:], *questions]
        return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120)

    with running(command, port, values, tmp_path) as url:
        if socket.has_dualstack_ipv6():
            socket.create_connection(("::1", port), timeout=120).close()
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            with urlopen(url + api[probe]["httpGet"]["path"], timeout=120) as answer:
                assert answer.status == 200
        well = run_helm_test(url)
        assert well.returncode == 0, well.stdout
        assert well.stdout.count(" ok") == 4
        wrong = run_helm_test(url, "not-the-token-at-all")
        assert wrong.returncode == 1
        assert "401 FAILED: 200 expected" in wrong.stdout
    outcome = run_helm_test(url)
    assert outcome.returncode == 1
    assert TOKEN not in well.stdout + wrong.stdout + outcome.stdout + outcome.stderr
    values["RUBRICWORKS_STORAGE"] = str(tmp_path / "nowhere" / "at" / "all")
    values["RUBRICWORKS_DATABASE_URL"] = f"sqlite:///{tmp_path}/nowhere/platform.db"
    with running(command, port, values, tmp_path) as url:
        assert "/readyz: 503 FAILED: 200 expected" in run_helm_test(url).stdout


def test_a_model_listens_on_every_address_that_its_node_has(tmp_path: Path) -> None:
    (container,) = containers(the(rendered(MATRIX["models"]), "Deployment", "-model-judge")["spec"]["template"])
    (tmp_path / "vllm").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "vllm").chmod(0o755)
    command = [*container["command"], *container["args"]]
    for present, host in ((True, "::"), (False, "0.0.0.0")):
        known = tmp_path / "if_inet6"
        known.touch() if present else known.unlink()
        program = [word.replace("/proc/net/if_inet6", str(known)) for word in command]
        environment = {**CLEAN, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120, check=True)
        arguments = done.stdout.splitlines()
        assert arguments == ["serve", "Qwen/Qwen3-VL-8B-Instruct", f"--host={host}", *container["args"]]


def test_the_policy_of_submissions_is_mounted_where_the_api_reads_it() -> None:
    submissions = {"existingConfigMap": "admitted", "key": "policy.yaml"}
    template = the(rendered(merged(PRODUCTION, {"api": {"submissions": submissions}})), "Deployment", "-api")["spec"]
    (api,) = template["template"]["spec"]["containers"]
    path = Path(environment_of(api)["RUBRICWORKS_SUBMISSIONS"])
    (mount,) = [mount for mount in api["volumeMounts"] if mount["mountPath"] == str(path.parent)]
    (volume,) = [volume for volume in template["template"]["spec"]["volumes"] if volume["name"] == mount["name"]]
    assert (path.name, volume["configMap"]) == ("policy.yaml", {"name": "admitted"})
    (without,) = the(rendered(PRODUCTION), "Deployment", "-api")["spec"]["template"]["spec"]["containers"]
    assert "RUBRICWORKS_SUBMISSIONS" not in environment_of(without)


def test_mlflow_answers_to_the_names_that_pods_call_and_to_no_others(tmp_path: Path) -> None:
    objects = rendered(merged(MATRIX["trial"], {"trial": {"mlflow": {"allowedHosts": ["mlflow.example.com"]}}}))
    (container,) = containers(the(objects, "Deployment", "-mlflow")["spec"]["template"])
    port = free_port()
    changed = {
        "--port=5000": f"--port={port}",
        "--backend-store-uri=sqlite:////mlflow/mlflow.db": f"--backend-store-uri=sqlite:///{tmp_path}/mlflow.db",
        "--artifacts-destination=s3://mlflow/artifacts": f"--artifacts-destination={tmp_path}/artifacts",
    }
    assert changed.keys() <= set(container["args"])
    command = [*container["command"], *(changed.get(word, word) for word in container["args"])]

    def status(url: str, host: str) -> int:
        try:
            with urlopen(Request(url, headers={"Host": host}), timeout=120) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    caller = environment_of(containers(the(objects, "Deployment", "-api")["spec"]["template"])[0])
    address = caller["MLFLOW_TRACKING_URI"].removeprefix("http://")
    with running(command, port, {**plain(container), "HOME": str(tmp_path)}, tmp_path) as url:
        if socket.has_dualstack_ipv6():
            socket.create_connection(("::1", port), timeout=120).close()
        until = time.monotonic() + 300
        while status(f"{url}{container['startupProbe']['httpGet']['path']}", "10.0.0.7:5000") != 200:
            assert time.monotonic() < until
            time.sleep(0.5)
        experiment = f"{url}/api/2.0/mlflow/experiments/get?experiment_id=0"
        assert status(experiment, address) == 200
        assert status(experiment, "rubricworks-mlflow:5000") == 200
        assert status(experiment, "mlflow.example.com") == 200
        assert status(experiment, f"localhost:{port}") == 200
        assert status(experiment, "attacker.example.net") == 403
    assert (tmp_path / "mlflow.db").is_file()
