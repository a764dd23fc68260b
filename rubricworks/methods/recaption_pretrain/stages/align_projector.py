"""Stage 1: assemble the VLM, and train its projector alone on the captions that came with the images.

The model is a pretrained vision tower and a pretrained language model, or, on a laptop, two small towers from nothing
with the words of the run's texts as vocabulary.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from pydantic import Field, model_validator

from rubricworks.data.tables import read_rows, read_samples
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.methods.recaption_pretrain.vlm_stage import VlmStageConfig, train_vlm
from rubricworks.runtime.job import Job
from rubricworks.stages.data.visual_questions import VisualQuestions, questions_about, samples_by_digest
from rubricworks.training.config import TinyLlavaConfig
from rubricworks.training.examples import StoredExamples, StoredImages, first_references
from rubricworks.training.processes import is_local_main, main_process_first

_IMAGES_FOR_BACKGROUND = 256


class Config(VlmStageConfig):
    vision_tower: str = "tiny"
    """A CLIP vision tower: a model directory, or a Hub name with its commit; `tiny` is a new one."""
    language_model: str = "tiny"
    """A language model that speaks ChatML, such as Qwen2; `tiny` is a new one."""
    any_resolution: bool = True
    """LLaVA-NeXT's tiles for images of any resolution, in the stages after this one; not for `tiny`."""
    tiny: TinyLlavaConfig = TinyLlavaConfig()
    """Shape of the tiny towers."""
    questions: VisualQuestions | None = None
    """Questions whose words a tiny model must know."""
    splits: tuple[str, ...] = Field(default=("warm_up",), min_length=1)
    """Samples whose own captions it is trained on."""

    @model_validator(mode="after")
    def _both_or_none_are_tiny(self) -> "Config":
        if (self.vision_tower == "tiny") != (self.language_model == "tiny"):
            raise ValueError("vision_tower and language_model are both tiny, or both pretrained")
        return self


def run(config: Config, job: Job) -> None:
    samples = job.inputs["samples"]
    folder = job.scratch("untrained") / "model"
    with main_process_first():
        if is_local_main() and not folder.is_dir():
            _assemble(config, job, folder)
    examples = StoredExamples(StoredImages(samples), first_references(samples, *config.splits))
    if not examples:
        raise UserError(
            f"no sample of {', '.join(config.splits)} came with a caption to align the projector on; give the images "
            "captions, or other splits (alignment.splits)"
        )
    add_tiles = partial(_add_tiles, config)
    train_vlm(job, folder, examples, config, title="alignment", projector_only=True, finish=add_tiles)


def _add_tiles(config: Config, model: Path) -> None:
    from rubricworks.training.llava.assembly import add_tiles

    if config.any_resolution and config.vision_tower != "tiny":
        add_tiles(model, seed=config.seed)


def _assemble(config: Config, job: Job, folder: Path) -> None:
    from rubricworks.training.llava.assembly import assemble_llava, build_tiny_llava

    if config.vision_tower != "tiny":
        assemble_llava(
            fill(config.vision_tower, "alignment.vision_tower"),
            fill(config.language_model, "alignment.language_model"),
            folder,
            any_resolution=False,
            seed=config.seed,
        )
        return
    pictures = (sample.image for sample in read_samples(job.inputs["samples"], "train") if sample.image)
    build_tiny_llava(
        _texts(config, job),
        folder,
        config=config.tiny,
        images=list(islice(pictures, _IMAGES_FOR_BACKGROUND)),
        seed=config.seed,
    )


def _texts(config: Config, job: Job) -> Iterator[str]:
    """Texts that the model reads or writes in its three stages, but those of the evaluation."""
    samples = job.inputs["samples"]
    for sample in read_rows(samples, columns=["split", "prompt", "references"]):
        if sample["split"] in config.splits:
            yield from (sample["prompt"], *sample["references"])
    for row in read_rows(job.inputs["captions"], columns=["caption"]):
        yield row["caption"]
    if config.questions:
        pictures = samples_by_digest(samples, *config.splits)
        for _, question in questions_about(pictures, config.questions, "alignment.questions"):
            yield from (question.prompt, f"\\boxed{{ {question.answer} }}")
