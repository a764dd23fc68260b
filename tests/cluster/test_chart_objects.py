"""Objects that the chart renders are valid by Kubernetes's schemas, and their names and labels match."""

import re
from itertools import chain
from pathlib import Path

import helm_python
import kubernetes_validate
import pytest
import yaml
from rendered_chart import (
    CHART,
    MATRIX,
    NAMESPACE,
    PRODUCTION,
    containers,
    merged,
    notes,
    of_kind,
    pod_templates,
    rendered,
    the,
)

from rubricworks.kubernetes.connection import OLDEST

pytestmark = pytest.mark.cluster

WITHOUT_SCHEMA = {"ScaledObject", "ServiceMonitor", "PrometheusRule"}
"""Of KEDA and of Prometheus' operator, not of Kubernetes."""


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("case", MATRIX)
def test_every_object_passes_the_strict_schema_of_kubernetes(case: str, version: str) -> None:
    objects = rendered(MATRIX[case])
    checked = [item for item in objects if item["kind"] not in WITHOUT_SCHEMA]
    for item in checked:
        kubernetes_validate.validate(item, version, strict=True)
    assert len(checked) > (4 if case == "little" else 15)


def test_a_cluster_that_is_too_old_for_stages_on_several_pods_is_refused() -> None:
    major, minor = OLDEST
    # `-0` takes what clouds append: 1.29.4-gke.100.
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={major}.{minor}.0-0"
    assert f"Kubernetes {major}.{minor} or newer" in (CHART.parents[1] / "docs" / "kubernetes.md").read_text()


def test_a_field_that_kubernetes_does_not_know_would_be_noticed() -> None:
    service = the(rendered(PRODUCTION), "Service", "-api")
    service["spec"]["ports"][0]["targetport"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="targetport"):
        kubernetes_validate.validate(service, "1.37", strict=True)


def test_helm_lint_finds_nothing_to_mend() -> None:
    for values in ({}, *MATRIX.values()):
        report = helm_python.lint(CHART, values, strict=True)
        assert [message for message in report["messages"] if message["severity"] > 1] == []
        assert not report["errors"]


@pytest.mark.parametrize("release", ["r", "rubricworks", "a" * 53, "team-a.prod", "1-2"])
@pytest.mark.parametrize("case", ["trial", "everything"])
def test_names_and_labels_are_short_enough_and_names_are_unique(case: str, release: str) -> None:
    names = set()
    for item in rendered(MATRIX[case], release=release):
        name = item["metadata"]["name"]
        longest = {"CronJob": 52, "Service": 63, "Pod": 63, "Job": 63, "StatefulSet": 52}.get(item["kind"], 253)
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
        assert len(name) <= longest, f"{item['kind']} {name}"
        for value in item["metadata"]["labels"].values():
            assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value)
        key = (item["kind"], item["metadata"].get("namespace"), name)
        assert key not in names
        names.add(key)


