"""`promote` where there is nothing to promote, or the champion already: it says so, and leaves nothing behind."""

import pytest

from rubricworks.tracking import TrackingConfig, connect, registry

pytest.importorskip("mlflow")


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ([], "runs/mlflow.db"),
        (["captioner", "--runs", "typo"], "typo/mlflow.db"),
        (["captioner", "--runs", "s3://bucket/typo"], "workspace/bucket/typo/mlflow.db"),
        (["captioner", "--tracking", "sqlite:///typo.db"], "typo.db"),
    ],
)
def test_a_registry_that_is_not_there_is_refused_and_not_made(tell, tmp_path, monkeypatch, options, name):
    monkeypatch.setenv("RUBRICWORKS_WORKSPACE", str(tmp_path / "workspace"))
    result = tell("promote", *options)
    assert (result.code, result.out) == (2, "")
    assert f"{tmp_path / name}: no such file, so no model is registered; name the folder of all runs" in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_registry_without_models_is_told_of_as_one(tell, tmp_path):
    connect(TrackingConfig(), tmp_path / "runs")
    result = tell("promote")
    assert (result.code, result.out) == (
        0,
        f"no models are registered at sqlite:///{tmp_path / 'runs' / 'mlflow.db'}\n",
    )


@pytest.mark.slow
def test_a_version_that_is_the_champion_already_is_reported_as_that(tell, tmp_path):
    connection = connect(TrackingConfig(), tmp_path / "runs")
    connection.client.create_registered_model("captioner")
    for _ in range(2):
        connection.client.create_model_version("captioner", source=str(tmp_path))
    registry.promote(connection, "captioner", 1, expected=None)
    for options, told in (
        (["--version", "1"], "captioner version 1 is the champion already\n"),
        ([], "captioner version 1 is the champion already, and no challenger waits\n"),
    ):
        result = tell("promote", "captioner", *options)
        assert (result.code, result.out) == (0, told)
    assert "does not wait for approval" in tell("promote", "captioner", "--version", "2").err
