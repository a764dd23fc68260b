"""Values that are mistakes: refused before anything is installed, with what to change."""

import copy
from collections.abc import Mapping
from typing import Any

import helm_python
import pytest
from rendered_chart import CHART, DIGEST, H100, KEYS, MODELS, PRODUCTION, TRIAL, at, merged, rendered

pytestmark = pytest.mark.cluster


def refusal(values: Mapping[str, Any]) -> str:
    with pytest.raises(helm_python.HelmError) as refused:
        rendered(values)
    return str(refused.value)


TYPOS = [
    ("productoin", False, "productoin"),
    ("api.replica", 3, "replica"),
    ("api.ingress.host", "x", "host"),
    ("storage.credentials.existingsecret", "x", "existingsecret"),
    ("networkPolicy.dns.port", 53, "port"),
    ("pools.h100.nodeselector", {}, "nodeselector"),
    ("models.judge.gpu", 1, "gpu"),
    ("models.judge.autoscaling.max", 1, "max"),
    ("retention.older_than", "90d", "older_than"),
    ("serviceAccounts.pipelines.annotation", {}, "annotation"),
    ("trial.minio.enable", True, "enable"),
]


@pytest.mark.parametrize(("path", "value", "name"), TYPOS, ids=[path for path, _, _ in TYPOS])
def test_a_key_that_does_not_exist_is_refused_by_name(path: str, value: Any, name: str) -> None:
    text = refusal(merged(PRODUCTION, MODELS, at(path, value)))
    assert f"'{name}' not allowed" in text
    assert "/".join(path.split(".")[:-1]) in text


