"""DiffusionNFT's probability, loss, gradients and advantages as its authors compute them (NVlabs@24af555)."""

import json
from pathlib import Path

import pytest
import torch

from rubricworks.rl import diffusion_nft_loss, optimality_probability, prompt_advantages

FILE = json.loads((Path(__file__).parent / "data" / "g_diffusion_nft.json").read_text())
CASES = FILE["loss_cases"]
NAMED = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


@NAMED
def test_optimality_probability(case):
    inputs = case["inputs"]
    advantages = torch.tensor(inputs["advantages"])
    if inputs["adv_mode"] == "binary":
        advantages = advantages.sign()
    probability = optimality_probability(advantages, clip=inputs["adv_clip_max"])
    torch.testing.assert_close(probability, torch.tensor(case["expected"]["r"]), atol=1e-6, rtol=1e-6)


@NAMED
def test_loss_and_its_gradient(case):
    inputs, expected = case["inputs"], case["expected"]
    v_theta = torch.tensor(inputs["v_theta"], requires_grad=True)
    loss = diffusion_nft_loss(
        v_theta=v_theta,
        **{name: torch.tensor(inputs[name]) for name in ("v_old", "v_ref", "t")},
        x_t=torch.tensor(inputs["xt"]),
        x_0=torch.tensor(inputs["x0"]),
        r=torch.tensor(expected["r"]),
        beta=inputs["beta"],
        kl_weight=inputs["kl_beta"],
        scale=inputs["adv_clip_max"],
    )
    loss.backward()
    assert loss.item() == pytest.approx(expected["total_loss"], rel=1e-5)
    torch.testing.assert_close(v_theta.grad, torch.tensor(expected["grad_v_theta"]), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("case", FILE["tracker_cases"])
def test_advantages_within_each_prompt(case):
    rewards = torch.tensor(case["rewards"], dtype=torch.float64)
    advantages = prompt_advantages(rewards, case["prompts"], global_std=case["global_std"])
    torch.testing.assert_close(advantages, torch.tensor(case["expected_advantages"], dtype=torch.float64))


def test_rollouts_that_could_not_be_judged_stand_outside():
    rewards = torch.tensor([0.2, float("nan"), 0.6, float("nan")])
    advantages = prompt_advantages(rewards, ["a", "a", "a", "b"])
    judged = prompt_advantages(torch.tensor([0.2, 0.6]), ["a", "a"])
    assert advantages.tolist() == [judged[0].item(), 0.0, judged[1].item(), 0.0]
