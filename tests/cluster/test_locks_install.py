"""The images' locks installed, each in an environment of its own, with the package's wheel; what its programs import.

The trainer's lock is installed without what only CUDA needs: its torch is the one of this environment, for CPUs, and
vLLM with what it brings beyond the tests' own packages is left to tests/vllm_cpu. Downloads are cached by uv.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest
from built_wheel import CHECKOUT, build_wheel

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not importlib.util.find_spec("uv"), reason="no uv here; tests/cluster/install.sh installs it"),
]

CPU_BUILD = ("torch", "torchgen", "functorch")
"""Packages that torch's own wheel holds."""
STAGES_OF = """
import importlib, inspect, re, sys
from rubricworks.runtime.stage_table import STAGES

for stage in STAGES.values():
    if stage.image == sys.argv[1]:
        component = getattr(importlib.import_module(stage.component), stage.id)
        for ours in re.findall(r"(?:from|import) (rubricworks[.\\w]+)", inspect.getsource(component.python_func)):
            importlib.import_module(ours)
        stage.load()
        print(stage.id)
"""
TRAINERS = """
import importlib
for module in ("policy.grpo", "sft", "generate", "lora", "policy.vllm_rollouts", "mlflow_model", "generators.loading"):
    importlib.import_module(f"rubricworks.training.{module}")
import peft, trl
print(trl.GRPOTrainer.__name__, peft.LoraConfig.__name__)
"""
SERVICE = """
from fastapi import FastAPI
from rubricworks.platform_api.app import create_app
print(FastAPI.__name__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def install(wheel, tmp_path):
    """Installs a lock, or some of its packages, as the Dockerfile does: by hash, without dependencies."""

    def install(image: str, *, only: set[str] | None = None) -> Path:
        lock = (CHECKOUT / "docker" / f"requirements-{image}.txt").read_text(encoding="utf-8")
        entries = re.split(r"\n(?=\S)", lock.strip())
        wanted = [entry for entry in entries if only is None or entry.partition("==")[0].partition("[")[0] in only]
        (tmp_path / "lock.txt").write_text("\n".join(wanted) + "\n")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
        python = tmp_path / "venv" / "bin" / "python"
        pip = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python), "--no-deps"]
        for more in (["--require-hashes", "-r", str(tmp_path / "lock.txt")], [str(wheel)]):
            done = subprocess.run([*pip, *more], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return python

    return install


def run(python: Path, *arguments: str, folder: Path) -> str:
    """Without this environment's packages, and away from the checkout."""
    done = subprocess.run([python, "-I", *arguments], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_lock_script_makes_every_line_of_the_locks_of_the_images(tmp_path):
    """From pyproject.toml, constraints.txt and the pins that the locks have; a release may have gained files since."""
    for path in ("pyproject.toml", "constraints.txt", "docker"):
        source = CHECKOUT / path
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / path)
    locks = {path.name: path.read_text() for path in (CHECKOUT / "docker").glob("requirements-*.txt")}
    assert len(locks) == 5
    for name, lock in locks.items():  # uv would keep hashes that a lock has
        (tmp_path / "docker" / name).write_text(re.sub(r" \\\n +--hash=\S+", "", lock))
    done = subprocess.run(
        [tmp_path / "docker" / "lock.sh"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "UV": importlib.import_module("uv").find_uv_bin()},
    )
    assert done.returncode == 0, done.stderr
    for name, lock in locks.items():
        made = (tmp_path / "docker" / name).read_text()
        strip = partial(re.sub, r" \\$", "", flags=re.MULTILINE)
        by_hand = {*strip(lock).splitlines()} - {*strip(made).splitlines()}
        assert by_hand == set(), f"docker/{name}: run `make locks`"
        assert re.findall(r"^\S+==", lock, re.MULTILINE) == re.findall(r"^\S+==", made, re.MULTILINE), name


def test_the_cpu_image_has_all_that_its_stages_import(install, tmp_path):
    python = install("cpu")
    check = [sys.executable, "-m", "uv", "pip", "check", "--python", str(python)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    stages = run(python, "-c", STAGES_OF, "cpu", folder=tmp_path).split()
    assert {"prepare", "caption_committee", "promote", "report", "preflight", "outcome"} <= {*stages}
    assert "quickstart" in run(python, "-m", "rubricworks.cli", "recipes", "list", folder=tmp_path)
    assert run(python, "-c", "import importlib.util as u; print(u.find_spec('torch'))", folder=tmp_path) == "None\n"


def test_the_api_image_has_all_that_the_service_imports(install, tmp_path):
    python = install("api")
    assert run(python, "-c", SERVICE, folder=tmp_path) == "FastAPI\n"
    dockerfile = (CHECKOUT / "docker" / "Dockerfile").read_text()
    commands = re.findall(r'^CMD \["rubricworks", (.*--port.*)\]$', dockerfile, re.MULTILINE)
    (arguments,) = (re.findall(r'"([^"]*)"', command) for command in commands)
    assert "--port" in run(python, "-m", "rubricworks.cli", *arguments, "--help", folder=tmp_path)


def test_the_trainer_image_has_all_that_its_stages_import(install, tmp_path):
    pins = re.findall(r"^([a-z0-9.-]+)(?:\[[^]]*])?==", (CHECKOUT / "constraints.txt").read_text(), re.MULTILINE)
    python = install("trainer", only={*pins} - {"torch"})
    own = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(python.parents[1])}))
    here = Path(sysconfig.get_path("purelib"))
    for name in (*CPU_BUILD, *(path.name for path in here.glob("torch-*.dist-info"))):
        (own / name).symlink_to(here / name)
    stages = run(python, "-c", STAGES_OF, "trainer", folder=tmp_path).split()
    assert {"warm_up", "train_policy", "train_genrm", "score", "check_accelerators"} <= {*stages}
    assert run(python, "-c", TRAINERS, folder=tmp_path) == "GRPOTrainer LoraConfig\n"
