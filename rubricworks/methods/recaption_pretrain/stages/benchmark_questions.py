"""Collect the questions that both VLMs are scored on: about the held-out pictures, which no stage trains on."""

from rubricworks.methods.recaption_pretrain.question_table import write_questions
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.data.visual_questions import VisualQuestions


class Config(StageConfig):
    questions: VisualQuestions
    splits: tuple[str, ...] = ("held_out",)
    """None: all questions, whose pictures may be others than the samples'."""


def run(config: Config, job: Job) -> None:
    manifest = write_questions(job, job.out, config.questions, config.splits, "benchmarks.questions", split="held_out")
    job.figures["questions"] = manifest.rows
