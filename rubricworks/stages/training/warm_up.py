"""The student that RL starts from: built or loaded, and taught to caption from the references that images came with.

`student: tiny` builds a small vision-language transformer whose vocabulary is that of the references. Any other value
is a model directory or a Hub name. Without `sft` the student is passed on as it is, which is what a model that can
caption already wants. With `questions` it learns to answer those as well, from their worked answers.
"""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from pydantic import model_validator

from rubricworks.data.tables import read_samples
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.data.visual_questions import OtherTask, digests_of, questions_about
from rubricworks.storage import link
from rubricworks.tracking import stage_run
from rubricworks.training.config import SftConfig, TinyConfig

_IMAGES_FOR_BACKGROUND = 256
_SPLITS = ("warm_up", "train")
Example = tuple[bytes, str, str]
"""Image, prompt, and what to answer."""


class Config(StageConfig):
    student: str
    """`tiny`, a model directory, or a model's name on the Hugging Face Hub."""
    tiny: TinyConfig = TinyConfig()
    """The shape of the tiny student."""
    sft: SftConfig | None = None
    """Supervised warm-up on the samples' references; none by default."""
    questions: OtherTask | None = None
    """Visual questions about the same pictures, learnt beside the captions; none by default."""

    @model_validator(mode="after")
    def _tiny_needs_warm_up(self) -> "Config":
        if self.student == "tiny" and self.sft is None:
            raise ValueError("the student is tiny, which knows nothing yet: give warm_up an `sft` section")
        return self


def run(config: Config, job: Job) -> None:
    answers = _answers(config, job) if config.questions and config.sft else []
    given = config.student != "tiny"
    student = Path(fill(config.student, "warm_up.student")) if given else _tiny(config, job, answers)
    if config.sft is None:
        _pass_on(student, job.out / "model")
        return
    from rubricworks.training.sft import train_sft

    examples = [*_examples(job.inputs["samples"]), *answers]
    if len(examples) == len(answers):
        raise UserError(
            "no sample has a caption to warm up on; give the images captions, or take a student that can caption"
        )
    job.figures.update(examples=len(examples), steps=config.sft.steps)
    with stage_run(job.run, job.stage) as log:
        log.log_params(config.model_dump(mode="json"))
        log.log_input("samples", job.inputs["samples"], job.made_by["inputs"]["samples"], context="warm-up")
        train_sft(
            student,
            examples,
            job.out,
            config.sft.model_copy(update={"seed": config.seed}),
            on_log=lambda line: log.log_metrics(line.metrics, step=line.step),
        )


def _tiny(config: Config, job: Job, answers: list[Example]) -> Path:
    from rubricworks.training.tiny.student import build_student

    folder = job.scratch("untrained")
    samples = job.inputs["samples"]
    return build_student(
        chain(
            (text for sample in read_samples(samples, *_SPLITS) for text in (sample.prompt, *sample.references)),
            (text for _, prompt, answer in answers for text in (prompt, answer)),
        ),
        folder,
        config=config.tiny,
        images=[sample.image for sample in islice(read_samples(samples, "train"), _IMAGES_FOR_BACKGROUND)],
        seed=config.seed,
    )


def _examples(samples: Path) -> Iterator[Example]:
    for sample in read_samples(samples, *_SPLITS):
        for caption in sample.references:
            yield sample.image, sample.prompt, caption


def _answers(config: Config, job: Job) -> list[Example]:
    assert config.questions is not None
    pictures = digests_of(job.inputs["samples"], *_SPLITS)
    asked = [sample for _, sample in questions_about(pictures, config.questions, "warm_up.questions")]
    return [(sample.image, sample.prompt, answer) for sample in asked for answer in sample.references]


def _pass_on(student: Path, place: Path) -> None:
    """Link the model where the next stages look for it; a name on the Hub is resolved by its local copy, or fetched."""
    folder = student
    if not student.is_dir():
        if student.is_absolute():
            raise UserError(f"warm_up.student {student}: no such folder")
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

        try:
            folder = Path(snapshot_download(str(student)))
        except (RepositoryNotFoundError, LocalEntryNotFoundError, HfHubHTTPError, ConnectionError) as error:
            raise UserError(
                f"warm_up.student {student} is no folder here and cannot be fetched ({type(error).__name__}); "
                "give the path of a model directory, or check the name, the network and HF_TOKEN"
            ) from error
    if not (folder / "config.json").is_file():
        raise UserError(f"warm_up.student {folder} is not a model directory (no config.json)")
    link(place, folder)
