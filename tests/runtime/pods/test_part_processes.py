"""A stage that draws responses, on a machine with several accelerators: a process for each, here on the CPU."""

import json
from pathlib import Path

import pytest
from drawing_stages import drawing_stage

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.llm.spending import read_spending
from rubricworks.runtime.launch import launch
from rubricworks.runtime.pods.part_processes import parts_here


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def draw(run: Path, stage: str, config: dict, inputs: dict[str, str]) -> Path:
    return Path(launch(stage, json.dumps(config), str(run), inputs))


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["offline_filter", "genrm_data"])
def test_two_processes_write_the_bytes_of_one(tmp_path, serve, monkeypatch, caplog, on_cpu, stage):
    config, inputs = drawing_stage(tmp_path, serve, stage)
    expected = draw(tmp_path / "one", stage, config, inputs)
    monkeypatch.setenv("RUBRICWORKS_ACCELERATORS", "2")

    def refuse(*_, **__):
        raise AssertionError("the process that merges the parts loads no model")

    monkeypatch.setattr("rubricworks.training.engine.load_engine", refuse)
    out = draw(tmp_path / "two", stage, config, inputs)
    assert files(out) == files(expected)
    assert len(list(read_rows(out))) > 4
    calls = [
        sum(row["calls"] for row in read_spending(run / "spending.sqlite")) for run in (expected.parent, out.parent)
    ]
    assert calls[0] == calls[1]
    assert not list((out.parent / "parts").rglob("*.parquet"))


@pytest.mark.slow
def test_what_a_part_refuses_is_the_error_of_the_stage(tmp_path, serve, monkeypatch, on_cpu):
    config, inputs = drawing_stage(tmp_path, serve, "offline_filter")
    (Path(inputs["model"]) / "model" / "model.safetensors").write_bytes(b"no weights")
    monkeypatch.setenv("RUBRICWORKS_ACCELERATORS", "2")
    with pytest.raises(UserError, match=r"^cannot load the model .*/warm_up/model: Error while deserializing header"):
        draw(tmp_path / "run", "offline_filter", config, inputs)
    error = json.loads((tmp_path / "run" / "error.json").read_text())
    assert (error["stage"], "traceback" in error) == ("offline_filter", False)


@pytest.mark.parametrize(
    ("accelerators", "each", "count"), [("8", 1, 8), ("8", 4, 2), ("4", 4, 1), ("1", 1, 1), ("", 1, 1)]
)
def test_accelerators_are_divided_among_engines(monkeypatch, accelerators, each, count):
    monkeypatch.setenv("RUBRICWORKS_ACCELERATORS", accelerators)
    assert parts_here("offline_filter", each) == count


def test_engines_that_leave_an_accelerator_idle_are_refused(monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_ACCELERATORS", "8")
    with pytest.raises(UserError, match=r"^offline_filter: 8 accelerators cannot be divided among engines of 3 each"):
        parts_here("offline_filter", 3)
