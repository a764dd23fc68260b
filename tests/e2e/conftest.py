"""One folder of photographs, one server, one run through good models: made once, looked at by several tests."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_once import made_once
from own_recipe import Outcome, OwnRun, rubricworks, write_recipe
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
def own_run(tmp_path_factory: pytest.TempPathFactory, photographs: Path) -> OwnRun:
    def make(home: Path) -> None:
        models = StubModels()
        server = ScriptedServer(models)
        recipe = write_recipe(home / "my.yaml", photographs, server.url)
        models.judge_answers = "Honestly, this caption reads rather well to me."
        failed = rubricworks("run", recipe, "--run", "mine", cwd=home)
        shutil.copytree(home / "runs" / "mine", home / "failed")
        models.judge_answers = None
        finished = rubricworks("run", "--resume", "mine", cwd=home)
        (home / "outcomes.json").write_text(json.dumps([failed, finished]))
        server.close()

    home = made_once(tmp_path_factory, "own_run", make)
    failed, finished = (Outcome(*outcome) for outcome in json.loads((home / "outcomes.json").read_text()))
    before = home / "failed"
    shards = {str(path.relative_to(before)): path.read_bytes() for path in sorted(before.rglob("part-*.parquet"))}
    return OwnRun(home / "runs" / "mine", failed, shards, finished)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a test without a marker: neither the fast tests nor the end-to-end ones would run it."""
    if not any(item.get_closest_marker(name) for name in ("slow", "long")):
        raise pytest.UsageError(f"{item.nodeid}: mark it slow, or long")
