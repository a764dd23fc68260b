"""Deletion of one source's data: a later search of files, database and MLflow finds nothing of it."""

import json
import sqlite3

import pytest
from pydantic import SecretStr
from served_api import TOKEN, bearer, served, wait_for_rollouts
from trained_run import STAGE, write_run

from rubricworks.cli import main
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.tracking import TrackingConfig, connect, registry
from rubricworks.tracking.identity import mlflow_run, save_settings
from rubricworks.tracking.runlog import PIPELINE

SOURCE = "s3://datasets/customer-7"


def forget(folder, source, *options, capsys):
    with pytest.raises(SystemExit) as end:
        main(["server", "forget", source, "--runs", str(folder), *options])
    return end.value.code, capsys.readouterr()


def track(folder, name, tmp_path):
    """Track a run with an artifact, and register a version; return the connection, both MLflow runs and the version."""
    run = folder / name
    config = TrackingConfig()
    save_settings(config, run)
    connection = connect(config, folder)
    tracked = mlflow_run(connection, run, PIPELINE)
    stage = mlflow_run(connection, run, STAGE)
    connection.client.log_text(stage, f"a caption of {SOURCE} in {name}", "captions.txt")
    model = tmp_path / f"model-{name}"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"of": name}))
    version = registry.register(connection, model, "captioner", run=tracked, tags={"run": name})
    return connection, (tracked, stage), version.version


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = tmp_path / "runs"
    write_run(folder, "of-it", sources={"a": f"{SOURCE}/brick.jpg", "b": "s3://datasets/others/b.jpg"})
    others = {"a": f"{SOURCE}0/brick.jpg", "b": f"{SOURCE}.old/brick.jpg"}
    beside = write_run(folder, "beside-it", sources=others)
    with (beside / "recipe.yaml").open("a") as recipe:
        recipe.write(f"data: {{source: {SOURCE}-b}}\n")
    write_run(folder, "reusing-it")
    (folder / "reusing-it" / "reuse.json").write_text(json.dumps({"runs": ["/elsewhere/of-it"]}))
    return folder


@pytest.mark.slow
def test_nothing_of_a_deleted_source_is_found_and_everything_else_is(folder, tmp_path, capsys):
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
        for run in ("of-it", "beside-it"):
            wait_for_rollouts(url, run, **bearer())
    with sqlite3.connect(folder / "platform.db") as database:
        for number, run in enumerate(("of-it", "beside-it")):
            database.execute(
                "INSERT INTO labels (run, stage, step, sample_id, response, item, criterion, credit, rater, at) "
                "VALUES (?, ?, 1, 'a', 'a star of the customer', ?, 'c', 1, 'ada', '2026-01-01')",
                (run, STAGE, f"{number}"),
            )
            database.execute(
                "INSERT INTO submissions (run, place, state, recipe, overrides, service, submitted_by, submitted_at, "
                "message, page, request) VALUES (?, 'here', 'ended', ?, '[]', 's', 'ada', '2026-01-01', '', '', ?)",
                (run, f"data: {{source: {SOURCE if run == 'of-it' else 'x'}}}", f"{number}"),
            )
    connection, tracked, version = track(folder, "of-it", tmp_path)
    _, others, other_version = track(folder, "beside-it", tmp_path)

    code, printed = forget(folder, SOURCE, "--dry-run", capsys=capsys)
    assert (code, "would delete 2 runs that hold" in printed.out) == (0, True), printed
    assert sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name != "mlruns")[0] == "beside-it"
    assert (folder / "of-it").is_dir()

    code, printed = forget(folder, SOURCE, capsys=capsys)
    report = printed.out
    assert code == 0, printed.err
    assert "deleted of-it: 1 of its samples come from the source" in report
    assert "deleted reusing-it: it takes from of-it" in report
    assert f"deleted version {version} of captioner, from of-it" in report
    assert "deleted 1 rows of the table labels" in report
    assert f"mlflow gc --run-ids {tracked[1]},{tracked[0]}" in report

    assert [name for name in ("of-it", "beside-it", "reusing-it") if (folder / name).exists()] == ["beside-it"]
    with sqlite3.connect(folder / "platform.db") as database:
        dump = "\n".join(database.iterdump())
    assert SOURCE + "/" not in dump
    assert "'of-it'" not in dump
    assert dump.count("a star of the customer") == 1
    left = [path for path in tmp_path.rglob("captions.txt") if "of-it" in path.read_text()]
    assert left == [], "artifacts"
    assert [str(version.version) for version in connection.client.search_model_versions("name = 'captioner'")] == [
        str(other_version)
    ]
    runs_left = {run.info.run_id for run in connection.client.search_runs([connection.experiment_id])}
    assert runs_left == set(others)
    assert "0 runs that hold" in forget(folder, SOURCE, capsys=capsys)[1].out


