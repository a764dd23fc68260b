"""One folder of photographs, one server, one run through good models: made once, looked at by several tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from own_recipe import OwnRun, rubricworks, write_recipe
from photographs import take_photographs
from scripted_server import ScriptedServer
from stub_models import StubModels


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return take_photographs(tmp_path_factory.mktemp("own") / "photographs")


@pytest.fixture(scope="session")
def stub() -> Iterator[tuple[ScriptedServer, StubModels]]:
    models = StubModels()
    server = ScriptedServer(models)
    yield server, models
    server.close()


@pytest.fixture(scope="session")
def own_run(
    tmp_path_factory: pytest.TempPathFactory, photographs: Path, stub: tuple[ScriptedServer, StubModels]
) -> OwnRun:
    server, models = stub
    home = tmp_path_factory.mktemp("home")
    recipe = write_recipe(home / "my.yaml", photographs, server.url)
    folder = home / "runs" / "mine"
    models.judge_answers = "Honestly, this caption reads rather well to me."
    failed = rubricworks("run", recipe, "--run", "mine", cwd=home)
    shards = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("part-*.parquet"))}
    models.judge_answers = None
    finished = rubricworks("run", "--resume", "mine", cwd=home)
    return OwnRun(folder, failed, shards, finished)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a test without a marker: neither the fast tests nor the end-to-end ones would run it."""
    if not any(item.get_closest_marker(name) for name in ("e2e", "long")):
        raise pytest.UsageError(f"{item.nodeid}: mark it e2e, or long")
