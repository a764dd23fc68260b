"""Checks of what a recipe needs on this machine: made by `doctor`, and by `run` before anything starts."""

import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.functions import load_scorer
from rubricworks.llm.served import ServedModel
from rubricworks.recipe import Recipe
from rubricworks.recipe.cluster_configs import distinct_endpoints
from rubricworks.recipe.estimate import count_items
from rubricworks.recipe.models import require_pinned
from rubricworks.recipe.sizes import CPU_PARAMETERS, count_parameters, training_bytes
from rubricworks.runtime.admission import needs_of
from rubricworks.runtime.packages import optional_packages, require_installed
from rubricworks.runtime.preflight_checks import (
    Check,
    promotion_checks,
    require_file,
    require_tracking,
    run_check,
)
from rubricworks.runtime.serving.identity import default_engine, engine_version, server_options
from rubricworks.runtime.serving.local_servers import Accelerators
from rubricworks.stages.data.prepare import Config as PrepareConfig
from rubricworks.stages.data.prepare import captioned_images
from rubricworks.stages.evaluation.score_config import Evaluation
from rubricworks.stages.release.report import REPORT_FIELD
from rubricworks.stages.training.warm_up import Config as WarmUpConfig
from rubricworks.training.config import Optimizer

MIN_FREE_BYTES = 2 << 30
"""A run with the laptop student takes some 100 MB; models and samples of any real size need this much and more."""


def check_recipe(recipe: Recipe, runs: Path) -> Iterator[Check]:
    """Check everything that a recipe needs, one check at a time."""
    if not (reached := needs_of(recipe.staged_recipe().stages)).is_empty:
        yield Check("reaches", None, reached.as_yaml())
    yield check_models(recipe)
    yield from check_machine(recipe, runs)
    yield from check_sources(recipe)


def check_models(recipe: Recipe) -> Check:
    """Check that the models of a new run are folders, or the Hub's at a commit."""
    return run_check("models", lambda: require_pinned(recipe))


def check_machine(recipe: Recipe, runs: Path) -> Iterator[Check]:
    """Check packages, disk, memory, GPU, tracking and what the method asks for: what needs no world to be drawn."""
    yield run_check("packages", lambda: _packages(recipe))
    yield run_check("disk", lambda: _disk(runs))
    yield run_check("memory", _memory)
    if student := recipe.base_model:
        yield run_check("accelerator", lambda: _accelerator(recipe, student))
    if recipe.serve:
        yield run_check("served models", lambda: _served_models(recipe))
    yield run_check("tracking", lambda: require_tracking(recipe.tracking, runs))
    if recipe.promotes:
        yield from promotion_checks()
    if isinstance(evaluation := getattr(recipe, "evaluation", None), Evaluation):
        for scorer in evaluation.scorers.functions:
            yield run_check(f"scorer {scorer.name}", partial(_loads, scorer.function))
    if file := recipe.source_files.get(REPORT_FIELD):
        yield run_check(f"file {REPORT_FIELD}", partial(require_file, file, REPORT_FIELD))
    yield from recipe.method_checks(runs)


def check_sources(recipe: Recipe) -> Iterator[Check]:
    """Check images and endpoints, including those of a scene world."""
    if recipe.data_source:
        images = run_check("images", lambda: f"{count_items(recipe)} {recipe.item_noun}s")
        yield images
        data, warm_up = getattr(recipe, "data", None), getattr(recipe, "warm_up", None)
        learns = isinstance(warm_up, WarmUpConfig) and warm_up.sft and not warm_up.questions
        if isinstance(data, PrepareConfig) and learns and not images.problem:
            yield run_check("captions", lambda: _captions(data))
    for named in distinct_endpoints(recipe):
        yield run_check(f"endpoint {named.where}", named.require)


def _loads(function: str) -> str:
    load_scorer(function)
    return f"{function} can be called"


def _packages(recipe: Recipe) -> str:
    """Check that the packages of all stages are installed, before captions and rubrics are paid for."""
    needed = dict.fromkeys(("kfp", "trl", "torch", "transformers", "mlflow"), "")
    return require_installed(needed | optional_packages(recipe.model_dump(mode="json", exclude={"arms"})))


