"""Readers of the images' lock files and of the package's requirements."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK_SCRIPT = (ROOT / "docker" / "lock.sh").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _extras_of_images() -> dict[str, set[str]]:
    commands = LOCK_SCRIPT.replace("$STAGES", re.findall(r'^STAGES="(.*)"$', LOCK_SCRIPT, re.MULTILINE)[0])
    locks = re.findall(r"^lock (\w+) pyproject\.toml (.*)$", commands, re.MULTILINE)
    return {image: {*re.findall(r"--extra (\w+)", options)} for image, options in locks}


IMAGES = _extras_of_images()
"""Each image and the extras of pyproject.toml that its lock is made from, as docker/lock.sh has them."""

_PIN = re.compile(r"([a-z0-9.-]+)(?:\[[^]]*])?==([^ ;\\]+)")


def locked(image: str) -> dict[str, str]:
    """Package → version, as the lock of an image has it."""
    return _pins(ROOT / "docker" / f"requirements-{image}.txt")


def constraints() -> dict[str, str]:
    """Package → version that the tests run with."""
    return _pins(ROOT / "constraints.txt")


def requirements(image: str) -> list[Requirement]:
    """Direct requirements of the package and the image's extras, and of the extras that these name."""
    lines, waiting, extras = [*PROJECT["dependencies"]], [*IMAGES[image]], PROJECT["optional-dependencies"]
    while waiting:
        for line in extras[waiting.pop()]:
            if Requirement(line).name == "rubricworks":
                waiting += Requirement(line).extras
            else:
                lines.append(line)
    return [Requirement(line) for line in lines]


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
