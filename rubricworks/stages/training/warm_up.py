"""Build or load the student that RL starts from, and fine-tune it on the images' reference captions.

`student: tiny` builds a small vision-language transformer with the vocabulary of the references. Any other value is a
model directory or a model of the Hub. Without `sft` the student is passed on unchanged, as suits a model that already
captions. With `questions` it also learns to answer those, from their worked answers. Where held-out samples have
captions, the training stops when their loss rises, and has the weights of its minimum (`training.held_out_loss`).
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import model_validator

from rubricworks.data.hub import model_place
from rubricworks.data.tables import read_samples
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.data.visual_questions import VisualQuestions, questions_about, samples_by_digest
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.storage import link
from rubricworks.tracking import stage_run
from rubricworks.training.config import SftConfig, TinyConfig
from rubricworks.training.model_card import Usage, only_prompt, write_card
from rubricworks.training.processes import is_local_main, is_main, main_process_first

if TYPE_CHECKING:
    from rubricworks.training.progress import StepLog

_IMAGES_FOR_BACKGROUND = 256
_SPLITS = ("warm_up", "train")
_READS_IMAGES = "the warm-up trains on the image"
Example = tuple[bytes, str, str]
"""Image, prompt and target answer."""


class Config(StageConfig):
    student: str
    """`tiny`, a model directory, or a model's name on the Hugging Face Hub, with its commit: org/name@COMMIT."""
    tiny: TinyConfig = TinyConfig()
    """Architecture of the tiny student."""
    sft: SftConfig | None = None
    """Supervised warm-up on the samples' references, until the loss on held-out ones rises; none by default."""
    questions: VisualQuestions | None = None
    """Visual questions about the same images to train on in addition to the captions; none by default."""

    @model_validator(mode="after")
    def _tiny_needs_warm_up(self) -> "Config":
        if self.student == "tiny" and self.sft is None:
            raise ValueError("the student is tiny, which knows nothing yet: give warm_up an `sft` section")
        return self


def run(config: Config, job: Job) -> None:
    answers = _answer_examples(config, job) if config.questions and config.sft else []
    if config.student == "tiny":
        student = _build_tiny_student(config, job, answers)
    else:
        student = Path(model_place(fill(config.student, "warm_up.student")))
    if config.sft is None:
        if is_local_main():
            _link_student(student, job.out / "model")
        return
    from rubricworks.training.sft import train_sft

    examples = [*_caption_examples(job.inputs["samples"]), *answers]
    if len(examples) == len(answers):
        raise UserError(
            "no sample has a caption to warm up on; give the images captions, or take a student that can caption, and "
            "start a new run: this one has read its images"
        )
    job.figures.update(examples=len(examples), steps=config.sft.steps)
    with stage_run(job.run, job.stage) as log:
        log.log_params(config.model_dump(mode="json"))
        log.log_input("samples", job.inputs["samples"], job.made_by["inputs"]["samples"], context="warm-up")
        train_sft(
            student,
            examples,
            job.out,
            config.sft,
            seed=config.seed,
            on_log=_loss_listener(job, step_listener(job, log)),
            held_out=[] if config.questions else list(_held_out_examples(job.inputs["samples"])),
        )
    if is_main():
        write_card(
            model_dir(job.out),
            Usage(only_prompt(prompt for _, prompt, _ in examples)),
            trained_by=job.stage,
            data=job.made_by["inputs"],
            config=config.model_dump(mode="json"),
        )


def _loss_listener(job: Job, listen: "Callable[[StepLog], None]") -> "Callable[[StepLog], None]":
    """A trainer's `on_log` that keeps the last loss, and the lowest on held-out samples, among the stage's figures."""
    lowest = float("inf")

    def keep_loss(line: "StepLog") -> None:
        nonlocal lowest
        if (loss := line.metrics.get("loss")) is not None:
            job.figures["loss"] = loss
        if (measured := line.metrics.get("held_out_loss")) is not None:
            job.figures["held_out_loss"] = lowest = min(measured, lowest)
        listen(line)

    return keep_loss


def _build_tiny_student(config: Config, job: Job, answers: list[Example]) -> Path:
    from rubricworks.training.tiny.student import build_student

    folder = job.scratch("untrained")
    samples = job.inputs["samples"]
    with main_process_first():
        if is_local_main():
            build_student(
                chain(
                    (
                        text
                        for sample in read_samples(samples, *_SPLITS)
                        for text in (sample.prompt, *sample.references)
                    ),
                    (text for _, prompt, answer in answers for text in (prompt, answer)),
                ),
                folder,
                config=config.tiny,
                images=[
                    sample.require_image(_READS_IMAGES)
                    for sample in islice(read_samples(samples, "train"), _IMAGES_FOR_BACKGROUND)
                ],
                seed=config.seed,
            )
    return folder


def _caption_examples(samples: Path) -> Iterator[Example]:
    for sample in read_samples(samples, *_SPLITS):
        for caption in sample.references:
            yield sample.require_image(_READS_IMAGES), sample.prompt, caption


def _held_out_examples(samples: Path) -> Iterator[Example]:
    """One caption of each held-out sample that has any. Their loss decides when to stop."""
    for sample in read_samples(samples, "held_out"):
        if sample.references:
            yield sample.require_image(_READS_IMAGES), sample.prompt, sample.references[0]


def _answer_examples(config: Config, job: Job) -> list[Example]:
    assert config.questions is not None
    pictures = samples_by_digest(job.inputs["samples"], *_SPLITS)
    questions = [sample for _, sample in questions_about(pictures, config.questions, "warm_up.questions")]
    return [
        (sample.require_image(_READS_IMAGES), sample.prompt, answer)
        for sample in questions
        for answer in sample.references
    ]


def _link_student(student: Path, target: Path) -> None:
    """Link the unchanged student as the stage's model."""
    if not student.is_dir():
        raise UserError(f"warm_up.student {student}: no such folder")
    if not (student / "config.json").is_file():
        raise UserError(f"warm_up.student {student} is not a model directory (no config.json)")
    link(target, student)
