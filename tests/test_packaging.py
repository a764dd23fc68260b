"""What stands in the checkout is in the wheel: every package is listed, and every file that is read as data."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
PLACES = {name: ROOT / folder for name, folder in SETTINGS["package-dir"].items()}


def place(package: str) -> Path:
    """The folder of a package: that of its nearest parent with a place of its own, and the rest below it."""
    parts = package.split(".")
    nearest = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in PLACES)
    return PLACES[".".join(parts[:nearest])].joinpath(*parts[nearest:])


def test_every_package_is_listed():
    there = {file.parent for root in PLACES.values() for file in root.rglob("__init__.py")}
    assert there == {place(package) for package in SETTINGS["packages"]}


def test_every_data_file_is_listed():
    listed = {
        file
        for package, patterns in SETTINGS["package-data"].items()
        for pattern in patterns
        for file in place(package).glob(pattern)
    }
    there = {
        file
        for root in PLACES.values()
        for file in root.rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc") and "__pycache__" not in file.parts
    }
    assert there == listed