@pytest.mark.parametrize("case", MATRIX)
def test_what_selects_pods_finds_pods_and_ports(case: str) -> None:
    objects = rendered(MATRIX[case])
    templates = list(pod_templates(objects))

    def objects_with(labels: dict[str, str]) -> list[dict]:
        return [pod for _, pod in templates if labels.items() <= pod["metadata"]["labels"].items()]

    for item in of_kind(objects, "Service"):
        (pod,) = objects_with(item["spec"]["selector"])
        open_ports = {port["name"] for container in containers(pod) for port in container["ports"]}
        assert {port["targetPort"] for port in item["spec"]["ports"]} <= open_ports
    for item in of_kind(objects, "PodDisruptionBudget"):
        assert len(objects_with(item["spec"]["selector"]["matchLabels"])) == 1
    for item in chain(of_kind(objects, "Deployment"), of_kind(objects, "StatefulSet")):
        own = objects_with(item["spec"]["selector"]["matchLabels"])
        assert own == [item["spec"]["template"]], f"{item['metadata']['name']} would fight over pods"
    for item in chain(of_kind(objects, "HorizontalPodAutoscaler"), of_kind(objects, "ScaledObject")):
        target = the(objects, "Deployment", item["spec"]["scaleTargetRef"]["name"])
        assert "replicas" not in target["spec"], "an upgrade would undo what the autoscaler did"
    for item in of_kind(objects, "Ingress"):
        backend = item["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
        ports = the(objects, "Service", backend["name"])["spec"]["ports"]
        assert backend["port"]["name"] in {port["name"] for port in ports}


@pytest.mark.parametrize("case", MATRIX)
def test_probes_mounts_claims_and_accounts_are_there(case: str) -> None:
    objects = rendered(MATRIX[case])
    claims = {item["metadata"]["name"] for item in of_kind(objects, "PersistentVolumeClaim")} | {"weights"}
    accounts = {item["metadata"]["name"] for item in of_kind(objects, "ServiceAccount")}
    for where, pod in pod_templates(objects):
        spec = pod["spec"]
        assert spec["serviceAccountName"] in accounts
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        if where.startswith("StatefulSet "):
            volumes |= {"data": {}}
        for container in containers(pod):
            assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(paths) == len(set(paths))
            names = [variable["name"] for variable in container["env"]]
            assert len(names) == len(set(names)), "the first of two variables of one name is silently lost"
            ports = {port["name"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if ports:
                    assert container[probe]["httpGet"]["port"] in ports
        assert {
            v["persistentVolumeClaim"]["claimName"] for v in volumes.values() if "persistentVolumeClaim" in v
        } <= claims


@pytest.mark.parametrize("case", ["trial", "everything"])
def test_an_upgrade_of_the_chart_alone_starts_no_pod_anew(case: str) -> None:
    changing = {"helm.sh/chart", "app.kubernetes.io/version"}
    for _, pod in pod_templates(
        [item for item in rendered(MATRIX[case]) if item["kind"] in ("Deployment", "StatefulSet")]
    ):
        assert not changing & pod["metadata"]["labels"].keys()
    first, second = (rendered(MATRIX[case], revision=revision) for revision in (1, 2))
    steady = [[item for item in objects if item["kind"] != "Job"] for objects in (first, second)]
    assert steady[0] == steady[1]
    # A Job cannot be changed, so each revision has its own.
    assert not {item["metadata"]["name"] for item in of_kind(first, "Job")} & {
        item["metadata"]["name"] for item in of_kind(second, "Job")
    }


def test_a_model_gets_its_pool_its_accelerators_and_its_arguments() -> None:
    objects = rendered(MATRIX["models"])
    judge = the(objects, "Deployment", "-model-judge")["spec"]["template"]
    container = judge["spec"]["containers"][0]
    assert container["command"][-1] == "Qwen/Qwen3-VL-8B-Instruct"
    assert {"--tensor-parallel-size=2", "--max-model-len=1000000", "--port=8000"} <= set(container["args"])
    assert (
        container["resources"]["limits"]["nvidia.com/gpu"] == container["resources"]["requests"]["nvidia.com/gpu"] == 2
    )
    assert judge["spec"]["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}
    assert judge["spec"]["tolerations"][0]["key"] == "nvidia.com/gpu"
    assert judge["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    shared = next(volume for volume in judge["spec"]["volumes"] if volume["name"] == "shared-memory")
    assert shared["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}

    teacher = the(objects, "Deployment", "-model-teacher")["spec"]["template"]["spec"]["containers"][0]
    assert {"--served-model-name=teacher-1", "--revision=0a1b2c"} <= set(teacher["args"])
    scaler = the(objects, "ScaledObject")["spec"]
    assert scaler["maxReplicaCount"] == 1
    assert f'namespace="{NAMESPACE}"' in scaler["triggers"][0]["metadata"]["query"]
    assert 'model_name="teacher-1"' in scaler["triggers"][0]["metadata"]["query"]

    for role, expected in (("judge", True), ("policy", False)):
        (server,) = of_kind(
            rendered({**MATRIX["models"], "models": {"one": {**MATRIX["models"]["models"]["judge"], "role": role}}}),
            "Deployment",
            "-model-one",
        )
        arguments = server["spec"]["template"]["spec"]["containers"][0]["args"]
        assert ("--generation-config=vllm" in arguments) == expected, (
            "a judge's sampling is the recipe's, not the hub's"
        )

    local = the(objects, "Deployment", "-model-local")["spec"]["template"]["spec"]
    assert "nodeSelector" not in local
    assert "nvidia.com/gpu" not in local["containers"][0]["resources"]["limits"]
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in local["containers"][0]["env"]
    assert {"name": "models", "mountPath": "/models", "readOnly": True} in local["containers"][0]["volumeMounts"]


@pytest.mark.parametrize("case", MATRIX)
def test_what_a_pod_may_write_fits_into_its_bounds(case: str) -> None:
    """A pod is evicted when its volumes hold more than its containers' limit, however large the volumes may be."""
    units = {"Mi": 1, "Gi": 1024}

    def mebibytes(text: str) -> int:
        return int(text[:-2]) * units[text[-2:]]

    for where, pod in pod_templates(rendered(MATRIX[case])):
        limits = [container["resources"]["limits"] for container in containers(pod)]
        of_medium = {"": 0, "Memory": 0}
        for volume in pod["spec"]["volumes"]:
            if "emptyDir" in volume:
                of_medium[volume["emptyDir"].get("medium", "")] += mebibytes(volume["emptyDir"]["sizeLimit"])
        assert of_medium[""] < sum(mebibytes(limit["ephemeral-storage"]) for limit in limits), where
        assert of_medium["Memory"] < sum(mebibytes(limit["memory"]) for limit in limits), where


def test_a_packaged_chart_renders_the_same(tmp_path: Path) -> None:
    archive = helm_python.package(CHART, destination=tmp_path)
    with helm_python.Chart.load(archive) as packaged, helm_python.Chart.load(CHART) as chart:
        values = MATRIX["trial"]
        assert packaged.render(values, name="r", namespace="n") == chart.render(values, name="r", namespace="n")


def test_retention_says_what_would_go_until_it_is_told_to_delete() -> None:
    def command(**args: object) -> list[str]:
        job = the(rendered(merged(PRODUCTION, {"retention": args})), "CronJob")["spec"]["jobTemplate"]["spec"]
        return containers(job["template"])[0]["command"]

    command_line = ["rubricworks", "runs", "prune", "--older-than", "90d", "--runs", "s3://rubricworks-team/runs"]
    assert command() == [*command_line, "--dry-run"]
    assert command(dryRun=False) == command_line


def test_notes_say_where_things_are_and_what_is_open() -> None:
    text = notes(MATRIX["everything"])
    assert "https://rubricworks.example.com/" in text
    assert f"http://rubricworks-model-judge.{NAMESPACE}.svc:8000/v1" in text
    assert "profile-a, profile-b" in text
    assert "kubectl -n team port-forward svc/rubricworks-api" in notes(PRODUCTION)
    assert "single pods" in notes(MATRIX["trial"])
    assert "every pod of the cluster can reach" in notes(MATRIX["little"])
