"""Environment variables that Kubernetes sets for Services, beside those that people set."""

import os

import pytest

from rubricworks.environment import drop_service_links
from rubricworks.runtime.launch import launch

KUBERNETES = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_PORT": "tcp://10.0.0.1:443"}
OWN = {"VLLM_USE_V1": "1", "MLFLOW_TRACKING_URI": "http://mlflow:5000", "PROXY_PORT": "tcp://mine:1"}


def test_addresses_of_services_are_no_settings_of_programs():
    """A Service named `vllm` sets VLLM_PORT, which vLLM takes for a number; `rubricworks-metrics` one of ours."""
    links = {}
    for name in ("VLLM", "RUBRICWORKS_METRICS"):
        links |= {f"{name}_SERVICE_HOST": "10.0.0.7", f"{name}_SERVICE_PORT": "8000"}
        links |= {f"{name}_PORT": "tcp://10.0.0.7:8000", f"{name}_PORT_8000_TCP": "tcp://10.0.0.7:8000"}
    variables = {**OWN, **KUBERNETES, **links}
    drop_service_links(variables)
    kept_links = {name: value for name, value in links.items() if "_SERVICE_" in name}
    assert variables == {**OWN, **KUBERNETES, **kept_links}


def test_a_port_that_is_set_for_a_program_stays():
    variables = {"VLLM_SERVICE_HOST": "10.0.0.7", "VLLM_PORT": "5000"}
    drop_service_links(variables)
    assert variables["VLLM_PORT"] == "5000"


def test_a_task_starts_without_the_addresses_of_services(tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_SERVICE_HOST", "10.0.0.7")
    monkeypatch.setenv("VLLM_PORT", "tcp://10.0.0.7:8000")
    with pytest.raises(ValueError, match="source"):
        launch("prepare", "{}", str(tmp_path), {})
    assert "VLLM_PORT" not in os.environ
