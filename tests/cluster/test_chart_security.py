"""Security of all pods of the chart: few rights, fewer in the cluster, and no secret in plain text."""

import json
import re
from typing import Any

import pytest
import yaml
from rendered_chart import (
    DIGEST,
    MATRIX,
    PRODUCTION,
    containers,
    environment_of,
    merged,
    of_kind,
    pod_templates,
    rendered,
    the,
)

pytestmark = pytest.mark.cluster

LOOKS_SECRET = re.compile("TOKEN|PASSWORD|SECRET|ACCESS_KEY|API_KEY|SSE_KEY|DATABASE_URL|ROOT_USER")
RESTRICTED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


@pytest.mark.parametrize("case", MATRIX)
def test_every_pod_passes_the_pod_security_standard_restricted(case: str) -> None:
    """The standard's own list of controls: https://kubernetes.io/docs/concepts/security/pod-security-standards/."""
    for where, pod in pod_templates(rendered(MATRIX[case])):
        spec = pod["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & spec.keys(), where
        for volume in spec["volumes"]:
            assert set(volume) - {"name"} <= RESTRICTED_VOLUMES, where
        of_pod = spec["securityContext"]
        assert of_pod["runAsNonRoot"] is True
        assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
        assert of_pod.get("runAsUser", 1) != 0
        assert "sysctls" not in of_pod
        for container in containers(pod):
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, where
            assert security["runAsNonRoot"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["seccompProfile"] == {"type": "RuntimeDefault"}
            assert not {"privileged", "runAsUser", "procMount", "seLinuxOptions"} & security.keys()
            assert not any("hostPort" in port for port in container.get("ports", []))


@pytest.mark.parametrize("case", MATRIX)
def test_every_pod_has_a_read_only_root_bounds_and_no_token(case: str) -> None:
    for where, pod in pod_templates(rendered(MATRIX[case])):
        assert pod["spec"]["automountServiceAccountToken"] is False, where
        assert pod["spec"]["enableServiceLinks"] is False
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True, where
            assert {"/tmp"} <= {mount["mountPath"] for mount in container["volumeMounts"]}, f"{where} writes nowhere"
            for bound in ("requests", "limits"):
                assert {"cpu", "memory", "ephemeral-storage"} <= container["resources"][bound].keys(), where
        for volume in pod["spec"]["volumes"]:
            if "emptyDir" in volume:
                assert volume["emptyDir"]["sizeLimit"], f"{where}: {volume['name']} could fill the node's disk"


def test_on_openshift_the_cluster_chooses_the_user() -> None:
    for _, pod in pod_templates(rendered(MATRIX["openshift"])):
        assert not {"runAsUser", "runAsGroup", "fsGroup"} & pod["spec"]["securityContext"].keys()
    for _, pod in pod_templates(rendered(PRODUCTION)):
        assert pod["spec"]["securityContext"]["runAsUser"] == 10001


@pytest.mark.parametrize("case", MATRIX)
def test_secrets_are_named_and_never_written(case: str) -> None:
    objects = rendered(MATRIX[case])
    assert not of_kind(objects, "Secret")
    for where, pod in pod_templates(objects):
        for container in containers(pod):
            for name, value in environment_of(container).items():
                if LOOKS_SECRET.search(name) and not str(value).startswith("sqlite:///"):
                    assert isinstance(value, dict), f"{where}: {name} is written out"
                    assert set(value) == {"secretKeyRef"}


def test_every_secret_that_was_named_reaches_who_needs_it() -> None:
    objects = rendered(MATRIX["everything"])
    api = environment_of(containers(the(objects, "Deployment", "-api")["spec"]["template"])[0])
    assert api["RUBRICWORKS_DATABASE_URL"] == {"secretKeyRef": {"name": "rubricworks-database", "key": "url"}}
    assert api["RUBRICWORKS_API_TOKEN"] == {"secretKeyRef": {"name": "rubricworks-api", "key": "token"}}
    assert api["AWS_SECRET_ACCESS_KEY"] == {"secretKeyRef": {"name": "store", "key": "AWS_SECRET_ACCESS_KEY"}}
    assert api["AWS_SESSION_TOKEN"]["secretKeyRef"]["name"] == "store"
    assert api["RUBRICWORKS_S3_SSE_KEY"] == {"secretKeyRef": {"name": "sse", "key": "key"}}
    assert api["MLFLOW_TRACKING_PASSWORD"] == {"secretKeyRef": {"name": "mlflow", "key": "password"}}
    teacher = environment_of(containers(the(objects, "Deployment", "-model-teacher")["spec"]["template"])[0])
    assert teacher["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert teacher["VLLM_API_KEY"] == {"secretKeyRef": {"name": "judges", "key": "api-key"}}
    judge = environment_of(containers(the(objects, "Deployment", "-model-judge")["spec"]["template"])[0])
    assert not {"HF_TOKEN", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_PASSWORD"} & judge.keys()


@pytest.mark.parametrize("case", MATRIX)
def test_rights_are_few_named_and_of_one_namespace(case: str) -> None:
    objects = rendered(MATRIX[case])
    assert not of_kind(objects, "ClusterRole")
    reviews = of_kind(objects, "ClusterRoleBinding")
    has_reviews = bool(MATRIX[case].get("project", {}).get("tokenReview"))
    assert [binding["roleRef"]["name"] for binding in reviews] == ["system:auth-delegator"] * has_reviews
    roles = of_kind(objects, "Role")
    assert roles
    for role in roles:
        for rule in role["rules"]:
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"], *rule.get("resourceNames", [])]
            assert not [word for word in words if "*" in word]
            assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])
            assert not {"pods/exec", "pods/attach", "roles", "serviceaccounts/token"} & set(rule["resources"])
            if {"secrets", "configmaps"} & set(rule["resources"]):
                assert rule["verbs"] == ["get"], "what can be listed can be read whole"
                assert rule["resourceNames"]
                assert all(rule["resourceNames"])
    for binding in of_kind(objects, "RoleBinding"):
        (subject,) = binding["subjects"]
        assert binding["roleRef"]["name"] == "rubricworks-pipelines"
        assert subject["name"] == ("own" if case == "little" else "rubricworks-pipelines")
        assert subject["namespace"] == binding["metadata"]["namespace"]


def test_only_the_account_of_pipelines_has_rights_and_a_token() -> None:
    objects = rendered(PRODUCTION)
    accounts = of_kind(objects, "ServiceAccount")
    with_token = [item["metadata"]["name"] for item in accounts if item["automountServiceAccountToken"]]
    assert with_token == ["rubricworks-pipelines"]
    assert len(accounts) == 5
    assert [item["subjects"][0]["name"] for item in of_kind(objects, "RoleBinding")] == ["rubricworks-pipelines"]


def test_profiles_have_the_rights_each_for_itself() -> None:
    objects = rendered(MATRIX["profiles"])
    for kind in ("Role", "RoleBinding", "ConfigMap"):
        places = {item["metadata"]["namespace"] for item in of_kind(objects, kind)} - {"team"}
        assert places == {"profile-a", "profile-b"}
    role = of_kind(objects, "Role")[0]
    (secrets,) = [rule for rule in role["rules"] if "secrets" in rule["resources"]]
    assert secrets["resourceNames"] == ["mlpipeline-minio-artifact", "store"]


def test_an_account_that_is_there_gets_the_rights_under_a_name_of_the_releases_own() -> None:
    """Profiles of Kubeflow's have an account default-editor, and a binding of that name."""
    values = {"serviceAccounts": {"pipelines": {"create": False, "name": "default-editor"}}}
    objects = rendered(merged(MATRIX["profiles"], values))
    for binding in of_kind(objects, "RoleBinding"):
        assert binding["metadata"]["name"] == binding["roleRef"]["name"] == "rubricworks-pipelines"
        assert binding["subjects"][0]["name"] == "default-editor"
    assert not of_kind(objects, "ServiceAccount", "default-editor")


def test_production_pins_images_by_digest() -> None:
    for case in ("production", "everything"):
        for _, pod in pod_templates(rendered(MATRIX[case])):
            for container in containers(pod):
                assert container["image"].endswith(f"@{DIGEST}")
    for case in ("trial", "trial with seaweedfs"):
        images = {c["image"] for _, pod in pod_templates(rendered(MATRIX[case])) for c in containers(pod)}
        foreign = {image for image in images if not image.startswith("rubricworks/")}
        assert len(foreign) == 2
        assert all(re.fullmatch(r"[a-z0-9./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image) for image in foreign)
    image = containers(the(rendered(MATRIX["ingress and scaling"]), "Deployment", "-api")["spec"]["template"])[0][
        "image"
    ]
    assert image.startswith("registry.example.com/vision/rubricworks/api:")


def test_annotations_for_cloud_identities_reach_the_accounts() -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/runs"}
    objects = rendered(merged(PRODUCTION, {"serviceAccounts": {"retention": {"annotations": role}}}))
    assert the(objects, "ServiceAccount", "-retention")["metadata"]["annotations"] == role
    assert "AWS_ACCESS_KEY_ID" not in json.dumps(objects)


def test_pipeline_root_of_kubeflow_lies_beside_the_runs_and_not_among_them() -> None:
    launcher: Any = of_kind(rendered(MATRIX["profiles"]), "ConfigMap", "kfp-launcher")[0]["data"]
    assert launcher["defaultPipelineRoot"] == "s3://rubricworks-team/runs-kubeflow"
    store = yaml.safe_load(launcher["providers"])["s3"]["default"]
    assert store["endpoint"] == "s3.example.com:9443"
    assert store["disableSSL"] is False
    assert store["credentials"]["secretRef"]["secretName"] == "store"
