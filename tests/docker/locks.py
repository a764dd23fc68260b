"""What the locks of the images say, and what the extras of the package ask for."""

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
    "trainer": {"train", "tracking", "pipelines", "cluster", "store", "eval", "telemetry"},
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


def asked(image: str) -> list[Requirement]:
    """What the package and the image's extras ask for themselves."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *(line for extra in IMAGES[image] for line in extras[extra])]
    return [asked for line in listed if (asked := Requirement(line)).name != "rubricworks"]


def reached(image: str) -> set[str]:
    """Every installed package that what the image asks for brings with it, however far down."""
    waiting, found = asked(image), set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        extras = {"", *requirement.extras}
        if (name, *sorted(extras)) in found:
            continue
        found.add((name, *sorted(extras)))
        try:
            brought = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        waiting += [
            needed
            for line in brought
            if (needed := Requirement(line)).marker is None
            or any(needed.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return {name for name, *_ in found}


def _pins(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(found[1]): found[2] for line in lines if (found := _PIN.match(line))}
