"""The wheel contains every module of the checkout and every file that is read as data."""

import runpy
import tomllib
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).parents[1]
DATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]


def given_to_setuptools(monkeypatch) -> dict:
    monkeypatch.chdir(ROOT)
    with patch("setuptools.setup") as setup:
        runpy.run_path("setup.py")
    return setup.call_args.kwargs


def folders(options: dict) -> set[Path]:
    """The folder of each package: that of its nearest parent with a place of its own, and the rest below it."""
    names = set()
    for package in options["packages"]:
        parts = package.split(".")
        nearest = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in options["package_dir"])
        names.add((ROOT / options["package_dir"][".".join(parts[:nearest])]).joinpath(*parts[nearest:]))
    return names


def files(options: dict) -> list[Path]:
    roots = [ROOT / folder for folder in options["package_dir"].values()]
    paths = [file for root in roots for file in root.rglob("*") if file.is_file()]
    return [file for file in paths if "__pycache__" not in file.parts]


def test_every_folder_with_a_module_is_a_package(monkeypatch):
    options = given_to_setuptools(monkeypatch)
    assert {file.parent for file in files(options) if file.suffix == ".py"} <= folders(options)


def test_every_data_file_is_packaged(monkeypatch):
    options = given_to_setuptools(monkeypatch)
    packaged = {file for folder in folders(options) for pattern in DATA["*"] for file in folder.glob(pattern)}
    assert {file for file in files(options) if file.suffix != ".py"} == packaged
