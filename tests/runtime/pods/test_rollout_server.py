"""The program of the vLLM server beside a training: what it starts, in place of vLLM itself."""

import os

import pytest

from rubricworks.runtime.pods import rollout_server


@pytest.mark.parametrize(("has_ipv6", "host"), [(True, "::"), (False, "0.0.0.0")])
def test_vllm_serves_the_model_on_every_address_that_the_node_has(tmp_path, monkeypatch, has_ipv6, host):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    started = []
    monkeypatch.setattr(os, "execvp", lambda program, arguments: started.append((program, arguments)))
    monkeypatch.setattr("socket.has_dualstack_ipv6", lambda: has_ipv6)
    rollout_server.main(["--model", str(tmp_path), "--", "--port", "8000"])
    command = ["vllm", "serve", str(tmp_path / "model"), "--host", host, "--port", "8000"]
    assert started == [("vllm", command)]
