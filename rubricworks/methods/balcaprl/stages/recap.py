"""Reference captions written anew by a stronger model (BalCapRL, section 3.1); recall and length are measured by them.

The samples to train on and the held-out ones come out with one reference each: the new caption or, without a
captioner, the first that came with the image. A sample that has none in the end is left out. What the captioner wrote,
and at what cost, stands in the table `captions` beside the samples.
"""

from typing import Literal

from pydantic import Field

from rubricworks.data.tables import count_rows, count_samples, read_rows
from rubricworks.errors import UserError
from rubricworks.llm import ChatError, Endpoint, image_part, text_part
from rubricworks.runtime.call_table import Answers, Row, ask_all, caption_row, dead_letter
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job

Split = Literal["train", "held_out"]
_SPLITS: tuple[Split, ...] = ("train", "held_out")
_ADVICE = "give the images captions, or name a recap.captioner that writes them"


class Config(StageConfig):
    captioner: Endpoint | None = None
    """A strong vision-language model; none keeps the captions that the images came with."""
    splits: tuple[Split, ...] = Field(default=_SPLITS, min_length=1)
    """Where the references are rewritten. `[held_out]` trains on the original captions and evaluates against the new
    ones, so that runs with weak references can be compared with others."""
    prompt: str | None = None
    """What the captioner is asked; by default each sample's own prompt, as in the paper."""
    shard_size: int = Field(default=64, ge=1)


def run(config: Config, job: Job) -> None:
    captioner = job.client(config.captioner, "recaption") if config.captioner else None

    def kept(row: Row, reference: str) -> Answers:
        return Answers([{**row, "references": [reference]}] if reference else [], [])

    async def rewrite(row: Row) -> Answers:
        if captioner is None or row["split"] not in config.splits:
            reference = next((text for text in row["references"] if text.strip()), "")
            return kept(row, reference)
        request = [{"role": "user", "content": [image_part(row["image"]), text_part(config.prompt or row["prompt"])]}]
        try:
            reply = await captioner.chat(request, seed=config.seed)
        except ChatError as error:
            purpose = f"recaption by {captioner.endpoint.model}"
            return Answers([], [dead_letter(row["sample_id"], job, purpose, error)])
        written = caption_row(row["sample_id"], captioner, config.seed, reply)
        return kept(row, written["caption"])._replace(side_tables={"captions": [written]})

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
