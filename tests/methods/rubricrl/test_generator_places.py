"""Where a generator to train may be: a store or the Hub, besides a folder."""

import json

import pytest
from hub_stand_in import COMMIT, serving

from rubricworks.runtime.launch import launch
from rubricworks.storage import open_bucket

FILES = {"model_index.json": b"{}", "transformer/config.json": b'{"a": 1}', "transformer/w.safetensors": b"weights"}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with serving(FILES, tmp_path, monkeypatch):
        yield f"org/open@{COMMIT}"


def generator_files(tmp_path, generator):
    out = launch("pretrain_generator", json.dumps({"generator": generator}), str(tmp_path / "run"), {})
    model = tmp_path / "run" / "pretrain_generator" / "model"
    assert str(out).endswith("pretrain_generator")
    return {str(file.relative_to(model)): file.read_bytes() for file in model.rglob("*") if file.is_file()}


def test_generator_of_the_hub_is_fetched_at_its_commit(tmp_path, hub):
    assert generator_files(tmp_path, hub) == FILES


def test_generator_of_a_store_is_fetched_whole(tmp_path, bucket, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_WORKSPACE", str(tmp_path / "workspace"))
    for name, content in FILES.items():
        open_bucket(bucket).write(f"models/flux/{name}", content)
    monkeypatch.setenv("RUBRICWORKS_GENERATOR", f"{bucket}/models/flux")
    assert generator_files(tmp_path, "${RUBRICWORKS_GENERATOR}") == FILES
