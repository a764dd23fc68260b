"""The command that starts the rollout server in a cluster, and TRL's own client against it; NCCL needs GPUs."""

import asyncio
from types import SimpleNamespace

import pytest
import torch
from coloured_squares import squares
from object_store import free_port
from vllm_on_cpu import CPU_OPTIONS, running

from rubricworks.kubernetes.config import PodPlan, RolloutServer
from rubricworks.kubernetes.rollout_server import PORT, server_pod
from rubricworks.kubernetes.work import StageWork
from rubricworks.llm import ChatClient, Endpoint, image_part, text_part
from rubricworks.training.generate import decode_image, generate_captions, load_model
from rubricworks.training.policy import vllm_rollouts
from rubricworks.training.processing import encode_prompts

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]
LENGTH, EACH, HEAT = 10, 3, 2.0


@pytest.fixture(scope="module")
def server(taught, tmp_path_factory):
    work = StageWork("train_policy", "{}", "/runs/one", {"model": str(taught.parent)})
    (container,) = server_pod(PodPlan(image="vllm"), RolloutServer(), work, {})["spec"]["containers"]
    port = free_port()
    command = [str(port) if word == str(PORT) else word for word in container["command"]]
    variables = {item["name"]: item["value"] for item in container["env"] if "value" in item}
    log = tmp_path_factory.mktemp("server") / "log"
    with running([*command, *CPU_OPTIONS, "--dtype", "float32"], port, log, variables) as url:
        yield url


@pytest.fixture(scope="module")
def client(server):
    from trl.generation.vllm_client import VLLMClient

    return VLLMClient(base_url=server)


def test_server_says_to_trl_what_it_asks_before_a_training(client):
    assert client.get_world_size() == 1
    assert client.get_server_info()["model_config"]["logprobs_mode"] == "processed_logprobs"


def test_trl_samples_from_the_policy_with_images(client, taught):
    """The log probabilities of what the server sampled are the trainer's, so it saw the same prompt and image."""
    from trl.generation.vllm_generation import VLLMGeneration

    model, processor = load_model(taught)
    images = [decode_image(image) for image, _, _ in squares()]
    encoded = encode_prompts(processor, images, [prompt for _, prompt, _ in squares()])
    prompts = [
        ids[mask.bool()].tolist() for ids, mask in zip(encoded["input_ids"], encoded["attention_mask"], strict=True)
    ]
    bias = vllm_rollouts.image_token_bias(processor)
    placed = SimpleNamespace(processing_class=processor)
    features = [
        VLLMGeneration._place_features(placed, of_image, ids)
        for of_image, ids in zip(client.image_features([[image] for image in images]), prompts, strict=True)
    ]
    output = client.generate(
        prompts, features=features, n=EACH, max_tokens=LENGTH, temperature=HEAT, generation_kwargs=bias
    )
    differences = []
    for number, (ids, logprobs) in enumerate(zip(output["completion_ids"], output["logprobs"], strict=True)):
        prompt = prompts[number // EACH]
        inputs = encode_prompts(processor, [images[number // EACH]], [squares()[0][1]])
        whole = torch.tensor([[*prompt, *ids]])
        types = torch.nn.functional.pad(inputs["mm_token_type_ids"], (0, len(ids)))
        with torch.no_grad():
            logits = model(
                input_ids=whole, mm_token_type_ids=types,
                pixel_values=inputs["pixel_values"], image_grid_thw=inputs["image_grid_thw"],
            ).logits[0, len(prompt) - 1 : -1]  # fmt: skip
        expected = (logits / HEAT).log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()
        differences += [abs(value - top[0]) for value, top in zip(expected, logprobs, strict=True)]
    assert len(output["completion_ids"]) == len(prompts) * EACH
    assert len({tuple(ids) for ids in output["completion_ids"]}) > len(prompts)
    assert sum(differences) / len(differences) < 0.02
    assert max(differences) < 0.1


def test_caches_are_reset_after_new_weights(client):
    client.reset_prefix_cache()
    vllm_rollouts._reset_encoder_cache(client)


def test_greedy_captions_over_http_are_those_of_transformers(server, taught):
    images = [image for image, _, _ in squares()]
    prompt = squares()[0][1]
    expected = [
        text for text, _ in generate_captions(*load_model(taught), images, [prompt] * 12, max_new_tokens=LENGTH)
    ]
    endpoint = Endpoint(url=server, model=str(taught), max_tokens=LENGTH, temperature=0)

    async def ask_all() -> list[str]:
        async with ChatClient(endpoint) as chat:
            turns = [[{"role": "user", "content": [image_part(image), text_part(prompt)]}] for image in images]
            return [(await chat.chat(turn)).value.strip() for turn in turns]

    assert asyncio.run(ask_all()) == expected
    assert len(set(expected)) > 4
