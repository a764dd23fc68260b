"""Correction of the loss for vLLM's rounding: TRL's arguments, share of ratios that it cuts, recipes' choice."""

import math

import pytest
import torch
from coloured_squares import policy_rows
from pydantic import ValidationError
from training_configs import grpo_config

from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.training.config import ColocatedVllm
from rubricworks.training.generate import load_model
from rubricworks.training.policy.grpo import train_policy, trl_config
from rubricworks.training.policy.rollouts import PolicyTrainer
from rubricworks.training.policy.vllm_rollouts import OUT_OF_BOUNDS, RATIO, count_out_of_bounds

DIFFERENCES = torch.log(torch.tensor([[1.0, 4.0, 0.5], [3.5, 0.2, 9.0]]))
MASK = torch.tensor([[True, True, True], [True, True, False]])


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"correction": "token_truncate", "correction_max": 3.0}, [2, 5]),  # 4 and 3.5; 9 is padding
        ({"correction": "token_mask", "correction_max": 3.0, "correction_min": 0.3}, [3, 5]),
        ({"correction": "none", "correction_max": None}, [0, 5]),
        ({"correction": "sequence_mask", "correction_max": 1.5}, [1, 2]),  # 1 x 4 x 0.5 = 2 and 3.5 x 0.2 = 0.7
    ],
)
def test_ratios_out_of_bounds_are_counted_by_tokens_or_by_responses(options, counts):
    assert count_out_of_bounds(DIFFERENCES, MASK, ColocatedVllm(mode="colocate", **options)).tolist() == counts


def test_a_token_without_vllms_probability_counts_as_equal():
    differences = torch.tensor([[math.nan, 2.0]])
    options = ColocatedVllm(mode="colocate", correction="token_truncate")
    assert count_out_of_bounds(differences, torch.tensor([[True, True]]), options).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("options", "mode", "bounds"),
    [
        ({}, "sequence_mask", (None, 3.0)),
        ({"correction": "token_mask", "correction_min": 0.5, "correction_max": 2.0}, "token_mask", (0.5, 2.0)),
        ({"correction": "none"}, "token_truncate", (1.0, 1.0)),
    ],
)
def test_trl_gets_the_mode_and_the_bounds_and_none_cuts_every_ratio_to_1(student, tmp_path, options, mode, bounds):
    config = grpo_config(vllm=ColocatedVllm(mode="colocate", **options))
    arguments = trl_config(config, tmp_path, 64, load_model(student)[1], seed=0)
    assert arguments.vllm_importance_sampling_correction  # else TRL measures no difference
    assert arguments.vllm_importance_sampling_mode == mode
    low, high = arguments.vllm_importance_sampling_clip_min, arguments.vllm_importance_sampling_clip_max
    assert (low, high) == pytest.approx(bounds) if None not in bounds else (low, high) == bounds
    if options.get("correction") == "none":
        assert torch.tensor([1e-9, 0.5, 1.0, 7.0]).clamp(low, high).tolist() == [1.0] * 4


def test_equation_1_refuses_a_ratio_of_whole_responses():
    with pytest.raises(
        ValidationError, match=r"vllm\.correction sequence_mask weighs whole responses; set it to none,"
    ):
        grpo_config(loss="group_token_mean", vllm=ColocatedVllm(mode="colocate"))


def test_a_length_without_room_for_a_prompt_is_refused():
    with pytest.raises(ValidationError, match=r"vllm\.max_model_length 1024 .* no room for a prompt beside max_new_to"):
        grpo_config(max_new_tokens=1024, vllm=ColocatedVllm(mode="colocate", max_model_length=1024))


@pytest.mark.parametrize("name", ["rubicap", "balcaprl", "rlr3"])
def test_every_recipe_for_gpus_chooses_its_correction_and_vllms_length(name):
    configs = load_recipe(recipe_path(name), ()).stage_configs().values()
    trained = [getattr(config, name) for config in configs for name in ("rlvr", "algorithm") if hasattr(config, name)]
    assert trained
    for config in trained:
        vllm = config.rollouts.vllm
        assert vllm.mode == "colocate"
        assert {"correction", "correction_max", "max_model_length"} <= vllm.model_fields_set
        assert vllm.correction == "token_truncate"


def test_ratio_and_share_are_logged(student, tmp_path, monkeypatch):
    """vLLM is stood in for by the trainer's own sampling, with log probabilities half of which are off by ln 4."""
    from rubricworks.training.policy import grpo as policy

    def use_sampled_logps(self, *args, **kwargs):
        ids, _ = draw(self, *args, **kwargs)
        self.use_vllm = True
        self.vllm_generation = None
        return ids, [[-1.0] * len(item) for item in ids]

    def logps(self, model, input_ids, attention_mask, logits_to_keep, **kwargs):
        values, *rest = of_trainer(self, model, input_ids, attention_mask, logits_to_keep, **kwargs)
        if torch.is_grad_enabled():
            return values, *rest
        off = torch.arange(values.shape[1], device=values.device) % 2
        return -1.0 + math.log(4) * off.expand_as(values), *rest

    draw, of_trainer = PolicyTrainer._generate_single_turn, PolicyTrainer._get_per_token_logps_and_entropies
    monkeypatch.setattr(PolicyTrainer, "_generate_single_turn", use_sampled_logps)
    monkeypatch.setattr(PolicyTrainer, "_get_per_token_logps_and_entropies", logps)
    monkeypatch.setattr(policy, "check_vllm", lambda options: None)
    arguments = policy._vllm_sampling
    monkeypatch.setattr(policy, "_vllm_sampling", lambda *given: arguments(*given) | {"use_vllm": False})
    lines = []

    async def reward(prompts, completions, **columns):
        return [float(len(completion[0]["content"])) for completion in completions]

    options = ColocatedVllm(mode="colocate", correction="token_truncate", correction_max=3.0, max_logp_difference=None)
    config = grpo_config(steps=1, group_size=2, prompts_per_step=2, max_new_tokens=8, log_every=1, vllm=options)
    train_policy(student, policy_rows(), reward, tmp_path, config, on_log=lines.append)
    (line,) = [line for line in lines if OUT_OF_BOUNDS in line.metrics]
    share = line.metrics[OUT_OF_BOUNDS]
    assert 0.3 < share <= 0.5  # every second token of a response
    assert line.metrics[RATIO] == pytest.approx(1 + 2 * share)  # cut from 4 to 3
