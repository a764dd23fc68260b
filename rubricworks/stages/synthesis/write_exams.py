"""Write an exam for each image: multiple-choice questions by a model that sees it, to be answered from captions.

CaptionQA asks a text model these questions about the captions of held-out samples. CapRL's reward asks them during
training, and then the training samples need exams too (`splits`). A sample whose exam failed has a dead letter instead
of a row.
"""

from typing import Literal

from pydantic import Field

from rubricworks.data.tables import Sample, count_samples, read_samples
from rubricworks.evaluation.scorers.caption_prompts import EXAM_PROMPT_VERSION, Exam, exam_writer_messages
from rubricworks.llm import ChatError, ImageEndpoint
from rubricworks.runtime.call_table import Answers, ask_all, dead_letter
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job


class Config(StageConfig):
    writer: ImageEndpoint
    """A strong vision-language model."""
    splits: tuple[Literal["train", "held_out"], ...] = Field(default=("held_out",), min_length=1)
    """Splits that get exams. `train` is for CapRL's reward, and costs a call per training sample."""
    shard_size: int = Field(default=64, ge=1)


def run(config: Config, job: Job) -> None:
    client = job.client(config.writer, "exam")

    async def write(sample: Sample) -> Answers:
        image = sample.require_image("the exam is about it")
        try:
            reply = await client.chat(exam_writer_messages(image), Exam, config.seed)
        except ChatError as error:
            return Answers([], [dead_letter(sample.sample_id, job, f"exam by {config.writer.model}", error)])
        row = {
            "sample_id": sample.sample_id,
            "questions": reply.value.model_dump_json(),
            "writer": config.writer.model,
            "prompt_version": EXAM_PROMPT_VERSION,
            "prompt_tokens": reply.usage.prompt_tokens,
            "completion_tokens": reply.usage.completion_tokens,
            "cost": reply.usage.cost,
        }
        return Answers([row], [])

    samples = job.inputs["samples"]
    ask_all(
        job,
        "exams",
        read_samples(samples, *config.splits),
        write,
        total=count_samples(samples, *config.splits),
        shard_size=config.shard_size,
        clients=[client],
    )
