"""Train the policy with RLR³'s rewards: checklists executed with minimal exposure, remapped and gated in each group.

It trains on the samples that pass the offline filter. The defaults are the paper's (section 5.1); GRPO is strictly
on-policy, without a KL penalty, with the token mean of each group (equation 1).
"""

from typing import Annotated, Literal

from pydantic import Field

from rubricworks.adapters.trl import GroupReward
from rubricworks.data.tables import read_rows
from rubricworks.grading import Combine, Exposure, Grader
from rubricworks.llm import Endpoint, SeesImages
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.training.policy_training import DeadLetters, refill_criterion, train, training_dataset
from rubricworks.stages.training.step_tables import scorecard_table
from rubricworks.training.config import AlarmConfig, PolicyConfig

_SHOWN_IMAGES = SeesImages(lambda config: config.exposure == "image")


class Options(StageConfig, PolicyConfig):
    """Training options that both arms share."""

    steps: int | None = Field(1_000, ge=1)
    prompts_per_step: int = Field(128, ge=1)
    max_new_tokens: int = Field(6_144, ge=1)
    """The paper uses 12,288 for long inputs. A response of this length earns 0."""
    learning_rate: float = Field(1e-6, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo", "group_token_mean"] = "group_token_mean"
    save_every: int = Field(100, ge=1)
    milestone_every: int = Field(100, ge=0)
    alarm: AlarmConfig = AlarmConfig(growth=4.0)
    """Worked answers grow longer as they improve, so the alarm tolerates growth up to four times."""

    def policy_config(self) -> PolicyConfig:
        return PolicyConfig(**{name: getattr(self, name) for name in PolicyConfig.model_fields})


class Config(Options):
    judge: Annotated[Endpoint, _SHOWN_IMAGES]
    """Extractor and judge: a text model, such as a GenRM."""
    more_judges: tuple[Annotated[Endpoint, _SHOWN_IMAGES], ...] = ()
    combine: Combine = "median"
    exposure: Exposure = "text"
    """`text` is minimal exposure; the others are the paper's ablations."""
    remap: bool = True
    gate: bool = True
    mask: bool = True
    """Parts of the reward; ablations turn them off."""


def run(config: Config, job: Job) -> None:
    rubrics = filtered_rubrics(job)
    dataset = training_dataset(job, rubrics)
    judges = [job.client(judge, "judge") for judge in (config.judge, *config.more_judges)]
    letters = DeadLetters(job)
    scorecards = scorecard_table()
    reward = GroupReward(
        Grader(judges, exposure=config.exposure, combine=config.combine, on_error=letters.add),
        group_size=config.group_size,
        max_tokens=config.max_new_tokens,
        remap=config.remap,
        gate=config.gate,
        mask=config.mask,
        criterion=refill_criterion(config, rubrics),
        sink=scorecards.add,
    )
    train(config, config.policy_config(), job, dataset, [reward], scorecards, judges=judges, letters=letters)


def filtered_rubrics(job: Job) -> dict[str, str]:
    """sample_id → rubric of each sample that passes the filter."""
    filtered = read_rows(job.inputs["filtered"], columns=["sample_id", "kept"])
    sample_ids = {row["sample_id"] for row in filtered if row["kept"]}
    rows = read_rows(job.inputs["rubrics"], columns=["sample_id", "rubric"])
    return {row["sample_id"]: row["rubric"] for row in rows if row["sample_id"] in sample_ids}
