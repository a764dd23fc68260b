"""Stage 1.5: train the whole VLM on one captioner's captions of the images.

Both arms train on the same images in the same order: those that every captioner has captioned.
"""

from collections import defaultdict

from pydantic import Field

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.methods.recaption_pretrain.vlm_stage import VlmStageConfig, train_vlm
from rubricworks.runtime.job import Job, model_dir
from rubricworks.training.examples import StoredExamples, StoredImages


class Config(VlmStageConfig):
    captioner: str = Field(min_length=1)
    """Name of the captioner, as in `recaption.captioners`."""


def run(config: Config, job: Job) -> None:
    examples = _examples(config, job)
    train_vlm(job, model_dir(job.inputs["model"]), examples, config, title="pretraining")


def _examples(config: Config, job: Job) -> StoredExamples:
    samples = job.inputs["samples"]
    captions: dict[str, dict[str, str]] = defaultdict(dict)
    for row in read_rows(job.inputs["captions"], columns=["sample_id", "captioner", "caption"]):
        if row["caption"]:
            captions[row["sample_id"]].setdefault(row["captioner"], row["caption"])
    captioners = {name for by_name in captions.values() for name in by_name}
    if config.captioner not in captioners:
        raise UserError(f"no caption is by {config.captioner}; the captioners are {', '.join(sorted(captioners))}")
    rows = (
        (row["sample_id"], row["prompt"], captions[row["sample_id"]][config.captioner])
        for row in read_rows(samples, columns=["sample_id", "prompt"])
        if captions.get(row["sample_id"], {}).keys() == captioners
    )
    examples = StoredExamples(StoredImages(samples), rows)
    job.figures["without_every_caption"] = len(captions) - len(examples)
    return examples
