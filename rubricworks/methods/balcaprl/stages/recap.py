"""Recaption the references with a stronger model (BalCapRL, section 3.1); recall and length are measured against them.

Every training and held-out sample gets one reference: the new caption or, without a captioner, the first caption that
came with the image. Samples without either are dropped. The captioner's texts and costs are in the side table
`captions`.
"""

from typing import Literal

from pydantic import Field

from rubricworks.data.tables import count_rows, count_samples, read_rows
from rubricworks.errors import UserError
from rubricworks.llm import ChatError, ImageEndpoint, image_part, text_part
from rubricworks.llm.messages import user_message
from rubricworks.runtime.call_table import Answers, Row, ask_all, caption_row, dead_letter
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job

Split = Literal["train", "held_out"]
_SPLITS: tuple[Split, ...] = ("train", "held_out")
_ADVICE = "give the images captions, or name a recap.captioner that writes them"


class Config(StageConfig):
    captioner: ImageEndpoint | None = None
    """A strong vision-language model; without one the samples keep the captions that came with the images."""
    splits: tuple[Split, ...] = Field(default=_SPLITS, min_length=1)
    """Splits to recaption. `[held_out]` trains on the original captions and evaluates against the new ones, so that
    runs with weak references can be compared with others.
    """
    prompt: str | None = None
    """Prompt of the captioner; by default each sample's own: `data.prompt`, or the one that the image came with where
    `data.own_prompts` says so, as in the paper.
    """
    shard_size: int = Field(default=64, ge=1)


def run(config: Config, job: Job) -> None:
    captioner = job.client(config.captioner, "recaption") if config.captioner else None

    def answers(row: Row, reference: str) -> Answers:
        return Answers([{**row, "references": [reference]}] if reference else [], [])

    async def rewrite(row: Row) -> Answers:
        if captioner is None or row["split"] not in config.splits:
            reference = next((text for text in row["references"] if text.strip()), "")
            return answers(row, reference)
        request = [user_message([image_part(row["image"]), text_part(config.prompt or row["prompt"])])]
        try:
            reply = await captioner.chat(request, seed=config.seed)
        except ChatError as error:
            purpose = f"recaption by {captioner.endpoint.model}"
            return Answers([], [dead_letter(row["sample_id"], job, purpose, error)])
        caption = caption_row(row["sample_id"], captioner, config.seed, reply)
        return answers(row, caption["caption"])._replace(side_tables={"captions": [caption]})

    samples = job.inputs["samples"]
    if captioner is None and not any(row["references"] for row in read_rows(samples, columns=["references"])):
        raise UserError(f"no image came with a caption; {_ADVICE}")
    total = count_samples(samples, *_SPLITS)
    ask_all(
        job,
        "samples",
        (row for row in read_rows(samples) if row["split"] in _SPLITS),
        rewrite,
        total=total,
        shard_size=config.shard_size,
        clients=[captioner] if captioner else [],
        side_tables=["captions"],
    )
    job.figures["without_reference"] = total - count_rows(job.out) - count_rows(job.out / "dead_letters")
    for split in _SPLITS:
        if not count_samples(job.out, split):
            job.mark_unusable()
            raise UserError(f"none of the {split} samples has a reference; {_ADVICE}")
