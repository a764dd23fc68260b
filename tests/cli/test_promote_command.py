"""`promote` where there is nothing to promote: it says so, and leaves nothing behind."""

import pytest

from rubricworks.tracking import TrackingConfig, connect

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
