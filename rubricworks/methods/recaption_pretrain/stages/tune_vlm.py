"""Stage 2: instruction tuning of the whole VLM, on the same examples in both arms.

The examples are conversations in LLaVA-NeXT's form, or visual questions with their right answers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.methods.recaption_pretrain.instruction_table import write_instructions
from rubricworks.methods.recaption_pretrain.question_table import write_questions
from rubricworks.methods.recaption_pretrain.vlm_stage import VlmStageConfig, train_vlm
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.data.visual_questions import VisualQuestions
from rubricworks.training.examples import StoredConversations, StoredExamples, StoredImages, StoredRows
from rubricworks.training.processes import is_local_main, main_process_first


class Instructions(BaseModel):
    """Conversations of any number of turns and images, trained on as they are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["instructions"]
    source: str
    """Parquet, .json or .jsonl whose rows have `conversations`, as LLaVA-NeXT's instructions; images in the rows or
    beside them.
    """

    def write(self, job: Job, folder: Path) -> None:
        write_instructions(job, folder, self.source, "tuning.examples.source")

    def read(self, folder: Path) -> StoredRows:
        return StoredConversations(folder)


class Questions(VisualQuestions):
    """Visual questions with their answers, one of each."""

    type: Literal["questions"]
    splits: tuple[str, ...] = ("warm_up",)
    """Samples about whose pictures the questions are. None: all questions, whose pictures may be others."""
    boxed: bool = False
    r"""Train on answers in `\boxed{…}`, where the scorer of answers looks first."""

    def write(self, job: Job, folder: Path) -> None:
        write_questions(job, folder, self, self.splits, "tuning.examples")

    def read(self, folder: Path) -> StoredRows:
        return StoredExamples(StoredImages(folder), _answers(folder, boxed=self.boxed))


class Config(VlmStageConfig):
    examples: Annotated[Instructions | Questions, Field(discriminator="type")]
    """Training examples."""


def prepare_inputs(config: Config, job: Job) -> None:
    """Write the table of examples, which takes longer than the processes of a training wait for each other."""
    config.examples.write(job, job.scratch(config.examples.type))


def run(config: Config, job: Job) -> None:
    with main_process_first():
        if is_local_main():
            prepare_inputs(config, job)
    examples = config.examples.read(job.scratch(config.examples.type))
    if not examples:
        raise UserError("no question has an answer to train on; give tuning.examples with answers")
    train_vlm(job, model_dir(job.inputs["model"]), examples, config, title="instruction tuning")


def _answers(folder: Path, *, boxed: bool) -> Iterator[tuple[str, str, str]]:
    for row in read_rows(folder, columns=["sample_id", "prompt", "answer"]):
        if answer := row["answer"]:
            yield row["sample_id"], row["prompt"], f"\\boxed{{ {answer} }}" if boxed else answer
