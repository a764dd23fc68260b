"""A small cluster, and what a training stage asks of it."""

from collections.abc import Iterator

import pytest
from kubernetes_api import KubernetesApi

from rubricworks.kubernetes.connection import Cluster, connect
from rubricworks.kubernetes.work import StageWork

POLL = 0.02


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as served:
        yield served


@pytest.fixture
def cluster(api, tmp_path, monkeypatch) -> Cluster:
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    return connect(patience=5)


@pytest.fixture
def work() -> StageWork:
    return StageWork("train_policy", '{"steps":4}', "s3://runs/r1", {"model": "s3://runs/r1/warm_up"})
