import sys

import pytest

from rubricworks.cli.run import own_command


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program in a virtual environment of the current folder, which is not on the path."""
    program = tmp_path / ".venv" / "bin" / "rubricworks"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return program


def test_program_that_the_shell_does_not_find_is_named_by_its_path(program):
    assert own_command() == ".venv/bin/rubricworks"


def test_program_on_the_path_is_named_alone(program, monkeypatch):
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_command() == "rubricworks"


def test_program_that_is_not_installed_as_one_keeps_its_name(program):
    program.unlink()
    assert own_command() == "rubricworks"
