"""Packages that a recipe's stages import when they run, by its settings; none is imported to find out."""

import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any

from rubricworks.errors import UserError

TRAINER = {"torch": "a stage that loads a model", "trl": "a policy's training", "kfp": "a task of a pipeline"}
"""Packages that every recipe needs where models are loaded → what needs them."""

_BY_VALUE = (("vllm", "mode", "colocate", "vllm"), ("engine", "kind", "vllm", "vllm"))
"""Section, field and value of a recipe that need the package in the stage's own environment."""
_BY_SECTION = {"lora": "peft"}
"""Section of a recipe that needs the package if it is set."""
_BY_FIELD = (("generator", "tiny_flow", "diffusers"),)
"""Field and value of any section that need the package."""
EXTRAS = {
    "kfp": "pipelines", "trl": "train", "torch": "train", "transformers": "train", "peft": "train",
    "diffusers": "diffusion", "vllm": "gpu",
    "rapidocr_onnxruntime": "ocr", "mlflow": "tracking", "sympy": "eval", "rapidfuzz": "eval", "opencc": "eval",
}  # fmt: skip
"""Package → extra of this project that installs it."""


def packages_of(settings: Any) -> dict[str, str]:
    """Return the packages of the trainer image → what needs them.

    Args:
        settings: a recipe, or the configurations of its stages, as JSON values.
    """
    return TRAINER | optional_packages(settings)


def optional_packages(settings: Any) -> dict[str, str]:
    """Return the packages that only some recipes need → the setting that needs them."""
    sections = list(_sections(settings))
    needs: dict[str, str] = {}
    for name, field, value, package in _BY_VALUE:
        if any(isinstance(inner := section.get(name), dict) and inner.get(field) == value for section in sections):
            needs.setdefault(package, f"{name}.{field}: {value}")
    if any(section.get("text_reader") == "rapidocr" for section in sections):
        needs |= dict.fromkeys(("rapidocr_onnxruntime", "rapidfuzz", "opencc"), "text_reader: rapidocr")
    elif any(section.get("text_reader") for section in sections):
        needs |= dict.fromkeys(("rapidfuzz", "opencc"), "text_reader")
    for name, package in _BY_SECTION.items():
        if any(section.get(name) for section in sections):
            needs.setdefault(package, name)
    for name, value, package in _BY_FIELD:
        if any(section.get(name) == value for section in sections):
            needs.setdefault(package, f"{name}: {value}")
    return needs


def require_installed(packages: Mapping[str, str]) -> str:
    """Look for packages on this machine, without importing them.

    Args:
        packages: package → what needs it; empty if every recipe does.
    Raises:
        UserError: names those that are not installed, and the command that installs them.
    """
    if missing := [package for package in packages if importlib.util.find_spec(package) is None]:
        extras = ",".join(sorted({EXTRAS[package] for package in missing}))
        names = [f"{package} (for {packages[package]})" if packages[package] else package for package in missing]
        raise UserError(f"{', '.join(names)} not installed; run: pip install 'rubricworks[{extras}]'")
    return "all there"


def _sections(tree: Any) -> Iterator[dict[str, object]]:
    if isinstance(tree, list):
        for item in tree:
            yield from _sections(item)
    elif isinstance(tree, dict):
        yield tree
        for item in tree.values():
            yield from _sections(item)
