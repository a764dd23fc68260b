"""Environments of benchmark programs, made without an index: what pip is asked for, and when it is asked again."""

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from rubricworks.evaluation.suites.harness import Harness


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Packages of each call of pip."""
    calls = []

    def run(command, **_):
        if "venv" in command:
            Path(command[-1]).mkdir(parents=True, exist_ok=True)
        elif "pip" in command:
            calls.append(command[command.index("--disable-pip-version-check") + 1 :])
        return CompletedProcess(command, 0, stdout=str(tmp_path), stderr="")

    monkeypatch.setattr("rubricworks.evaluation.suites.harness.subprocess.run", run)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PROGRAM", raising=False)
    return calls


def test_an_environment_gets_what_its_program_lacks_and_is_made_once(installed):
    program = Harness("program", "1.2.3", "PROGRAM", ("filelock<4",))
    assert program.python() == program.python()
    assert installed == [["program==1.2.3", "filelock<4"]]


def test_replacements_are_installed_over_what_pip_chose(installed):
    Harness("program", "1.2.3", "PROGRAM", (), ("math-verify==0.8.0",)).python()
    assert installed == [["program==1.2.3"], ["--no-deps", "math-verify==0.8.0"]]


def test_an_environment_of_other_constraints_is_made_anew(installed):
    Harness("program", "1.2.3", "PROGRAM").python()
    Harness("program", "1.2.3", "PROGRAM", ("filelock<4",)).python()
    assert installed == [["program==1.2.3"], ["program==1.2.3", "filelock<4"]]
