"""Commands of the docs: a test runs each, from the page or elsewhere; those beside figures run in a small size."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from commands_elsewhere import ELSEWHERE as ELSEWHERE_BY_COMMAND
from commands_elsewhere import place_of
from page_commands import GUIDES, PAGES, page_steps

from rubricworks.cli import cli

ROOT = Path(__file__).parents[1]
FROM_THE_PAGE = {*GUIDES, "docs/first-run.md"}
COMMANDS = [(str(page.relative_to(ROOT)), step.command) for page in PAGES for step in page_steps(page)]
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


def own_words(command: str) -> tuple[click.Command, list[str], list[str]] | None:
    """Command of the command line with its names and its other words; None for another program."""
    program, *words = shlex.split(command)
    if program != "rubricworks":
        return None
    target: click.Command = cli
    names = []
    while isinstance(target, click.Group) and words:
        inner = target.get_command(click.Context(target), words[0])
        if inner is None:
            break
        target, names, words = inner, [*names, words[0]], words[1:]
    return target, names, words


def test_every_command_of_a_page_is_run_from_it_or_by_a_test_that_is_named():
    assert len(COMMANDS) > 150
    nowhere = [(page, command) for page, command in COMMANDS if page not in FROM_THE_PAGE and place_of(command) is None]
    assert nowhere == [], "run its page in tests/e2e/test_guides.py, or name its test in commands_elsewhere"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_are_in_blocks_that_say_so(page):
    """A block without a language is in no test."""
    blocks = re.findall(r"^ *```\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert [block for block in blocks if re.match(r"(\$ )?(export|rubricworks|make|pip|kubectl|helm) ", block)] == []


@pytest.mark.parametrize("beginning", ELSEWHERE_BY_COMMAND)
def test_test_of_a_command_that_runs_elsewhere_has_its_words(beginning):
    reason, place = ELSEWHERE_BY_COMMAND[beginning]
    commands = [
        command for _, command in COMMANDS if place_of(command) == (reason, place) and command.startswith(beginning)
    ]
    assert commands, "no page has it any more"
    assert reason
    if place:
        text = (ROOT / "tests" / place).read_text()
        for command in commands:
            own = own_words(command.rpartition("$(")[0] or command) if command.startswith("rubricworks") else None
            missing = [name for name in (own[1] if own else []) if f'"{name}"' not in text and f"{name}(" not in text]
            assert missing == [], f"{place} does not call {command}"


@pytest.mark.parametrize(("page", "command"), [(page, c) for page, c in COMMANDS if c.startswith("rubricworks ")])
def test_words_of_a_command_are_those_of_the_command_line(page, command):
    """Also of those that are not run from their page."""
    target, _, words = own_words(command.partition(" > ")[0])
    assert not isinstance(target, click.Group) or target.invoke_without_command, command
    target.make_parser(click.Context(target)).parse_args(words)
