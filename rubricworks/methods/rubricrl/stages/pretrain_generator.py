"""Build or load the image generator that RL starts from.

`tiny_ar` is a small autoregressive generator and `tiny_flow` a flow-matching one, pretrained on captioned pictures. Any
other value is a generator's folder or its name on the Hub, which is passed on unchanged: the paper starts from
supervised checkpoints (RubricRL, section 4.1).
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from rubricworks.data.captioned_pictures import read_pictures
from rubricworks.data.hub import model_place
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, model_dir
from rubricworks.runtime.reuse import SOURCE
from rubricworks.runtime.store.source_files import local_source
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.storage import files_digest, is_remote, link
from rubricworks.tracking import stage_run
from rubricworks.training.generators.config import TinyArConfig, TinyFlowConfig
from rubricworks.training.generators.files import INDEX_FILE
from rubricworks.training.model_card import Usage, write_card

if TYPE_CHECKING:
    pass

TINY_AR, TINY_FLOW = "tiny_ar", "tiny_flow"


class Config(StageConfig):
    generator: str
    """`tiny_ar`, `tiny_flow`, or a generator (a model or a diffusers pipeline): its folder, here or in a store (s3://…),
    or its name on the Hugging Face Hub, with its commit: org/name@COMMIT.
    """
    tiny_ar: TinyArConfig = TinyArConfig()
    """Shape and pretraining of the tiny generator."""
    tiny_flow: TinyFlowConfig = TinyFlowConfig()
    """Shape and pretraining of the tiny flow-matching generator."""
    source: str | None = None
    """Captioned pictures of one size for its pretraining: Parquet with `image` and `caption`."""
    max_pictures: int | None = Field(default=None, ge=1)
    """Number of pictures to read; all by default."""

    @model_validator(mode="after")
    def _tiny_needs_pictures(self) -> "Config":
        if self.generator in (TINY_AR, TINY_FLOW) and self.source is None:
            raise ValueError(
                f"the generator is {self.generator}, which knows nothing yet: give source, captioned pictures"
            )
        return self

    def versions(self) -> dict[str, str]:
        """Digest of the pictures, so that runs that pretrain on the same ones share the generator."""
        if self.source is None or not (source := Path(local_source(self.source))).exists():
            return {}
        files = [source] if source.is_file() else source.rglob("*")
        return {SOURCE: files_digest(files, source.parent)}


def run(config: Config, job: Job) -> None:
    if config.generator not in (TINY_AR, TINY_FLOW):
        folder = _folder(config.generator)
        if not any((folder / name).is_file() for name in ("config.json", INDEX_FILE)):
            raise UserError(f"warm_up.generator {folder} is not a generator's folder (no config.json)")
        link(job.out / "model", folder)
        return
    captions, images, digest = read_pictures(local_source(str(config.source)), config.max_pictures)
    shape = config.tiny_ar if config.generator == TINY_AR else config.tiny_flow
    job.figures.update(pictures=len(captions), steps=shape.steps)
    with stage_run(job.run, job.stage) as log:
        log.log_params(config.model_dump(mode="json"))
        _pretrainer(shape)(
            captions,
            images,
            job.out,
            shape,
            seed=config.seed,
            digest=digest,
            on_log=step_listener(job, log),
        )
    data = {"pictures": digest}
    write_card(model_dir(job.out), Usage(), trained_by=job.stage, data=data, config=config.model_dump(mode="json"))


def _folder(generator: str) -> Path:
    """Folder of a generator, fetched first if it is in a store or on the Hub."""
    place = fill(generator, "warm_up.generator")
    return Path(local_source(place, "warm_up.generator") if is_remote(place) else model_place(place))


def _pretrainer(shape: TinyArConfig | TinyFlowConfig) -> Callable[..., Path]:
    if isinstance(shape, TinyArConfig):
        from rubricworks.training.generators.tiny_ar import pretrain_tiny_ar

        return pretrain_tiny_ar
    from rubricworks.training.generators.flow_matching.tiny_flow import pretrain_tiny_flow

    return pretrain_tiny_flow
