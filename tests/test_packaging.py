"""What stands in the checkout is in the wheel: every module, and every file that is read as data."""

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


def folders(given: dict) -> set[Path]:
    """The folder of each package: that of its nearest parent with a place of its own, and the rest below it."""
    found = set()
    for package in given["packages"]:
        parts = package.split(".")
        nearest = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in given["package_dir"])
        found.add((ROOT / given["package_dir"][".".join(parts[:nearest])]).joinpath(*parts[nearest:]))
    return found


def files(given: dict) -> list[Path]:
    roots = [ROOT / folder for folder in given["package_dir"].values()]
    found = [file for root in roots for file in root.rglob("*") if file.is_file()]
    return [file for file in found if "__pycache__" not in file.parts]


def test_every_folder_with_a_module_is_a_package(monkeypatch):
    given = given_to_setuptools(monkeypatch)
    assert {file.parent for file in files(given) if file.suffix == ".py"} <= folders(given)


def test_every_data_file_is_packaged(monkeypatch):
    given = given_to_setuptools(monkeypatch)
    packaged = {file for folder in folders(given) for pattern in DATA["*"] for file in folder.glob(pattern)}
    assert {file for file in files(given) if file.suffix != ".py"} == packaged
