"""Stage 2: instruction tuning of the whole VLM on visual questions with their right answers, the same in both arms."""

from collections.abc import Iterator
from pathlib import Path

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.methods.recaption_pretrain.question_table import write_questions
from rubricworks.methods.recaption_pretrain.vlm_stage import VlmStageConfig, train_vlm
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.data.visual_questions import VisualQuestions
from rubricworks.training.examples import StoredExamples, StoredImages
from rubricworks.training.processes import is_local_main, main_process_first


class Config(VlmStageConfig):
    questions: VisualQuestions
    """Visual questions; those about the pictures of `splits` are trained on."""
    splits: tuple[str, ...] = ("warm_up",)
    """None: all questions, whose pictures may be others than the samples'."""
    boxed: bool = False
    r"""Train on answers in `\boxed{…}`, where the scorer of answers looks first."""


def prepare_inputs(config: Config, job: Job) -> None:
    """Write the table of questions, which takes longer than the processes of a training wait for each other."""
    write_questions(job, job.scratch("questions"), config.questions, config.splits, "tuning.questions")


def run(config: Config, job: Job) -> None:
    folder = job.scratch("questions")
    with main_process_first():
        if is_local_main():
            prepare_inputs(config, job)
    examples = StoredExamples(StoredImages(folder), _answers(folder, boxed=config.boxed))
    if not examples:
        raise UserError("no question has an answer to train on; give tuning.questions with answers")
    train_vlm(job, model_dir(job.inputs["model"]), examples, config, title="instruction tuning")


def _answers(folder: Path, *, boxed: bool) -> Iterator[tuple[str, str, str]]:
    for row in read_rows(folder, columns=["sample_id", "prompt", "answer"]):
        if answer := row["answer"]:
            yield row["sample_id"], row["prompt"], f"\\boxed{{ {answer} }}" if boxed else answer
