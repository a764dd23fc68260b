"""Train the policy with GRPO on rubric rewards (RubiCap, section 3.3)."""

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.adapters.functions import FunctionReward, load_reward, source_digest
from rubricworks.adapters.trl import RubricReward
from rubricworks.grading import CallPer, Combine, Grader
from rubricworks.llm import Endpoint, ImageEndpoint
from rubricworks.methods.rubicap.stages.held_out_probe import HeldOutProbe
from rubricworks.methods.rubicap.stages.rubric_refresh import Refresh, RubricRefresh
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.training.policy_training import (
    DeadLetters,
    refill_criterion,
    rubric_texts,
    train,
    training_dataset,
)
from rubricworks.stages.training.step_tables import scorecard_table
from rubricworks.training.config import PolicyConfig


class OwnReward(BaseModel):
    """User-defined reward in place of the rubric reward (`adapters.functions`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`module:name`; the module is imported from the working directory or from installed packages."""


class PolicySection(StageConfig, PolicyConfig):
    """Section `policy:` of a recipe."""

    judge: Endpoint
    """Grades the rollouts; sees the criteria and the caption, never the image."""
    more_judges: tuple[Endpoint, ...] = ()
    """Further judges that grade every rollout; `combine` merges their credits."""
    combine: Combine = "majority"
    call_per: CallPer = "response"
    """One judge call per response, with all its criteria, or one per criterion (the paper)."""
    probe: ImageEndpoint | None = None
    """Pairwise judge that compares the policy with the base on held-out samples during training, for the alarm."""
    probe_samples: int = Field(default=32, ge=1)
    reward: OwnReward | None = Field(default=None, exclude_if=lambda reward: reward is None)
    """User-defined reward; by default the rubric reward."""

    @model_validator(mode="after")
    def _refresh_is_set_once(self) -> "PolicySection":
        if self.refresh_every:
            raise ValueError("refresh_every belongs to the rubrics: set rubric.refresh_every")
        return self


class Config(PolicySection):
    refresh: Refresh | None = None

    def versions(self) -> dict[str, str]:
        """Version of a user's reward: a training is not continued with an edited one."""
        return {"reward": source_digest(load_reward(self.reward.function))} if self.reward else {}


def run(config: Config, job: Job) -> None:
    from rubricworks.training.checkpoints import last_checkpoint

    rubrics = rubric_texts(job)
    dataset = training_dataset(job, rubrics)
    judges = [job.client(judge, "judge") for judge in (config.judge, *config.more_judges)]
    letters = DeadLetters(job)
    scorecards = scorecard_table()
    reward: RubricReward | FunctionReward
    if config.reward:
        reward = FunctionReward(config.reward.function, on_error=letters.add)
    else:
        grader = Grader(judges, call_per=config.call_per, combine=config.combine, on_error=letters.add)
        reward = RubricReward(grader, criterion=refill_criterion(config, rubrics), sink=scorecards.add)
    refresh = RubricRefresh(config.refresh, job, rubrics) if config.refresh else None
    if refresh and (checkpoint := last_checkpoint(job.out)):
        refresh.restore(int(checkpoint.name.rpartition("-")[2]))
    probe = HeldOutProbe(config.probe, config.probe_samples, job, config.seed) if config.probe else None
    train(
        config,
        _options(config),
        job,
        dataset,
        [refresh.reward(reward) if refresh else reward],
        scorecards,
        judges=judges,
        letters=letters,
        refresh=refresh,
        probe=probe,
    )


def _options(config: Config) -> PolicyConfig:
    values = {name: getattr(config, name) for name in PolicyConfig.model_fields}
    if config.refresh:
        values["refresh_every"] = config.refresh.every
    return PolicyConfig(**values)
