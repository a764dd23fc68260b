"""A retraining without a champion ends before its world is drawn."""

import pytest

pytest.importorskip("mlflow")


@pytest.fixture(autouse=True)
def _nothing_is_drawn(monkeypatch):
    def draw(*args: object) -> None:
        raise AssertionError("the world is drawn, though there is nothing to retrain")

    monkeypatch.setattr("rubricworks.cli.run.serve_world", draw)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_without_any_registry_it_is_told_and_none_is_made(tell, tmp_path):
    result = tell("run", "retrain-laptop", "--run", "nightly")
    assert result.code == 2
    assert f"error: champion: no champion of 'scene-captioner' in the registry at sqlite:///{tmp_path}" in result.err
    assert not (tmp_path / "runs").exists()
