"""A team's installation (team.yaml): its project's file, logins, reviews of tokens, figures and priorities."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendered_chart import (
    CHART,
    MODELS,
    NAMESPACE,
    PRODUCTION,
    TEAM,
    at,
    containers,
    environment_of,
    merged,
    of_kind,
    rendered,
    the,
)

from rubricworks.platform_api.project import Project, load_project

pytestmark = pytest.mark.cluster


def project_of(objects: list[dict[str, Any]], folder: Path) -> Project:
    """The project as the API reads it."""
    file = folder / "project.yaml"
    file.write_text(the(objects, "ConfigMap", "-project")["data"]["project.yaml"])
    project = load_project(str(file))
    assert project is not None
    return project


def test_the_api_reads_the_project_as_the_values_have_it(tmp_path: Path) -> None:
    project = project_of(rendered(TEAM), tmp_path)
    assert project.name == "captions"
    assert project.roles == {scope: tuple(groups) for scope, groups in TEAM["project"]["roles"].items()}
    assert project.login.issuer == "https://login.example.org/realms/main"
    assert project.login.client_secret_env == "RUBRICWORKS_OIDC_SECRET"
    assert project.kubernetes.audience == "rubricworks-captions"
    assert project.budget.dollars_a_month == 500
    assert (project.quotas.runs_at_once, project.quotas.gigabytes) == (4, 2000)


def test_a_project_of_tokens_alone_has_no_bounds_and_no_login(tmp_path: Path) -> None:
    objects = rendered(merged(PRODUCTION, at("project.name", "captions")))
    assert project_of(objects, tmp_path) == Project(name="captions", roles=dict.fromkeys(TEAM["project"]["roles"], ()))
    assert not of_kind(objects, "ClusterRoleBinding")


def test_api_and_migration_have_the_project_and_only_the_api_the_clients_secret() -> None:
    objects = rendered(TEAM)
    pods = {
        "api": the(objects, "Deployment", "-api")["spec"]["template"],
        "migration": the(objects, "Job", "-migration-1")["spec"]["template"],
    }
    for pod in pods.values():
        (container,) = containers(pod)
        file = Path(environment_of(container)["RUBRICWORKS_PROJECT"])
        mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        assert volumes[mounted[str(file.parent)]]["configMap"]["name"] == "rubricworks-project"
    secret = {"secretKeyRef": {"name": "rubricworks-oidc", "key": "client-secret"}}
    assert environment_of(containers(pods["api"])[0])["RUBRICWORKS_OIDC_SECRET"] == secret
    assert "RUBRICWORKS_OIDC_SECRET" not in environment_of(containers(pods["migration"])[0])


def test_the_api_alone_has_a_token_of_the_cluster_and_may_only_have_tokens_reviewed() -> None:
    objects = rendered(TEAM)
    pod = the(objects, "Deployment", "-api")["spec"]["template"]
    assert pod["spec"]["automountServiceAccountToken"] is False
    (volume,) = [volume for volume in pod["spec"]["volumes"] if "projected" in volume]
    (mount,) = [mount for mount in containers(pod)[0]["volumeMounts"] if mount["name"] == volume["name"]]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    binding = the(objects, "ClusterRoleBinding")
    subject = {"kind": "ServiceAccount", "name": pod["spec"]["serviceAccountName"], "namespace": NAMESPACE}
    assert (binding["roleRef"]["name"], binding["subjects"]) == ("system:auth-delegator", [subject])


def test_a_change_of_the_roles_starts_new_pods_of_the_api() -> None:
    def annotations(values: dict[str, Any]) -> dict[str, str]:
        return the(rendered(values), "Deployment", "-api")["spec"]["template"]["metadata"]["annotations"]

    assert annotations(TEAM) != annotations(merged(TEAM, at("project.roles.admin", ["others"])))


def test_prometheus_reads_the_api_by_a_token_and_each_model() -> None:
    objects = rendered(TEAM)
    api, models = (the(objects, "ServiceMonitor", ending) for ending in ("-api", "-models"))
    for monitor, services in ((api, ["rubricworks-api"]), (models, ["rubricworks-model-judge"])):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        selected = [item for item in of_kind(objects, "Service") if wanted <= item["metadata"]["labels"].items()]
        assert [item["metadata"]["name"] for item in selected] == services
        assert monitor["spec"]["endpoints"][0]["port"] in [port["name"] for port in selected[0]["spec"]["ports"]]
        assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    credentials = api["spec"]["endpoints"][0]["authorization"]["credentials"]
    assert credentials == {"name": "rubricworks-prometheus", "key": "token"}
    assert not of_kind(rendered(merged(PRODUCTION, MODELS)), "ServiceMonitor"), "off by default"


def test_rules_and_dashboard_are_those_of_the_chart_and_of_this_namespace() -> None:
    objects = rendered(TEAM)
    rules = the(objects, "PrometheusRule")["spec"]
    written = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text().replace("NAMESPACE", NAMESPACE))
    assert rules == written
    dashboard = the(objects, "ConfigMap", "-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["rubricworks.json"]) == json.loads(
        (CHART / "files" / "dashboard.json").read_text()
    )


def test_the_api_and_models_come_before_runs_unless_they_name_another_class() -> None:
    objects = rendered(merged(TEAM, at("models.judge.priorityClassName", "own")))
    priority = the(objects, "PriorityClass")
    assert priority["preemptionPolicy"] == "Never"
    classes = {
        ending: the(objects, "Deployment", ending)["spec"]["template"]["spec"]["priorityClassName"]
        for ending in ("-api", "-model-judge")
    }
    assert classes == {"-api": priority["metadata"]["name"], "-model-judge": "own"}
    other = the(rendered(TEAM, release="images"), "PriorityClass")["metadata"]["name"]
    assert other != priority["metadata"]["name"]
