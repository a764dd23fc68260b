"""The command line in this process: what it prints, and the code it ends with."""

import logging
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple

import pytest

from rubricworks.cli import main


class Told(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def tell(capsys, monkeypatch, tmp_path) -> Callable[..., Told]:
    """Runs a command in a fresh working folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Told:
        with pytest.raises(SystemExit) as ended:
            _main(arguments)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Told(ended.value.code or 0, captured.out, captured.err)

    return run


def run_cli(*arguments: object) -> Told:
    """Run a command in this folder; for fixtures of a whole module, where there is no capsys."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, pytest.raises(SystemExit) as ended:
        _main(arguments)
    assert "Traceback" not in out.getvalue() + err.getvalue()
    return Told(ended.value.code or 0, out.getvalue(), err.getvalue())


def _main(arguments: tuple[object, ...]) -> None:
    try:
        main([str(argument) for argument in arguments])
    finally:  # a process would end here, and with it the log lines' way to this command's standard error
        logging.getLogger("rubricworks").handlers.clear()
