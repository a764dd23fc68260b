"""Twenty steps of a training whose rollouts a vLLM server samples: what it samples from is the policy."""

import os
from contextlib import ExitStack

import pytest
from coloured_squares import policy_rows, squares
from gloo_weights import install_plugin, use_gloo
from object_store import free_port
from support_paths import SUPPORT_PATHS
from training_configs import grpo_config
from trl.generation.vllm_client import VLLMClient
from vllm_on_cpu import CPU_OPTIONS, make_vllm_fit_cpu, running

from rubricworks.kubernetes.config import PodPlan, RolloutServer
from rubricworks.kubernetes.rollout_server import PORT, server_pod
from rubricworks.kubernetes.work import StageWork
from rubricworks.rehearsal.miniatures import build_miniature
from rubricworks.training.generate import load_model
from rubricworks.training.lora import save_plain_model
from rubricworks.training.policy import grpo

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]
EXPERTS = "Qwen/Qwen3-VL-30B-A3B-Instruct@" + "0" * 40
DIFFERENCE = "sampling/sampling_logp_difference/mean"
STEPS = 20


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    """The miniature of a mixture of experts that sees, with random weights, in the precision of the training."""
    folder = tmp_path_factory.mktemp("experts")
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    miniature = build_miniature(EXPERTS, folder / "bfloat16", texts).folder
    save_plain_model(*load_model(miniature, dtype="float32"), folder / "model")
    return folder / "model"


@pytest.fixture
def serve_rollouts(tmp_path, monkeypatch):
    """Start the cluster's command for a model's rollouts, whose weights come over gloo; returns the server's URL."""
    with ExitStack() as stack:

        def start(model):
            work = StageWork("train_policy", "{}", "/runs/one", {"model": str(model.parent)})
            (container,) = server_pod(PodPlan(image="vllm"), RolloutServer(), work, {})["spec"]["containers"]
            port = free_port()
            command = [str(port) if word == str(PORT) else word for word in container["command"]]
            plugin = install_plugin(tmp_path / "plugin")
            paths = [plugin, *SUPPORT_PATHS, os.environ.get("PYTHONPATH", "")]
            variables = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
            variables |= {"PYTHONPATH": os.pathsep.join(map(str, paths))}
            command += [*CPU_OPTIONS, "--dtype", "float32", "--max-model-len", "128"]
            return stack.enter_context(running(command, port, tmp_path / "log", variables))

        monkeypatch.setenv("VLLM_HOST_IP", "127.0.0.1")
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
        use_gloo()
        connect = VLLMClient.init_communicator

        def connect_over_gloo(client, device):
            connect(client, "cuda")
            stack.callback(client.close_communicator)

        monkeypatch.setattr(VLLMClient, "init_communicator", connect_over_gloo)
        yield start


@pytest.fixture(autouse=True)
def small_vllm(monkeypatch):
    make_vllm_fit_cpu(monkeypatch)
    monkeypatch.setattr(grpo, "check_vllm", lambda options: None)  # it wants a GPU


async def pays_for_variety(completions, **columns):
    return [len(set(completion[0]["content"])) / 100 for completion in completions]


def differences(model, out, vllm):
    """Mean difference of the log probabilities of sampler and trainer, step by step."""
    config = grpo_config(
        steps=STEPS, prompts_per_step=4, group_size=4, max_new_tokens=10, learning_rate=2e-3, log_every=1,
        save_every=100, vllm=vllm,
    )  # fmt: skip
    logs = []
    grpo.train_policy(model, policy_rows(), pays_for_variety, out, config, on_log=logs.append)
    return [log.metrics[DIFFERENCE] for log in logs]


def test_a_server_samples_from_the_policy_for_twenty_steps(taught, tmp_path, serve_rollouts):
    gaps = differences(taught, tmp_path / "out", {"mode": "server", "url": serve_rollouts(taught)})
    assert len(gaps) == STEPS
    assert max(gaps) < 0.02


def test_a_server_samples_from_a_mixture_of_experts_for_twenty_steps(experts, tmp_path, serve_rollouts):
    gaps = differences(experts, tmp_path / "out", {"mode": "server", "url": serve_rollouts(experts)})
    assert len(gaps) == STEPS
    assert max(gaps) < 0.02


def test_a_colocated_vllm_samples_from_a_mixture_of_experts_for_twenty_steps(experts, tmp_path):
    gaps = differences(experts, tmp_path / "out", {"mode": "colocate", "max_model_length": 128})
    assert len(gaps) == STEPS
    assert max(gaps) < 0.02
