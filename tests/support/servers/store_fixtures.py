"""A store for the tests of S3: one server for all, a bucket and a line of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import object_store
import pytest
import stamina
from object_store import Line


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """Ten attempts, and no pauses between them."""
    stamina.set_testing(True, attempts=10)
    yield
    stamina.set_testing(False)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with object_store.rclone_server(tmp_path_factory.mktemp("store") / "buckets") as endpoint:
        yield endpoint


@pytest.fixture
def line(no_waiting: None, store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """The way to the store; the environment leads there."""
    line = Line(store)
    for name, value in object_store.environment(line.url).items():
        monkeypatch.setenv(name, value)
    yield line
    line.close()


@pytest.fixture
def bucket(store: str, line: Line) -> str:
    """The URI of an empty bucket."""
    return object_store.make_bucket(store)


@pytest.fixture
def run(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a run, worked on in a workspace that the test may lose."""
    monkeypatch.setenv("RUBRICWORKS_WORKSPACE", str(tmp_path / "workspace"))
    monkeypatch.setenv("RUBRICWORKS_PUSH_SECONDS", "3600")
    return f"{bucket}/runs/one"
