"""`make smoke` has a minute of every recipe for laptops; what needs the demo's champion says so where there is none."""

import shutil
import subprocess
from pathlib import Path

import pytest

from rubricworks.runtime.config import canonical_json

ROOT = Path(__file__).parents[1]


@pytest.fixture
def smoke(tmp_path):
    """Runs the target in an empty folder with a Python that only says what it was asked; returns what was said."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "asked: $*"\n')
    python.chmod(0o755)
    for name in ("pyproject.toml", "constraints.txt", ".venv/installed"):
        (tmp_path / name).touch()

    def run() -> str:
        return subprocess.run(["make", "smoke"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    return run


def write_promotion(folder: Path, promoted: bool) -> None:
    (folder / "promote").mkdir(parents=True)
    promotion = {
        "model_name": "scene-captioner",
        "version": "1",
        "passed": promoted,
        "promoted": promoted,
        "reasons": [],
    }
    (folder / "promote" / "promotion.json").write_text(canonical_json(promotion))


def commands_of(output: str) -> set[str]:
    return {line.split()[4] for line in output.splitlines() if line.startswith("asked: -m rubricworks.cli run ")}


def laptop_recipes() -> set[str]:
    """Recipes for laptops that bring their own data and models."""
    paths = (ROOT / "recipes").glob("*-laptop.yaml")
    return {path.stem for path in paths if "\nworld:" in path.read_text()}


def test_every_recipe_for_laptops_has_its_minute(smoke, tmp_path):
    write_promotion(tmp_path / "runs" / "quickstart-1", True)
    assert commands_of(smoke()) == laptop_recipes()


def test_without_a_champion_it_is_said_that_there_is_nothing_to_retrain(smoke, tmp_path):
    write_promotion(tmp_path / "runs" / "quickstart-1", False)
    output = smoke()
    assert commands_of(output) == laptop_recipes() - {"retrain-laptop"}
    assert "retrain-laptop: left out, for there is no champion to retrain; make demo makes one" in output
