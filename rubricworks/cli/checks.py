"""What a recipe needs from the world around it: asked by `doctor`, and by `run` before anything starts."""

import asyncio
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rubricworks.environment import fill, names_in
from rubricworks.errors import UserError
from rubricworks.llm import Endpoint, check_endpoint
from rubricworks.plan import training_bytes
from rubricworks.recipe import Recipe, Rlr3Recipe

MIN_FREE_BYTES = 2 << 30
"""A run with the laptop student takes some 100 MB; models and samples of any real size need this much and more."""


@dataclass(frozen=True)
class Check:
    """One need, and what is wrong with it if anything is."""

    name: str
    problem: str | None
    detail: str = ""


def check_recipe(recipe: Recipe, runs: Path) -> Iterator[Check]:
    """Packages, disk, memory, GPU, images, endpoints, tracking; each as it is answered."""
    yield _check("packages", lambda: _packages(recipe))
    yield _check("disk", lambda: _disk(runs))
    yield _check("memory", _memory)
    yield _check("accelerator", lambda: _accelerator(recipe))
    yield _check("images", lambda: _images(recipe))
    for where, endpoint in endpoints(recipe):
        yield _check(f"endpoint {where}", lambda endpoint=endpoint: _endpoint(endpoint))
    yield _check("tracking", lambda: _tracking(recipe, runs))


def endpoints(recipe: Recipe) -> list[tuple[str, Endpoint]]:
    """Each different endpoint once, with the field that names it first."""
    found: dict[tuple[object, ...], tuple[str, Endpoint]] = {}
    for where, endpoint in recipe.endpoints():
        found.setdefault((endpoint.url, endpoint.replicas, endpoint.model, endpoint.api_key_env), (where, endpoint))
    return list(found.values())


def _check(name: str, ask: Callable[[], str]) -> Check:
    try:
        return Check(name, None, ask())
    except UserError as error:
        return Check(name, str(error))


def _packages(recipe: Recipe) -> str:
    needed = {"kfp": "pipelines", "trl": "train", "torch": "train", "transformers": "train", "mlflow": "tracking"}
    if recipe.policy.lora:
        needed["peft"] = "train"
    missing = {package: extra for package, extra in needed.items() if importlib.util.find_spec(package) is None}
    if missing:
        extras = ",".join(sorted(set(missing.values())))
        raise UserError(f"{', '.join(missing)} not installed; run: pip install 'rubricworks[{extras}]'")
    return "all there"


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


def _accelerator(recipe: Recipe) -> str:
    if recipe.warm_up.student == "tiny":
        return "none needed by the tiny student"
    import torch

    needed = training_bytes(recipe)
    wanted = f"{needed / 2**30:.0f} GiB" if needed else "unknown memory"
    if not torch.cuda.is_available():
        raise UserError(
            f"no GPU is visible, and {recipe.warm_up.student} needs one ({wanted} and its activations): "
            "run where there is one, or start from `student: tiny`"
        )
    total = sum(torch.cuda.get_device_properties(i).total_memory for i in range(torch.cuda.device_count()))
    if needed and total < needed:
        raise UserError(
            f"{total / 2**30:.0f} GiB of GPU memory, {wanted} are needed: set policy.lora, or take a smaller student"
        )
    return f"{torch.cuda.device_count()} GPU with {total / 2**30:.0f} GiB, {wanted} needed"


def _images(recipe: Recipe) -> str:
    return f"{count_items(recipe)} {'questions' if isinstance(recipe, Rlr3Recipe) else 'images'}"


def count_items(recipe: Recipe) -> int:
    """Images or questions in the recipe's source, neither opened nor fetched; none that can be used is an error."""
    source = fill(recipe.data.source, "data.source")
    if isinstance(recipe, Rlr3Recipe):
        from rubricworks.data.questions import FoundQuestion, find_questions

        return sum(isinstance(found, FoundQuestion) for found in find_questions(source, recipe.data.columns))
    from rubricworks.data.found import FoundImage
    from rubricworks.data.hosts import AllowedHosts
    from rubricworks.data.sources import find_images

    screened = AllowedHosts(recipe.data.allowed_hosts).screen(find_images(source), source)
    return sum(isinstance(found, FoundImage) for found in screened)


def _endpoint(endpoint: Endpoint) -> str:
    asyncio.run(check_endpoint(endpoint))
    if endpoint.api_key_env or names_in(endpoint.url):
        return f"{endpoint.label} answers, with what the environment holds"
    return f"{endpoint.label} answers"


def _tracking(recipe: Recipe, runs: Path) -> str:
    from rubricworks.tracking import check_tracking, tracking_uri

    on = check_tracking(recipe.tracking, runs)
    return tracking_uri(recipe.tracking, runs) if on else "off: MLflow is not installed"
