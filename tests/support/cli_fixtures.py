"""The command line in this process: what it prints, and the code it ends with."""

from collections.abc import Callable
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
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Told(ended.value.code or 0, captured.out, captured.err)

    return run
