"""The chart as Helm renders it, and the values that the tests of it go over."""

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[3] / "charts" / "rubricworks"
RELEASE, NAMESPACE = "rubricworks", "team"
DIGEST = "sha256:" + "1f" * 32

Json = dict[str, Any]

H100 = {
    "accelerator": "nvidia.com/gpu",
    "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"},
    "tolerations": [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoExecute", "tolerationSeconds": 60},
    ],
}
PRODUCTION: Json = {
    "images": {name: {"digest": DIGEST} for name in ("api", "cpu", "trainer", "vllm")},
    "storage": {"uri": "s3://rubricworks-team/runs"},
    "mlflow": {"uri": "https://mlflow.example.com"},
}


def merged(*values: Mapping[str, Any]) -> Json:
    """Values, the later ones over the earlier ones, as with several `-f`."""
    result: Json = {}
    for more in values:
        for key, value in more.items():
            both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
            result[key] = merged(result[key], value) if both else copy.deepcopy(value)
    return result


def at(path: str, value: Any) -> Json:
    """A value at its place among the chart's, such as `api.replicas`."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


TEAM: Json = yaml.safe_load((CHART / "team.yaml").read_text())
TRIAL: Json = yaml.safe_load((CHART / "values-trial.yaml").read_text())
MODELS: Json = {
    "pools": {"h100": H100},
    "models": {
        "judge": {"model": "Qwen/Qwen3-VL-8B-Instruct", "pool": "h100", "accelerators": 2, "maxModelLen": 1000000},
        "teacher": {
            "model": "org/teacher",
            "role": "teacher",
            "pool": "h100",
            "servedName": "teacher-1",
            "revision": "0a1b2c",
            "cache": {"size": "200Gi", "storageClass": "fast"},
            "hubToken": {"existingSecret": "hub"},
            "apiKey": {"existingSecret": "judges"},
            "autoscaling": {"enabled": True, "maxReplicas": 1},
        },
        "local": {
            "model": "/models/extractor",
            "role": "extractor",
            "pool": "cpu",
            "accelerators": 0,
            "offline": True,
            "replicas": 3,
            "cache": {"existingClaim": "weights", "accessMode": "ReadOnlyMany"},
        },
    },
    "keda": {"prometheus": "http://prometheus.monitoring.svc:9090"},
    "kueue": {"queue": "gpus"},
}
KEYS: Json = {
    "storage": {
        "endpoint": "https://s3.example.com:9443",
        "credentials": {"existingSecret": "store", "sessionTokenKey": "AWS_SESSION_TOKEN"},
        "encryption": {"kind": "c", "existingSecret": "sse"},
        "ca": {"existingConfigMap": "ca"},
    },
    "mlflow": {"credentials": {"existingSecret": "mlflow", "usernameKey": "user", "passwordKey": "password"}},
}
EDGE: Json = {
    "labels": {"team": "vision"},
    "images": {"registry": "registry.example.com/vision", "pullSecrets": ["registry"]},
    "api": {
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "hosts": [{"host": "rubricworks.example.com"}],
            "tls": [{"secretName": "rubricworks-tls", "hosts": ["rubricworks.example.com"]}],
        },
        "autoscaling": {"enabled": True},
        "callers": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}],
        "env": [{"name": "EXTRA_TOKEN", "valueFrom": {"secretKeyRef": {"name": "extra", "key": "token"}}}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "podAnnotations": {"prometheus.io/scrape": "true"},
        "priorityClassName": "high",
    },
    "networkPolicy": {
        "scope": "release",
        "monitoring": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "extraEgress": [
            {"to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}], "ports": [{"protocol": "TCP", "port": 80}]}
        ],
    },
}
PROFILES: Json = {
    "pipelines": {"namespaces": ["profile-a", "profile-b"], "kubeflow": {"pipelineRoot": {"create": True}}}
}
OPENSHIFT: Json = {"security": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}
LITTLE: Json = {
    "api": {"enabled": False},
    "retention": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "pipelines": {"clusterMap": False},
    "serviceAccounts": {name: {"create": False, "name": "own"} for name in ("pipelines", "workers")},
}
SEAWEED: Json = merged(TRIAL, {"trial": {"minio": {"enabled": False}, "seaweedfs": {"enabled": True}}})

NUMBERS: Json = {
    "database": {"existingSecret": "123", "key": "1"},
    "images": {
        "pullSecrets": ["on"],
        **{name: {"tag": "1", "digest": DIGEST} for name in ("api", "cpu", "trainer", "vllm")},
    },
    "storage": {
        "region": "12",
        "credentials": {"existingSecret": "1e3", "accessKeyKey": "1", "secretKeyKey": "0777", "sessionTokenKey": "on"},
        "ca": {"existingConfigMap": "true", "key": "1.10"},
    },
    "mlflow": {"credentials": {"existingSecret": "null", "tokenKey": "y"}},
    "serviceAccounts": {
        "api": {"name": "1"},
        "models": {"name": "2"},
        "retention": {"name": "3"},
        "workers": {"name": "4"},
    },
    "api": {
        "token": {"existingSecret": "no", "key": "7"},
        "submissions": {"existingConfigMap": "off"},
        "ingress": {"enabled": True, "className": "1", "hosts": [{"host": "1.example"}]},
        "priorityClassName": "1",
    },
    "pools": {"123": {"accelerator": "nvidia.com/gpu", "runtimeClassName": "1"}},
    "models": {
        "on": {
            "model": "org/m",
            "pool": "123",
            "servedName": "a: b",
            "revision": "1",
            "cache": {"existingClaim": "weights"},
        }
    },
    "kueue": {"queue": "1"},
    "pipelines": {"namespaces": ["123"], "kubeflow": {"namespace": "1", "pipelineRoot": {"create": True}}},
}
"""Names that are numbers or booleans where YAML reads them without quotes."""

MATRIX: dict[str, Json] = {
    "production": PRODUCTION,
    "trial": TRIAL,
    "trial with seaweedfs": SEAWEED,
    "models": merged(PRODUCTION, MODELS),
    "keys": merged(PRODUCTION, KEYS),
    "ingress and scaling": merged(PRODUCTION, EDGE),
    "profiles": merged(PRODUCTION, KEYS, PROFILES),
    "openshift": merged(PRODUCTION, MODELS, OPENSHIFT),
    "numbers as names": merged(PRODUCTION, NUMBERS),
    "little": merged(PRODUCTION, LITTLE),
    "team": TEAM,
    "everything": merged(PRODUCTION, MODELS, KEYS, EDGE, PROFILES),
}


@cache
def _chart(folder: Path) -> Any:
    import helm_python

    return helm_python.Chart.load(folder)


@cache
def _texts(values: str, release: str, revision: int, chart: Path = CHART) -> dict[str, str]:
    """File → what Helm makes of it; the same values are rendered once."""
    first = revision == 1
    return _chart(chart).render(
        json.loads(values), name=release, namespace=NAMESPACE, revision=revision, is_install=first
    )


def rendered(
    values: Mapping[str, Any], *, release: str = RELEASE, revision: int = 1, chart: Path = CHART
) -> list[Json]:
    """Every object, hooks among them; NOTES.txt is left out.

    Args:
        chart: folder of the chart, such as that of an earlier version.

    Raises:
        helm_python.HelmError: the values are refused.
    """
    objects = []
    for file, text in _texts(json.dumps(values), release, revision, chart).items():
        if not file.endswith(".txt"):
            objects += [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]
    return objects


def notes(values: Mapping[str, Any]) -> str:
    files = _texts(json.dumps(values), RELEASE, 1)
    return next(text for file, text in files.items() if file.endswith("NOTES.txt"))


def of_kind(objects: list[Json], kind: str, ending: str = "") -> list[Json]:
    return [item for item in objects if item["kind"] == kind and item["metadata"]["name"].endswith(ending)]


def the(objects: list[Json], kind: str, ending: str = "") -> Json:
    """The only object of its kind whose name ends so."""
    (result,) = of_kind(objects, kind, ending)
    return result


def pod_templates(objects: list[Json]) -> Iterator[tuple[str, Json]]:
    """Name and template of every pod that the objects make; of a pod, itself."""
    for item in objects:
        where = f"{item['kind']} {item['metadata']['name']}"
        if item["kind"] == "Pod":
            yield where, item
        elif item["kind"] == "CronJob":
            yield where, item["spec"]["jobTemplate"]["spec"]["template"]
        elif "template" in item.get("spec", {}):
            yield where, item["spec"]["template"]


def containers(template: Json) -> list[Json]:
    return [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]


def environment_of(container: Json) -> dict[str, Any]:
    """Variable → its value, or where it is from."""
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}
