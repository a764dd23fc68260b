"""GRPO of a model that writes captions or answers, and of an autoregressive image generator (`training.policy`)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from rubricworks.llm import Endpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import COMPARISON_IN, COMPARISON_OUT, PlannedCalls
from rubricworks.policy.algorithms.algorithm import Algorithm, PolicyStage
from rubricworks.policy.algorithms.probes import CaptionProbe, ImageProbe
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.step_tables import DeadLetters
from rubricworks.policy.training import image_dataset, prompt_rows, train
from rubricworks.training.checkpoints import last_step
from rubricworks.training.config import CodeGrpoConfig, GrpoConfig, PolicyConfig, TextGrpoConfig, UnprobedGrpoConfig


class Grpo(TextGrpoConfig, Algorithm):
    """GRPO of a captioner."""

    type: Literal["grpo"]

    def train(self, stage: PolicyStage) -> None:
        from rubricworks.training.policy.grpo import train_policy

        reward, letters = build_reward(stage, self)
        seed, probe = stage.config.seed, self.watch.probe
        if reward.refresh and (step := last_step(stage.job.out)):
            reward.refresh.restore(step)
        train(
            stage.config,
            self,
            stage.job,
            image_dataset(stage.job, reward),
            reward,
            letters,
            train_policy,
            seed=seed,
            weights=reward.weights,
            reads=reward.column,
            penalty=reward.penalty,
            start=reward.start,
            refresh=reward.refresh,
            probe=CaptionProbe(probe, stage.job, seed) if probe else None,
        )

    def estimate(
        self, reward: Reward | None, size: TrainingSize, captioners: Sequence[Endpoint] = ()
    ) -> Iterator[PlannedCalls]:
        yield from policy_plan(reward, self, size)

    def describe(self) -> str:
        return describe_grpo(self)


class AnswerGrpo(UnprobedGrpoConfig, Grpo):
    """GRPO of a model that answers questions."""


class CodeGrpo(CodeGrpoConfig, Algorithm):
    """GRPO of an autoregressive image generator."""

    type: Literal["grpo"]

    def train(self, stage: PolicyStage) -> None:
        from rubricworks.training.generators.policy import train_image_policy

        train_on_images(stage, self, train_image_policy)

    def estimate(
        self, reward: Reward | None, size: TrainingSize, captioners: Sequence[Endpoint] = ()
    ) -> Iterator[PlannedCalls]:
        yield from policy_plan(reward, self, size)

    def describe(self) -> str:
        return describe_grpo(self)


_ADVANTAGES = {
    "group": "rewards normalised in their group",
    "batch": "rewards centred in their group and divided by the deviation of the batch",
    "centred": "rewards centred in their group",
    "c-gdpo": "each reward normalised in its group before they are added by weight (c-GDPO)",
}


def describe_grpo(config: GrpoConfig) -> str:
    """Describe a training by GRPO in a sentence."""
    return f"GRPO trains on it: loss {config.loss}, {_ADVANTAGES[config.advantages]}."


def build_reward(stage: PolicyStage, config: PolicyConfig) -> tuple[PreparedReward, DeadLetters]:
    """Build the reward of a stage, and where its failed calls go."""
    assert stage.reward is not None
    letters = DeadLetters(stage.job)
    training = Training(stage.job, config.rollouts, config.refill, stage.config.seed, letters, stage.rubric_writing)
    return stage.reward.build(training), letters


def policy_plan(reward: Reward | None, config: PolicyConfig, size: TrainingSize) -> Iterator[PlannedCalls]:
    """Plan the calls of the reward and of the held-out probe."""
    assert reward is not None
    steps = config.steps_on(size.samples)
    yield from reward.estimate(replace(size, rollouts=config.rollouts_on(size.samples), steps=steps))
    if probe := config.watch.probe:
        calls = (steps - 1) // probe.every * min(probe.samples, size.held_out)
        yield PlannedCalls("probe", probe.judge, calls, image_tokens(probe.judge) + COMPARISON_IN, COMPARISON_OUT)


def train_on_images(stage: PolicyStage, config: PolicyConfig, trainer: Any) -> None:
    """Train an image generator by its trainer."""
    from rubricworks.training.generators.image_statistics import DIVERSITY, IMAGE_STATISTICS

    job, probe = stage.job, config.watch.probe
    reward, letters = build_reward(stage, config)
    train(
        stage.config,
        config,
        job,
        prompt_rows(job, reward),
        reward,
        letters,
        trainer,
        seed=stage.config.seed,
        statistics=(*IMAGE_STATISTICS, DIVERSITY, *reward.statistics),
        probe=ImageProbe(probe, job, reward.values, on_error=letters.add) if probe else None,
    )
