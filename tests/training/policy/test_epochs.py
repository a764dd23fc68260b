"""A policy training of several epochs, killed in one of the later ones."""

import pytest
from coloured_squares import policy_rows
from training_configs import grpo_config

from rubricworks.training.policy.grpo import train_policy

pytestmark = pytest.mark.slow

FEW = {"group_size": 4, "prompts_per_step": 5, "max_new_tokens": 8}


class Killed(Exception):
    pass


async def longer(completion_ids, **columns):
    return [len(ids) / 8 for ids in completion_ids]


@pytest.mark.parametrize(
    "killed_at", [pytest.param(4, marks=pytest.mark.slow), 5, pytest.param(6, marks=pytest.mark.slow)]
)
def test_policy_resumed_in_a_later_epoch_goes_on_in_its_order(student, tmp_path, killed_at):
    """Two steps an epoch, and two samples left out of each."""
    config = grpo_config(steps=6, save_every=killed_at - 1, **FEW)
    draws = {"whole": [], "cut": []}

    def keep(name, *, kill=0):
        def on_step(step):
            if step.step == kill:
                raise Killed
            draws[name].append((step.step, step.sample_ids, step.responses))

        return on_step

    train_policy(student, policy_rows(), longer, tmp_path / "whole", config, on_step=keep("whole"))
    with pytest.raises(Killed):
        train_policy(student, policy_rows(), longer, tmp_path / "cut", config, on_step=keep("cut", kill=killed_at))
    train_policy(student, policy_rows(), longer, tmp_path / "cut", config, on_step=keep("cut"))
    assert draws["cut"] == draws["whole"]
    assert len({tuple(sample_ids) for _, sample_ids, _ in draws["whole"]}) == 6
