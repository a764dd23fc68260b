"""Commands named in docs beside figures: each is known here, and each runs in a small size (`make test-long`)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMALL = {
    "attacks": [],
    "behavioural_policy": ["--seeds", "2", "--steps", "4"],
    "diffusion_step": ["--steps", "2"],
    "grading": ["--quick", "--rounds", "1"],
    "hacking_alarm": ["1", "1", "--jobs", "1"],
    "hostile": ["--threads", "2", "--number", "8"],
    "image_grading": ["--quick", "--rounds", "1"],
    "judge_overlap": ["--steps", "24", "--delay", "0.01"],
    "judge_trust": ["4", "11", "12"],
    "recaption": ["--images", "60", "--kills", "1"],
    "reward_path": [],
    "rubric_audit": ["8", "11"],
    "verifiers": ["--quick", "--rounds", "1"],
}
"""Module of `benchmarks` → arguments of its small size."""
WITH_RUNS = {
    "coverage": "an hour of trainings: its one arm of two steps, and the tables of it, are run below",
    "policy_aware": "hours of trainings: the same",
    "rollout_labels": "the same",
}
ELSEWHERE = {
    "api": "asks the Postgres and Ceph of `make test-cluster`",
    "rollout_search": "writes a million rollouts to disk",
    "colocate": "asks vLLM's environment of `make test-vllm`",
}


def targets() -> dict[str, str]:
    """Target of the Makefile → its lines."""
    blocks = re.split(r"^(?=[a-z-]+(?: [a-z-]+)*:)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    return {block.partition(":")[0]: block for block in blocks}


def named_modules() -> set[str]:
    """Modules of `benchmarks` that docs name, by themselves or by a target of the Makefile."""
    pages = "\n".join(path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")])
    lines = targets()
    modules = {*re.findall(r"python -m benchmarks\.(\w+)", pages)}
    for target in re.findall(r"make ([a-z]+(?:-[a-z]+)*)", pages):
        modules |= {*re.findall(r"\bbenchmarks\.(\w+)", lines.get(target, ""))}
    return modules


def run(module: str, arguments: list[str], folder: Path) -> str:
    paths = re.search(rf"PYTHONPATH=(\S+) \$\(RUN\) benchmarks\.{module}\b", (ROOT / "Makefile").read_text())
    extra = [str(ROOT / path) for path in paths[1].split(":")] if paths else []
    path = os.pathsep.join([*extra, str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"benchmarks.{module}: {done.stderr[-3000:]}"
    assert done.stdout.strip(), f"benchmarks.{module} printed nothing"
    return done.stdout


def test_every_benchmark_that_docs_name_is_run_by_a_test_or_says_where_it_runs():
    named = named_modules()
    assert "judge_trust" in named, "of `make bench-judge-trust` in docs/judge-trust.md"
    assert named <= {*SMALL, *WITH_RUNS, *ELSEWHERE}
    assert {*SMALL, *WITH_RUNS, *ELSEWHERE} <= {path.stem for path in ROOT.glob("benchmarks/*.py")}


@pytest.mark.long
@pytest.mark.parametrize("module", SMALL)
def test_command_beside_a_figure_runs_in_a_small_size(module, tmp_path):
    run(module, SMALL[module], tmp_path)


@pytest.mark.long
def test_tables_of_trainings_are_made_from_a_run_of_two_steps(tmp_path):
    table = run("coverage", ["--steps", "2", "--arms", "0", "--runs", str(tmp_path / "coverage")], tmp_path)
    assert "| discriminative | no guards | sampled | strict | 1 |" in table
    (tmp_path / "seed-1").symlink_to(tmp_path / "coverage" / "seed1-arm0-2")
    assert "| own | 1 |" in run("policy_aware", [str(tmp_path)], tmp_path)
    assert "," in run("rollout_labels", [str(tmp_path / "seed-1"), "10"], tmp_path)
