"""The model registry on a real MLflow: versions of plain folders, and the alias of the promoted one."""

import json
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
    stored = registry.model_files(Path(urlsplit(version.source).path))
    assert {str(path.relative_to(stored)): path.read_text() for path in stored.rglob("*") if path.is_file()} == {
        "config.json": '{"model_type": "x"}',
        "processor/vocab.txt": "red blue",
    }


def test_upload_that_was_cut_off_goes_on_as_the_same_logged_model(model, promoting, monkeypatch):
    connection, run = promoting
    monkeypatch.setattr(connection.client, "finalize_logged_model", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        registry.register(connection, model, "captioner", run=run, tags={})
    monkeypatch.undo()
    version = registry.register(connection, model, "captioner", run=run, tags={})
    experiment = connection.client.get_run(run).info.experiment_id
    (logged,) = connection.client.search_logged_models([experiment])
    assert (version.version, str(logged.status), logged.source_run_id) == (1, "READY", run)
    assert version.source == logged.artifact_location


def test_champion_is_who_was_promoted_last(model, promoting):
    connection, run = promoting
    assert registry.champion(connection, "captioner") is None
    first = registry.register(connection, model, "captioner", run=run, tags={})
    assert registry.champion(connection, "captioner") is None
    registry.promote(connection, "captioner", first.version, expected=None)
    assert registry.previous(connection, "captioner") is None
    (model / "config.json").write_text('{"model_type": "y"}')
    second = registry.register(connection, model, "captioner", run=run, tags={})
    assert registry.champion(connection, "captioner") == first
    registry.promote(connection, "captioner", second.version, expected=first.version)
    assert registry.champion(connection, "captioner") == second
    assert registry.previous(connection, "captioner") == first
    assert (first.version, second.version) == (1, 2)
    assert registry.aliases(connection, "captioner") == {registry.CHAMPION: 2, registry.PREVIOUS: 1}
    assert registry.aliases(connection, "nobody") == {}


def versions(connection, run, model: Path, count: int) -> list[int]:
    numbers = []
    for number in range(count):
        (model / "config.json").write_text(json.dumps({"weights": number}))
        numbers.append(registry.register(connection, model, "captioner", run=run, tags={}).version)
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize(("champion", "expected"), [(None, 1), (2, None), (2, 1), (1, 2)])
def test_a_champion_that_is_not_the_expected_one_stays(model, promoting, champion, expected):
    connection, run = promoting
    assert versions(connection, run, model, 3) == [1, 2, 3]
    if champion:
        registry.promote(connection, "captioner", champion, expected=None)
    registry.nominate(connection, "captioner", 3)
    with pytest.raises(registry.ChampionMoved, match="captioner version 3 is not promoted"):
        registry.promote(connection, "captioner", 3, expected=expected)
    now = registry.champion(connection, "captioner")
    assert (now and now.version) == champion
    assert registry.previous(connection, "captioner") is None
    assert registry.challenger(connection, "captioner").version == 3


def test_a_promotion_that_another_one_overwrites_at_once_is_told_so(model, promoting):
    connection, run = promoting
    versions(connection, run, model, 3)
    registry.promote(connection, "captioner", 1, expected=None)
    write = connection.client.set_registered_model_alias

    def write_and_be_overwritten(name: str, alias: str, version: str) -> None:
        write(name, alias, version)
        if alias == registry.CHAMPION:
            write(name, alias, "3")

    connection.client.set_registered_model_alias = write_and_be_overwritten
    with pytest.raises(registry.ChampionMoved, match="version 3 is the champion now"):
        registry.promote(connection, "captioner", 2, expected=1)


def test_promoting_the_champion_again_changes_nothing(model, promoting):
    connection, run = promoting
    versions(connection, run, model, 2)
    registry.promote(connection, "captioner", 1, expected=None)
    registry.promote(connection, "captioner", 2, expected=1)
    registry.promote(connection, "captioner", 2, expected=1)
    assert registry.champion(connection, "captioner").version == 2
    assert registry.previous(connection, "captioner").version == 1


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
        registry.promote(connection, "captioner", 9, expected=None)


def test_stage_that_several_look_for_at_once_is_made_once(tmp_path, promoting):
    with ThreadPoolExecutor(8) as pool:
        connections = list(pool.map(lambda _: stage_connection(tmp_path / "runs" / "demo", "evaluate")[1], range(16)))
    assert len(set(connections)) == 1


def test_stage_is_the_same_run_whenever_it_is_asked_for(tmp_path, promoting):
    assert stage_connection(tmp_path / "runs" / "demo", "promote")[1] == promoting[1]
    assert stage_connection(tmp_path / "runs" / "demo", "evaluate")[1] != promoting[1]
    assert TrackingConfig().experiment == "rubricworks"
