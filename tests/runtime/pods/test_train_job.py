"""A stage's plan of a TrainJob: the vLLM server that it starts is one that the training asks for rollouts."""

import pytest

from rubricworks.errors import UserError
from rubricworks.kubernetes import TRAIN_JOB
from rubricworks.kubernetes.config import PodPlan, RolloutServer, TrainJobConfig, TrainJobPlan
from rubricworks.policy.policy import CaptionPolicy
from rubricworks.runtime.pods.train_job import train_job_plan


def policy(**rollouts: object) -> CaptionPolicy:
    algorithm = {"type": "grpo", "rollouts": rollouts}
    return CaptionPolicy.model_validate({"reward": {"type": "rouge_l"}, "algorithm": algorithm})


@pytest.fixture
def plan(monkeypatch) -> TrainJobPlan:
    plan = TrainJobPlan(job=TrainJobConfig(nodes=2, rollouts=RolloutServer()), pod=PodPlan(image="trainer"))
    monkeypatch.setenv(TRAIN_JOB, plan.model_dump_json())
    return plan


def test_rollout_server_is_started_for_a_training_that_asks_one(plan):
    assert train_job_plan("train_policy", policy(vllm={"mode": "server"})) == plan


@pytest.mark.parametrize(
    ("rollouts", "given"), [({}, "is not set"), ({"vllm": {"mode": "colocate"}}, "has mode colocate")]
)
def test_rollout_server_that_no_training_asks_is_refused(plan, rollouts, given):
    with pytest.raises(UserError, match=rf"algorithm\.rollouts\.vllm {given}; set it to {{mode: server}}"):
        train_job_plan("train_policy", policy(**rollouts))