@pytest.mark.slow
def test_a_champion_that_was_trained_on_it_keeps_everything_until_another_one_is(folder, tmp_path, capsys):
    connection, _, version = track(folder, "of-it", tmp_path)
    registry.promote(connection, "captioner", version, expected=None)
    code, printed = forget(folder, SOURCE, capsys=capsys)
    assert (code, f"version {version} of captioner, the champion" in printed.err) == (2, True), printed
    assert (folder / "of-it").is_dir()


def test_a_source_that_names_too_much_is_refused(folder, capsys):
    code, printed = forget(folder, "/", capsys=capsys)
    assert (code, "too short to name a source" in printed.err) == (2, True)


def test_old_rows_that_nothing_needs_go_and_what_people_made_stays(tmp_path, capsys):
    def prune(*options):
        with pytest.raises(SystemExit):
            main(["server", "prune", "--older-than", "90d", "--runs", str(tmp_path), *options])
        return capsys.readouterr().out.splitlines()

    assert prune() == ["deleted 0 rows"]
    old, new = "2020-01-01 00:00:00.000000", "2999-01-01 00:00:00.000000"
    with sqlite3.connect(tmp_path / "platform.db") as database:
        runs = (
            "INSERT INTO runs (name, state, recipe, pipeline, started, changed, bytes, message, stages, progress, "
            "simulated, fault) VALUES (:name, 'done', '', '', :at, :at, 1, '', '[]', '[]', 0, '')"
        )
        database.execute(runs, {"name": "there", "at": old})
        for run, at in (("there", old), ("gone", old), ("young", new)):
            database.execute(
                "INSERT INTO submissions (run, place, state, recipe, overrides, service, submitted_by, submitted_at, "
                "message, page, request) VALUES (?, 'here', 'ended', '', '[]', 's', 'ada', ?, '', '', ?)",
                (run, at, run),
            )
        for name in ("run:there:1", "run:gone:1", "ci"):
            database.execute(
                "INSERT INTO tokens (name, scope, digest, created_at, created_by, expires_at) "
                "VALUES (?, 'runner', ?, ?, 'ada', ?)",
                (name, name, old, old),
            )
        database.execute(
            "INSERT INTO labels (run, stage, sample_id, response, item, criterion, credit, rater, at) "
            "VALUES ('gone', 's', 'a', 'r', 'i', 'c', 1, 'ada', ?)",
            (old,),
        )
    expected = [f"{{}} 1 rows of the table {table}" for table in ("submissions", "tokens")]
    assert prune("--dry-run") == [line.format("would delete") for line in expected] + ["would delete 2 rows"]
    assert prune() == [line.format("deleted") for line in expected] + ["deleted 2 rows"]
    with sqlite3.connect(tmp_path / "platform.db") as database:
        names = {row[0] for row in database.execute("SELECT run FROM submissions UNION SELECT name FROM tokens")}
        assert names == {"there", "young", "run:there:1", "ci"}
        assert database.execute("SELECT count(*) FROM labels").fetchone() == (1,)


def test_a_run_whose_recipe_alone_names_the_source_goes_too(folder, capsys):
    run = write_run(folder, "began")
    (run / "recipe.yaml").write_text(f"name: began\ndata: {{source: '{SOURCE}/may'}}\n")
    code, printed = forget(folder, f"{SOURCE}/may", "--dry-run", capsys=capsys)
    assert (code, "would delete began: its recipe names the source" in printed.out) == (0, True), printed
    assert "would delete 1 runs" in printed.out