def test_no_section_takes_keys_that_it_does_not_know() -> None:
    """Every object of the defaults, with one key more. Labels are free, and so are names of pools and models."""
    free = {"labels", "annotations", "podAnnotations", "nodeSelector", "affinity", "matchLabels", "pools", "models"}

    def sections(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        own = [path] if not path or path[-1] not in free else []
        inner = [
            open_sections
            for key, value in values.items()
            if isinstance(value, Mapping)
            for open_sections in sections(value, (*path, key))
        ]
        return own + inner

    with helm_python.Chart.load(CHART) as chart:
        open_sections = [path for path in sections(chart.values) if not set(path) & (free - {"pools", "models"})]
        assert len(open_sections) > 60
        for path in open_sections:
            values = at(".".join((*path, "unheardOf")), 1)
            with pytest.raises(helm_python.HelmValuesError, match="'unheardOf' not allowed"):
                chart.validate_schema(merged(PRODUCTION, values))


WRONG = [
    ("storage.uri", "gs://bucket/runs", "/storage/uri"),
    ("storage.uri", "rubricworks/runs", "/storage/uri"),
    ("storage.endpoint", "https://key:secret@s3.example.com", "/storage/endpoint"),
    ("mlflow.uri", "mlflow.example.com", "/mlflow/uri"),
    ("images.api.digest", "sha256:1234", "/images/api/digest"),
    ("images.api.repository", "rubricworks/api:latest", "/images/api/repository"),
    ("security.runAsUser", 0, "/security/runAsUser"),
    ("api.replicas", "two", "/api/replicas"),
    ("api.resources.limits", None, "missing property 'limits'"),
    ("api.resources.requests.memory", "lots", "/api/resources/requests/memory"),
    ("networkPolicy.scope", "cluster", "/networkPolicy/scope"),
    ("retention.olderThan", "3 months", "/retention/olderThan"),
    ("api.token", None, "missing property 'token'"),
    ("pools.h100.tolerations", [{"key": "gpu", "operator": "Equal"}], "/pools/h100/tolerations/0"),
    ("pools.h100.accelerator", "h100", "/pools/h100/accelerator"),
    ("models.judge.model", None, "/models/judge/model"),
    ("models.judge.autoscaling.minReplicas", 0, "/models/judge/autoscaling/minReplicas"),
    ("models.judge.args", ["--api-key=abc"], "/models/judge/args/0"),
    ("models.a-name-that-is-much-too-long.model", "org/m", "a-name-that-is-much-too-long"),
    ("api.env", [{"name": "JUDGE_API_KEY", "value": "abc"}], "missing property 'valueFrom'"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG, ids=[f"{path}={value}"[:60] for path, value, _ in WRONG])
def test_a_value_that_cannot_be_is_refused_where_it_stands(path: str, value: Any, message: str) -> None:
    assert message in refusal(merged(PRODUCTION, {"pools": {"h100": H100}}, MODELS, at(path, value)))


READERS = {"viewer": ["readers"]}
ON_CPU = {"model": "m", "pool": "cpu", "accelerators": 0}
ON_GPU = {"model": "m", "pool": "h100"}
NEEDS = [
    (
        at("storage.uri", ""),
        "storage.uri is empty: name the bucket that holds the runs, storage.uri=s3://bucket/prefix",
    ),
    (at("mlflow.uri", ""), "mlflow.uri is empty: name your MLflow server"),
    (at("images.api.digest", ""), "images.api has no digest, and production is true: set images.api.digest to sha256:"),
    (at("retention.schedule", "0 17 3 * * *"), '"0 17 3 * * *", 6 fields: a CronJob takes five'),
    (at("database.kind", "sqlite"), "a file that one pod can open: set api.replicas to 1"),
    (merged(at("database.kind", "sqlite"), at("api.replicas", 1)), "production is true: use external"),
    (at("trial.mlflow.enabled", True), "single pods without backups, and production is true"),
    (at("api.ingress.enabled", True), "api.ingress.hosts is empty: name a host"),
    (
        at("api.ingress", {"enabled": True, "hosts": [{"host": "example.com", "path": "/rubrics"}]}),
        "the path /rubrics of example.com, and pages cannot be served below a path",
    ),
    (at("api.autoscaling", {"enabled": True, "minReplicas": 9}), "minReplicas is 9, more than maxReplicas, 6"),
    (
        merged(at("api.enabled", False), at("api.ingress.enabled", True)),
        "ingress.enabled is true and api.enabled is false",
    ),
    (
        merged(at("api.enabled", False), at("api.autoscaling.enabled", True)),
        "api.autoscaling.enabled is true and api.enabled",
    ),
    (
        at("storage.ca.existingConfigMap", "our.ca"),
        '"our.ca": Kubeflow names the volume of stages',
    ),
    (
        merged(
            {"pools": {"h100": H100}, "keda": {"prometheus": "http://p:9090"}},
            at("models.j", ON_GPU | {"autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 2}}),
        ),
        "models.j.autoscaling.minReplicas is 3, more than maxReplicas, 2",
    ),
    (at("project.budget.dollarsPerMonth", 5), "project.name is empty, and project says more"),
    (at("project", {"name": "a", "tokenReview": {"audience": "a"}}), "project.roles has no group"),
    (at("project", {"name": "a", "roles": READERS, "login": {"issuer": "https://l.example"}}), "clientId is empty"),
    (
        at("project", {"name": "a", "roles": READERS, "login": {"issuer": "https://l.example", "clientId": "b"}}),
        "no host of api.ingress has TLS",
    ),
    (merged(at("project.name", "a"), at("api.enabled", False)), "project.name is a and api.enabled is false"),
    (at("monitoring.enabled", True), "networkPolicy.monitoring is empty, so Prometheus would reach nothing"),
    (at("mlflow.credentials.existingSecret", "keys"), "names a Secret and no keys of it"),
    (at("storage.encryption.kind", "c"), "kind c needs a Secret with the key"),
    (at("models.judge", {"model": "m", "pool": "b200"}), 'models.judge.pool is "b200"; pools has cpu'),
    (at("models.judge", {"model": "m", "pool": "cpu"}), "accelerators is 1, and pools.cpu has no accelerator"),
    (
        at("models.judge", {**ON_CPU, "offline": True}),
        "weights can come from nowhere",
    ),
    (
        merged(
            {"pools": {"h100": H100}}, at("models.j", {"model": "m", "pool": "h100", "autoscaling": {"enabled": True}})
        ),
        "keda.prometheus is empty",
    ),
    (
        merged(
            {"pools": {"h100": H100}},
            at("models.j", {"model": "m", "pool": "h100", "replicas": 2, "cache": {"size": "9Gi"}}),
        ),
        "has up to 2 replicas and a cache that one node can mount",
    ),
]


@pytest.mark.parametrize(("values", "message"), NEEDS, ids=[message[:50] for _, message in NEEDS])
def test_what_does_not_go_together_is_refused_with_what_to_change(values: dict[str, Any], message: str) -> None:
    assert message in refusal(merged(PRODUCTION, values))


def test_a_trial_has_one_store_and_its_keys() -> None:
    assert "a release has one store" in refusal(merged(TRIAL, at("trial.seaweedfs.enabled", True)))
    assert "takes its keys from that Secret" in refusal(merged(TRIAL, at("storage.credentials.existingSecret", "")))


def test_a_namespace_of_others_is_not_cut_off() -> None:
    with helm_python.Chart.load(CHART) as chart:
        with pytest.raises(helm_python.HelmRenderError, match="would cut off its other pods"):
            chart.render(PRODUCTION, name="r", namespace="kubeflow")
        assert chart.render(merged(PRODUCTION, at("networkPolicy.scope", "release")), name="r", namespace="kubeflow")


def test_defaults_alone_say_what_they_lack_and_nothing_else_is_wrong() -> None:
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema({})
    assert "is empty" in refusal({}) or "has no digest" in refusal({})
    complete = copy.deepcopy(PRODUCTION)
    complete["images"].pop("vllm")  # no model asks for it
    complete["images"].pop("trainer")
    assert rendered(complete)
    assert "images.vllm has no digest" in refusal(merged(complete, MODELS))


def test_values_that_look_odd_and_are_right_are_taken() -> None:
    odd = {
        "global": {"anything": 1},
        "retention": {"schedule": "@daily", "olderThan": "2w"},
        "api": {"disruption": {"maxUnavailable": "50%"}, "resources": {"limits": {"cpu": 2, "memory": "1.5Gi"}}},
        "storage": {"encryption": {"kind": "kms:arn:aws:kms:eu-west-1:1:key/2"}, "uri": "s3://my.bucket-1"},
        "images": {"registry": "localhost:5000/team_a", "api": {"tag": "1.2.3_rc.1", "digest": DIGEST}},
        "pools": {"spot": {"tolerations": [{"operator": "Exists"}]}},
    }
    assert rendered(merged(PRODUCTION, KEYS, {"storage": {"encryption": {"existingSecret": ""}}}, odd))
