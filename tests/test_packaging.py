"""The wheel contains every module of the checkout and every file that is read as data."""

import re
import runpy
import tomllib
from importlib import metadata
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rubricworks import __version__

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


def test_chart_and_the_images_that_pages_name_have_the_version_of_the_package():
    chart = yaml.safe_load((ROOT / "charts" / "rubricworks" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    files = [*ROOT.glob("recipes/*.yaml"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    tags = {
        tag
        for file in files
        for tag in re.findall(r"rubricworks/(?:cpu|trainer|vllm|api):([\d.]+\d)", file.read_text())
    }
    assert tags == {__version__}
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("extra", ["demo", "dev"])
def test_installation_announces_about_as_many_packages_as_an_extra_has(extra):
    announced = runpy.run_path(str(ROOT / "install.py"))["PACKAGES"][extra]
    assert len(closure("rubricworks", extra)) == pytest.approx(announced, abs=6)


def closure(package: str, *extras: str) -> set[str]:
    """Packages that one requires with its extras, as they are installed here."""
    todo, packages = [(package, frozenset(extras))], {}
    while todo:
        name, wanted = todo.pop()
        if wanted <= packages.get(name, frozenset()) and name in packages:
            continue
        packages[name] = packages.get(name, frozenset()) | wanted
        for text in metadata.requires(name) or ():
            requirement = Requirement(text)
            environments = [{"extra": extra} for extra in packages[name]] or [{"extra": ""}]
            if requirement.marker is None or any(requirement.marker.evaluate(given) for given in environments):
                todo.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return set(packages)
