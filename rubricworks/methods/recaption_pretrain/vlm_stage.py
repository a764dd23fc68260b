"""A training stage of the recipe: supervised training of a LLaVA model on stored images, with tracking and a card."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.tracking import stage_run
from rubricworks.training.config import VlmConfig
from rubricworks.training.examples import StoredRows
from rubricworks.training.llava import PROJECTOR, VISION_TOWER
from rubricworks.training.model_card import Usage, only_prompt, write_card
from rubricworks.training.processes import is_main


class VlmStageConfig(StageConfig):
    """Configuration of a stage that trains a VLM."""

    sft: VlmConfig = VlmConfig()


def train_vlm(
    job: Job,
    start: Path,
    examples: StoredRows[Any],
    config: VlmStageConfig,
    *,
    title: str,
    projector_only: bool = False,
    finish: Callable[[Path], object] | None = None,
) -> None:
    """Train the model of `start` into the job's folder.

    Args:
        projector_only: train the projector alone, on captions without prompt (stage 1), not the whole model.
        finish: called with the trained model's folder in the main process.
    """
    from rubricworks.training.module_rates import ModuleRates
    from rubricworks.training.sft import train_sft

    settings = config.sft.model_copy(update={"steps": config.sft.steps_on(len(examples)), "epochs": None})
    rate = None if projector_only else settings.vision_learning_rate
    rates = {VISION_TOWER: rate} if rate else {}
    modules = ModuleRates((PROJECTOR,) if projector_only else (), rates)
    job.figures.update(examples=len(examples), steps=settings.steps)
    with stage_run(job.run, job.stage) as log:
        log.log_params(settings.model_dump(mode="json"))
        train_sft(
            start,
            examples,
            job.out,
            settings,
            seed=config.seed,
            title=title,
            on_log=step_listener(job, log),
            modules=modules if any(modules) else None,
            plain=projector_only,
        )
    if is_main():
        if finish:
            finish(model_dir(job.out))
        write_card(
            model_dir(job.out),
            Usage(only_prompt(examples.prompts)),
            trained_by=job.stage,
            data=job.made_by["inputs"],
            config=config.model_dump(mode="json") | {"sft": settings.model_dump(mode="json")},
        )
