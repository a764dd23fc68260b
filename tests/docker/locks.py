"""Readers of the images' lock files and of the package's requirements."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
IMAGES = {
    "api": {"api", "store"},
    "cpu": {"tracking", "pipelines", "cluster", "store", "eval", "telemetry"},
    "trainer": {"gpu", "train", "ocr", "tracking", "pipelines", "cluster", "store", "eval", "telemetry"},
    "vllm": {"gpu", "train", "store"},
}
"""Each image and the extras that its lock is made from."""

_PIN = re.compile(r"([a-z0-9.-]+)(?:\[[^]]*])?==([^ ;\\]+)")


def locked(image: str) -> dict[str, str]:
    """Package → version, as the lock of an image has it."""
    return _pins(ROOT / "docker" / f"requirements-{image}.txt")


def constraints() -> dict[str, str]:
    """Package → version that the tests run with."""
    return _pins(ROOT / "constraints.txt")


def requirements(image: str) -> list[Requirement]:
    """Direct requirements of the package and the image's extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *(line for extra in IMAGES[image] for line in extras[extra])]
    return [requirement for line in listed if (requirement := Requirement(line)).name != "rubricworks"]


def reached(image: str) -> set[str]:
    """Every installed package that what the image asks for brings with it, however far down."""
    waiting, names = requirements(image), set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        extras = {"", *requirement.extras}
        if (name, *sorted(extras)) in names:
            continue
        names.add((name, *sorted(extras)))
        try:
            brought = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        waiting += [
            required
            for line in brought
            if (required := Requirement(line)).marker is None
            or any(required.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return {name for name, *_ in names}


def _pins(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(match[1]): match[2] for line in lines if (match := _PIN.match(line))}
