"""Photographs, servers, a run through good models and the guide's first run: made once, looked at by several tests."""

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_once import made_once
from own_recipe import FirstRun, Outcome, OwnRun, rubricworks, write_recipe
from page_commands import ROOT, page_steps
from photographs import take_forty, take_photographs
from scripted_server import ScriptedServer
from stub_models import OneModel, StubModels


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


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> FirstRun:
    """Every command of docs/first-run.md in the order of the page, but for the installation."""

    def make(home: Path) -> None:
        take_forty(home / "photos")
        model = OneModel()
        server = ScriptedServer(model)
        outcomes: dict[str, Outcome] = {}
        try:
            for command, _ in page_steps(ROOT / "docs" / "first-run.md"):
                if not command.startswith("rubricworks "):
                    continue
                _, *arguments = shlex.split(command.replace("http://localhost:8000/v1", server.url))
                outcomes[command] = outcome = rubricworks(*arguments, cwd=home)
                assert outcome.code == 0, f"{command}\n{outcome.out}\n{outcome.err}"
        finally:
            server.close()
        (home / "outcomes.json").write_text(json.dumps({"outcomes": outcomes, "prompts": model.prompts}))

    home = made_once(tmp_path_factory, "first_run", make)
    stored = json.loads((home / "outcomes.json").read_text())
    outcomes = {command: Outcome(*outcome) for command, outcome in stored["outcomes"].items()}
    return FirstRun(home, outcomes, stored["prompts"])


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a test without a marker: neither the fast tests nor the end-to-end ones would run it."""
    if not any(item.get_closest_marker(name) for name in ("slow", "long")):
        raise pytest.UsageError(f"{item.nodeid}: mark it slow, or long")
