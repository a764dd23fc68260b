"""The wheel of this checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """Built from a copy: a build leaves folders in its source, and other tests may be reading it."""
    return wheel_of(copy_checkout(folder), folder / "wheel")


def copy_checkout(folder: Path) -> Path:
    source = folder / "source" / "rubricworks"
    everywhere = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")

    def ignored(place: str, names: list[str]) -> set[str]:
        checkout_only = {"runs", "tests", "shared"} if Path(place) == CHECKOUT else set()
        return {*everywhere(place, names), *checkout_only}

    shutil.copytree(CHECKOUT, source, ignore=ignored)
    return source


def wheel_of(source: Path, out: Path) -> Path:
    """Build the wheel of a folder, or of a source distribution."""
    process = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(out), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    (result,) = out.glob("rubricworks-*.whl")
    return result
