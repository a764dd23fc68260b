"""The wheel, installed away from the checkout, holds all that a run needs."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from built_wheel import CHECKOUT, build_wheel, copy_checkout, wheel_of
from tiny_run import TINY, Run, settings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def place(wheel, tmp_path_factory) -> Path:
    """An environment with this one's dependencies and, in place of its rubricworks, the wheel's."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    paths = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=paths))
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), str(wheel)],
        check=True,
    )
    # Lines of a .pth are folders; unlike a site folder, theirs are not read for editable installs.
    (packages / "dependencies.pth").write_text(
        "\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    )
    return environment


def test_everything_that_is_not_code_is_in_the_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    of_checkout = [
        *(f"rubricworks/recipes/{file.name}" for file in (CHECKOUT / "recipes").glob("*.yaml")),
        *(f"rubricworks/{file.relative_to(CHECKOUT)}" for file in CHECKOUT.glob("components/*.py")),
        *(f"rubricworks/pipelines/{file.name}" for file in (CHECKOUT / "pipelines").glob("*.py")),
        *(
            str(file.relative_to(CHECKOUT))
            for file in (CHECKOUT / "rubricworks").rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
        ),
    ]
    assert "rubricworks/recipes/quickstart.yaml" in of_checkout
    assert [name for name in of_checkout if name not in names] == []
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "recipes/", "components/"))]


def test_source_distribution_makes_the_same_wheel(wheel, tmp_path):
    source = copy_checkout(tmp_path)
    command = [
        sys.executable,
        "-m",
        "build",
        "--sdist",
        "--no-isolation",
        "--outdir",
        str(tmp_path / "dist"),
        str(source),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (archive,) = (tmp_path / "dist").glob("rubricworks-*.tar.gz")
    from_archive = wheel_of(archive, tmp_path / "wheel")
    assert from_archive.name == wheel.name
    contents = [
        {info.filename: info.CRC for info in zipfile.ZipFile(path).infolist() if ".dist-info/" not in info.filename}
        for path in (wheel, from_archive)
    ]
    assert contents[1] == contents[0]


def test_the_installed_wheel_runs_a_recipe_from_another_folder(place, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = str(place / "bin" / "python")
    where = subprocess.run(
        [
            python,
            "-c",
            "import rubricworks.pipelines, sys; print(*rubricworks.pipelines.__path__, *sys.path, sep='\\n')",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert Path(where[0]).is_relative_to(place)
    assert str(CHECKOUT) not in where[1:]

    command = [python, "-m", "rubricworks.cli"]
    small = settings({**TINY, "policy.algorithm.steps": 2})
    run = Run(tmp_path / "runs", "quickstart", *small, "--run", "wheel", command=command, cwd=tmp_path)
    run.finish()
    assert (tmp_path / "runs" / "wheel" / "report.html").stat().st_size > 10_000
