"""Caption every sample, held-out ones too, with each teacher of the committee (RubiCap, section 3.2).

A teacher that fails on a sample leaves a dead letter; the sample continues with the other captions.
"""

import asyncio
import warnings

from pydantic import Field

from rubricworks.data.tables import Sample, count_samples, read_samples
from rubricworks.llm import ChatClient, ChatError, ImageEndpoint, image_part, text_part
from rubricworks.llm.messages import user_message
from rubricworks.runtime.call_table import Answers, Row, ask_all, caption_row, dead_letter
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job


class Config(StageConfig):
    teachers: tuple[ImageEndpoint, ...] = Field(min_length=1)
    """The committee, ideally of different families. Their names are hidden from the rubric writer."""
    captions_each: int = Field(default=1, ge=1, le=16)
    """Captions drawn from each teacher; above 1, give the teachers a temperature."""
    prompt: str | None = Field(default=None, min_length=1)
    """Request to the teachers; by default each sample's own prompt, the one that the student reads (`data.prompt`).
    A tiny student is best given a short one, and its teachers a longer one here.
    """
    shard_size: int = Field(default=64, ge=1)


SPLITS = ("train", "held_out")
"""Splits that get captions and rubrics: to train on, and to evaluate a policy on."""


def run(config: Config, job: Job, splits: tuple[str, ...] = SPLITS) -> None:
    if len(config.teachers) == 1 and config.captions_each > 1:
        warnings.warn(
            f"the committee is one model, asked {config.captions_each} times: its habitual mistakes look agreed on",
            stacklevel=2,
        )
    clients = [job.client(teacher, "caption") for teacher in config.teachers]
    seeds = [config.seed * 1_000 + index for index in range(config.captions_each)]

    async def caption(sample: Sample) -> Answers:
        asked = (_caption(client, sample, config.prompt, seed, job) for client in clients for seed in seeds)
        rows = await asyncio.gather(*asked)
        return Answers([row for row in rows if "caption" in row], [row for row in rows if "caption" not in row])

    samples = job.inputs["samples"]
    ask_all(
        job,
        "captions",
        read_samples(samples, *splits),
        caption,
        total=count_samples(samples, *splits),
        shard_size=config.shard_size,
        clients=clients,
    )


async def _caption(client: ChatClient, sample: Sample, prompt: str | None, seed: int, job: Job) -> Row:
    """Return a row of `captions` or of `dead_letters`."""
    image = image_part(sample.require_image("the captioners read it"))
    request = [user_message([image, text_part(prompt or sample.prompt)])]
    try:
        reply = await client.chat(request, seed=seed)
    except ChatError as error:
        return dead_letter(sample.sample_id, job, f"caption by {client.endpoint.model}", error)
    return caption_row(sample.sample_id, client, seed, reply)
