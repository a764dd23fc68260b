"""Supervised training of the policy on captions, for methods whose peers learn from texts instead of rewards."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext

from pydantic import BaseModel

from rubricworks.data.alarm import write_alarm
from rubricworks.data.tables import read_samples
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.stages.training.step_tables import StepTables
from rubricworks.tracking import stage_run
from rubricworks.training.config import SftConfig
from rubricworks.training.model_card import Usage, only_prompt, write_card
from rubricworks.training.processes import is_main

Example = tuple[bytes, str, str]
"""Image, prompt and caption."""


def train_on_captions(
    config: BaseModel,
    job: Job,
    captions: Mapping[str, Iterable[str]],
    sft: SftConfig,
    *,
    seed: int,
    gradings: str = "scorecards",
) -> None:
    """Train the input model on captions of the training samples; its tables of rollouts and gradings are empty.

    Args:
        config: the stage's configuration, logged to tracking.
        captions: sample_id → its captions; samples without any are left out.
        gradings: name of the table of gradings.
    """
    from rubricworks.training.sft import train_sft

    examples: list[Example] = [
        (one.require_image("the policy captions it"), one.prompt, caption)
        for one in read_samples(job.inputs["samples"], "train")
        for caption in captions.get(one.sample_id, ())
    ]
    tables = StepTables(job, every=1, gradings=gradings) if is_main() else nullcontext()
    with stage_run(job.run, job.stage) as log, tables:
        log.log_params(config.model_dump(mode="json"))
        train_sft(
            model_dir(job.inputs["model"]),
            examples,
            job.out,
            sft.model_copy(update={"seed": seed}),
            title="policy",
            on_log=step_listener(job, log),
        )
    if is_main():
        write_card(
            model_dir(job.out),
            Usage(only_prompt(prompt for _, prompt, _ in examples)),
            trained_by=job.stage,
            data=job.made_by["inputs"],
            config=config.model_dump(mode="json"),
        )
    write_alarm(job.out, None)
    job.figures.update(examples=len(examples), steps=sft.steps, alarm=None)
