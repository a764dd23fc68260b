"""The model registry on a real MLflow: versions of plain folders, and the alias of the promoted one."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rubricworks.errors import UserError
from rubricworks.tracking import TrackingConfig, registry, stage_connection

pytest.importorskip("mlflow")


@pytest.fixture
def model(tmp_path) -> Path:
    folder = tmp_path / "model"
    (folder / "processor").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "x"}')
    (folder / "processor" / "vocab.txt").write_text("red blue")
    return folder


@pytest.fixture
def promoting(tmp_path, monkeypatch):
    """Connection and run id of the stage that promotes."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    return stage_connection(tmp_path / "runs" / "demo", "promote")


def test_registered_folder_is_stored_whole_with_its_tags(model, promoting):
    connection, run = promoting
    version = registry.register(connection, model, "captioner", run=run, tags={"data": "d1", "win_rate": 0.8})
    assert (version.version, version.run) == (1, run)
    assert version.tags.items() >= {"data": "d1", "win_rate": "0.8"}.items()
    stored = Path(urlsplit(version.source).path)
    assert {str(path.relative_to(stored)): path.read_text() for path in stored.rglob("*") if path.is_file()} == {
        "config.json": '{"model_type": "x"}',
        "processor/vocab.txt": "red blue",
    }


def test_champion_is_who_was_promoted_last(model, promoting):
    connection, run = promoting
    assert registry.champion(connection, "captioner") is None
    first = registry.register(connection, model, "captioner", run=run, tags={})
    assert registry.champion(connection, "captioner") is None
    registry.promote(connection, "captioner", first.version)
    (model / "config.json").write_text('{"model_type": "y"}')
    second = registry.register(connection, model, "captioner", run=run, tags={})
    assert registry.champion(connection, "captioner") == first
    registry.promote(connection, "captioner", second.version)
    assert registry.champion(connection, "captioner") == second
    assert (first.version, second.version) == (1, 2)


def test_registering_the_same_folder_of_the_same_run_again_makes_no_new_version(model, promoting):
    connection, run = promoting
    once = registry.register(connection, model, "captioner", run=run, tags={"data": "d1"})
    assert registry.register(connection, model, "captioner", run=run, tags={"data": "d1"}) == once


def test_missing_model_and_unknown_version_are_user_errors(tmp_path, model, promoting):
    connection, run = promoting
    with pytest.raises(UserError, match="no model here"):
        registry.register(connection, tmp_path / "nowhere", "captioner", run=run, tags={})
    registry.register(connection, model, "captioner", run=run, tags={})
    with pytest.raises(UserError, match="MLflow at sqlite"):
        registry.promote(connection, "captioner", 9)


def test_stage_that_several_look_for_at_once_is_made_once(tmp_path, promoting):
    with ThreadPoolExecutor(8) as pool:
        connections = list(pool.map(lambda _: stage_connection(tmp_path / "runs" / "demo", "evaluate")[1], range(16)))
    assert len(set(connections)) == 1


def test_stage_is_the_same_run_whenever_it_is_asked_for(tmp_path, promoting):
    assert stage_connection(tmp_path / "runs" / "demo", "promote")[1] == promoting[1]
    assert stage_connection(tmp_path / "runs" / "demo", "evaluate")[1] != promoting[1]
    assert TrackingConfig().experiment == "rubricworks"