def _disk(runs: Path) -> str:
    place = runs.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if not os.access(place, os.W_OK):
        raise UserError(f"{place} cannot be written; give another folder with --runs")
    if free < MIN_FREE_BYTES:
        raise UserError(
            f"{free / 2**30:.1f} GiB free at {place}, at least {MIN_FREE_BYTES / 2**30:.0f} are needed: "
            "free some, or give another folder with --runs"
        )
    return f"{free / 2**30:.0f} GiB free at {place}"


def _memory() -> str:
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return "not known on this system; 3 GiB are needed"
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    if available < 3 << 30:
        raise UserError(f"{available / 2**30:.1f} GiB of memory available, 3 are needed: close other programs")
    return f"{available / 2**30:.0f} GiB available"


def _captions(data: PrepareConfig) -> str:
    captioned = captioned_images(data)
    if captioned == 0:
        raise UserError(
            "no image to train on has a caption, and warm_up.sft learns from captions: write a metadata.jsonl beside "
            "the images (docs/first-run.md), or take a student that can caption, without `sft`"
        )
    return "not counted: the images lie in a store" if captioned is None else f"{captioned} images to warm up on"


def _accelerator(recipe: Recipe, student: str) -> str:
    if student == "tiny":
        _check_precision(recipe)
        return "none needed by the tiny student"
    import torch

    needed = training_bytes(recipe, student)
    wanted = f"{needed / 2**30:.0f} GiB" if needed else "unknown memory"
    if not torch.cuda.is_available():
        parameters = count_parameters(student)
        if recipe.allow_cpu or (parameters is not None and parameters <= CPU_PARAMETERS):
            _check_precision(recipe)
            return f"no GPU: {student} is trained on the CPU"
        raise UserError(
            f"no GPU is visible, and {student} needs one ({wanted} and its activations): run where there is one, start "
            "from `student: tiny` or a model of at most 50 million parameters, or set allow_cpu to true and wait"
        )
    total = sum(torch.cuda.get_device_properties(i).total_memory for i in range(torch.cuda.device_count()))
    if needed and total < needed:
        raise UserError(
            f"{total / 2**30:.0f} GiB of GPU memory, {wanted} are needed: set policy.algorithm.optimizer.lora, or take "
            "a smaller student"
        )
    return f"{torch.cuda.device_count()} GPU with {total / 2**30:.0f} GiB, {wanted} needed"


def _served_models(recipe: Recipe) -> str:
    """Look for the engines, and the accelerators with room for the weights, of the models that the run serves."""
    engines, machine, configs = [], Accelerators(), recipe.stage_configs()
    for name, definition in recipe.serve.items():
        served = ServedModel(**dict(definition), name=name)
        if served.command:
            machine.take(served)
            engines.append(f"{name} by {served.command[0]}")
            continue
        try:
            engine = served.engine or default_engine()
            version = engine_version(engine)
            server_options(served, engine)
        except UserError as error:
            raise UserError(f"serve.{name}.engine: {error}") from None
        model: str | None = str(served.model)
        if served.stage:  # it will have the size of its student
            model = getattr(configs[served.stage], "student", recipe.base_model)
        parameters = count_parameters(model) if model else None
        machine.require_fit(served, str(model), 2 * parameters if parameters else 0)
        machine.take(served)
        engines.append(f"{name} by {engine} {version}")
    return ", ".join(engines)


def _check_precision(recipe: Recipe) -> None:
    """Refuse now what the training stages would refuse after the captions and rubrics have been paid for."""
    for field, optimizer in _optimizers(recipe):
        if optimizer.precision == "float32":
            continue
        from rubricworks.training.machine import check_precision

        try:
            check_precision(optimizer)
        except UserError as error:
            raise UserError(f"{field.removesuffix('optimizer')}{error}") from None


def _optimizers(value: BaseModel, where: str = "") -> Iterator[tuple[str, Optimizer]]:
    """Yield the path of every optimizer in a recipe's sections, and its settings."""
    for name in type(value).model_fields:
        inner = getattr(value, name)
        if isinstance(inner, Optimizer):
            yield f"{where}{name}", inner
        elif isinstance(inner, BaseModel):
            yield from _optimizers(inner, f"{where}{name}.")
