"""Fixtures for every test of something that calls a model."""

import gc
import logging
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import stamina
from hypothesis import settings
from key_search import KEY, VARIABLE, KeySearch
from scripted_server import ScriptedServer
from small_disk import SmallDisk, small_disk

# The same examples in every run, and no time limit; `pytest --hypothesis-profile=search` draws new ones.
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("ci")
pytest.register_assert_rewrite("graded")
pytest_plugins = ["cli_fixtures", "forked_workers", "kfp_callers", "mlflow_tables", "store_fixtures"]


def pytest_configure() -> None:
    """Let Ctrl-C through to the processes that tests start and interrupt.

    A shell that runs the tests in the background has them ignore it, and every child inherits that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what test modules import out of garbage collection.

    Each training asks for a whole collection at its end: half a second among all that a worker imports.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_frozen = 0


def pytest_runtest_logfinish() -> None:
    """Leave out what a test was the first to import, such as Transformers."""
    global _frozen
    if len(sys.modules) > _frozen + 100:
        gc.collect()
        gc.freeze()
        _frozen = len(sys.modules)


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    """Starts scripted servers, which stop with the test."""
    servers: list[ScriptedServer] = []

    def start(script: Any, port: int = 0) -> ScriptedServer:
        servers.append(ScriptedServer(script, port))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def quick_retries() -> Iterator[None]:
    """Three attempts and no waiting between them."""
    stamina.set_testing(True, attempts=3, cap=True)
    yield
    stamina.set_testing(False)


@pytest.fixture
def judge_key(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[KeySearch]:
    """A key in the environment, which at the end must be in no log, output, file, nor in anything that was seen."""
    monkeypatch.setenv(VARIABLE, KEY)
    caplog.set_level(logging.DEBUG)
    search = KeySearch(tmp_path)
    yield search
    records = [record for phase in ("setup", "call") for record in caplog.get_records(phase)]
    assert search.found_in(records, "".join(capfd.readouterr())) == []


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A small disk of its own; skips the test where none can be mounted."""
    with small_disk(tmp_path / "disk") as mounted:
        yield mounted
