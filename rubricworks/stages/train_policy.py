"""The policy trained with GRPO on rubric rewards (RubiCap, section 3.3).

Beside the model stand the rollouts, scorecards and dead letters of every step, and `alarm.json`: null, or where and why
the hacking alarm went off. On several processes the scorecards are those of the main one.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.adapters.trl import RubricReward
from rubricworks.data.tables import read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.grading import CallPer, Combine, FailedCall, Grader
from rubricworks.llm import Endpoint
from rubricworks.stages import synthesize_rubrics
from rubricworks.stages.asking import Row, grading_dead_letters
from rubricworks.stages.caption_student import model_dir
from rubricworks.stages.config import StageConfig
from rubricworks.stages.held_out_probe import HeldOutProbe
from rubricworks.stages.job import Job
from rubricworks.stages.progress import VerdictLine
from rubricworks.stages.refresh import RubricRefresh
from rubricworks.stages.step_tables import StepTables
from rubricworks.storage import write_atomic
from rubricworks.tracking import RunLog, stage_run
from rubricworks.training.config import PolicyConfig


class Refresh(BaseModel):
    """Rubrics written anew during training, from the captions of the policy as it is then."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: int = Field(ge=1)
    """Steps between two rewritings."""
    rubric: synthesize_rubrics.Config


class PolicySection(StageConfig, PolicyConfig):
    """What a recipe's `policy:` says."""

    judge: Endpoint
    """Grades the rollouts; sees the criteria and the caption, never the image."""
    more_judges: tuple[Endpoint, ...] = ()
    """Further judges that grade everything too; `combine` makes one credit of theirs."""
    combine: Combine = "majority"
    call_per: CallPer = "response"
    """All criteria of a response in one call of a judge, or one criterion per call (the paper)."""
    probe: Endpoint | None = None
    """A pairwise judge that compares the policy with the base on held-out samples during training, for the alarm."""
    probe_samples: int = Field(default=32, ge=1)

    @model_validator(mode="after")
    def _refresh_is_said_once(self) -> "PolicySection":
        if self.refresh_every:
            raise ValueError("refresh_every belongs to the rubrics: set rubric.refresh_every")
        return self


class Config(PolicySection):
    refresh: Refresh | None = None


def run(config: Config, job: Job) -> None:
    from datasets import Dataset, disable_progress_bars

    from rubricworks.training.checkpoints import last_checkpoint
    from rubricworks.training.policy import train_policy

    rubrics = {
        row["sample_id"]: row["rubric"] for row in read_rows(job.inputs["rubrics"], columns=["sample_id", "rubric"])
    }
    splits = read_rows(job.inputs["samples"], columns=["sample_id", "split"])
    if not any(row["split"] == "train" and row["sample_id"] in rubrics for row in splits):
        raise UserError(
            f"none of the samples to train on has a rubric ({len(rubrics)} held-out ones have): nothing can be learnt; "
            f"see {job.inputs['rubrics'] / 'dead_letters'}, and take more samples or a larger committee"
        )
    disable_progress_bars()
    # Arrow files on disk, mapped into memory; the digests keep a cache of other tables from being taken for this one.
    dataset = Dataset.from_generator(
        _training_rows,
        gen_kwargs={"samples": str(job.inputs["samples"]), "rubrics": rubrics, "made_by": job.made_by["inputs"]},
        cache_dir=str(job.scratch("dataset")),
    )
    judges = [job.client(judge, "judge") for judge in (config.judge, *config.more_judges)]
    letters = _DeadLetters(job)
    grader = Grader(judges, call_per=config.call_per, combine=config.combine, on_error=letters.add)
    reward, line = RubricReward(grader), VerdictLine(judges)
    refresh = RubricRefresh(config.refresh, job, rubrics) if config.refresh else None
    if refresh and (checkpoint := last_checkpoint(job.out)):
        refresh.restore(int(checkpoint.name.rpartition("-")[2]))
    probe = HeldOutProbe(config.probe, config.probe_samples, job, config.seed) if config.probe else None
    try:
        with stage_run(job.run, job.stage) as log, StepTables(job, every=config.save_every) as tables:
            log.log_params(config.model_dump(mode="json"))
            for name in ("samples", "rubrics"):
                log.log_input(name, job.inputs[name], job.made_by["inputs"][name], context="policy training")
            result = train_policy(
                model_dir(job.inputs["model"]),
                dataset,
                refresh.reward(reward) if refresh else reward,
                job.out,
                _options(config),
                on_step=lambda step: (
                    tables.add(step, reward.scorecards, letters.taken()),
                    _log_step(log, step),
                    line.add(sum(len(card.verdicts) for card in reward.scorecards)),
                ),
                refresh=refresh,
                probe=probe,
                before_checkpoint=tables.commit,
            )
            log.set_tags({"alarm": str(result.alarm or "none")})
    finally:
        for client in job.calls.clients:
            asyncio.run(client.close())
    alarm = result.alarm and {"step": result.alarm.step, "reasons": list(result.alarm.reasons)}
    write_atomic(job.out / "alarm.json", json.dumps(alarm).encode())
    job.figures.update(steps=result.steps, alarm=alarm)


def _options(config: Config) -> PolicyConfig:
    values = {name: getattr(config, name) for name in PolicyConfig.model_fields}
    if config.refresh:
        values["refresh_every"] = config.refresh.every
    return PolicyConfig(**values)


def _training_rows(samples: str, rubrics: dict[str, str], made_by: dict[str, str]) -> Iterator[dict[str, Any]]:
    for sample in read_samples(samples, "train"):
        if sample.sample_id in rubrics:
            yield {
                "sample_id": sample.sample_id,
                "image": sample.image,
                "prompt": sample.prompt,
                "rubric": rubrics[sample.sample_id],
            }


def _log_step(log: RunLog, step: Any) -> None:
    judged = [reward for reward in step.rewards if reward is not None]
    log.log_metrics(
        {
            "reward": sum(judged) / len(judged) if judged else None,
            "tokens": sum(step.tokens) / len(step.tokens),
            "unjudged": 1 - len(judged) / len(step.rewards),
        },
        step=step.step,
    )


class _DeadLetters:
    """Of one step at a time. What a judge's failures look like is said when they begin, not ten thousand times."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._rows: list[Row] = []
        self._told: set[str] = set()

    def add(self, call: FailedCall) -> None:
        self._rows += grading_dead_letters(self._job, call)
        if call.error.error_class not in self._told:
            self._told.add(call.error.error_class)
            said = f"the judge failed on {call.sample_id}: {call.error}; such rollouts get no reward"
            print(said, file=sys.stderr, flush=True)

    def taken(self) -> list[Row]:
        """The rows since the last time, in an order that does not depend on which call ended first."""
        rows, self._rows = self._rows, []
        return sorted(rows, key=lambda row: (row["sample_id"], row["response"], row["purpose"], row["criterion"]))
