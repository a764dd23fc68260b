"""What a training refuses of the machine, before it loads anything."""

import pytest
import torch
from coloured_squares import policy_rows, squares
from training_configs import grpo_config, sft_config

from rubricworks.errors import UserError
from rubricworks.training.policy import grpo
from rubricworks.training.sft import train_sft


async def pays_nothing(completions, **columns):
    return [0.0] * len(completions)


def warm_up(out):
    train_sft("no-such-model", squares(), out, sft_config(steps=1))


def policy(out):
    grpo.train_policy("no-such-model", policy_rows(), pays_nothing, out, grpo_config(steps=1))


@pytest.mark.parametrize("train", [warm_up, policy])
def test_one_process_with_two_gpus_is_refused_before_anything_is_loaded(train, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match=r"one process sees 2 GPUs, .*; set RUBRICWORKS_ACCELERATORS=2 for a process"):
        train(tmp_path / "out")
    assert not (tmp_path / "out").exists()
