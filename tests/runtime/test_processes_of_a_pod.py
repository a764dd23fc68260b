"""A training stage on a pod with several accelerators: one process for each, here on the CPU, and one stage."""

import json
from pathlib import Path

import pytest
import torch
from captioned_squares import squares_table
from safetensors.torch import load_file

from rubricworks.errors import UserError
from rubricworks.runtime.launch import launch
from rubricworks.runtime.pods.processes import processes_here

SHAPE = {"hidden": 32, "layers": 1, "heads": 2, "intermediate": 64, "vision_hidden": 16, "vision_heads": 2, "patch": 8}
SHAPE |= {"image_side": 32}
SFT = {"steps": 4, "batch_size": 2, "optimizer": {"learning_rate": 1e-2}, "save_every": 2, "log_every": 1}


@pytest.fixture
def two_processes(monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_ACCELERATORS", "2")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "false")


def warm_up(run: Path, samples: str, **sft: int) -> Path:
    config = {"student": "tiny", "tiny": SHAPE, "sft": SFT | sft}
    return Path(launch("warm_up", json.dumps(config), str(run), {"samples": samples}))


@pytest.mark.parametrize(("stage", "accelerators", "count"), [("warm_up", "8", 8), ("train_genrm", "2", 2)])
def test_a_training_stage_has_a_process_for_each_accelerator(monkeypatch, stage, accelerators, count):
    monkeypatch.setenv("RUBRICWORKS_ACCELERATORS", accelerators)
    assert processes_here(stage) == count
    monkeypatch.setenv("WORLD_SIZE", accelerators)
    assert processes_here(stage) == 0  # torchrun's processes start no more


@pytest.mark.parametrize(("stage", "accelerators"), [("warm_up", "1"), ("warm_up", ""), ("caption_student", "8")])
def test_other_stages_and_single_accelerators_run_as_one_process(monkeypatch, stage, accelerators):
    monkeypatch.setenv("RUBRICWORKS_ACCELERATORS", accelerators)
    assert processes_here(stage) == 0


@pytest.mark.slow
def test_two_processes_make_the_stage_that_one_makes(tmp_path, two_processes, monkeypatch):
    samples = squares_table(tmp_path / "made")
    out = warm_up(tmp_path / "two", samples)
    (line,) = [json.loads(text) for text in (out.parent / "ledger.jsonl").read_text().splitlines()]
    assert (line["stage"], line["steps"]) == ("warm_up", SFT["steps"])
    assert not (out.parent / "error.json").exists()
    state = json.loads((out / "checkpoint-4" / "trainer_state.json").read_text())
    assert state["train_batch_size"] == SFT["batch_size"] // 2
    monkeypatch.delenv("RUBRICWORKS_ACCELERATORS")
    whole = warm_up(tmp_path / "one", samples)
    expected, actual = (load_file(folder / "model" / "model.safetensors") for folder in (whole, out))
    assert expected.keys() == actual.keys()
    for name, weights in expected.items():
        torch.testing.assert_close(actual[name], weights, rtol=0, atol=1e-5, msg=name)


@pytest.mark.long
def test_what_a_process_refuses_is_the_stages_error(tmp_path, two_processes):
    with pytest.raises(UserError, match=r"^batch_size 3 does not divide over 2 processes; make it a multiple"):
        warm_up(tmp_path / "run", squares_table(tmp_path / "made"), batch_size=3)
    error = json.loads((tmp_path / "run" / "error.json").read_text())
    assert (error["stage"], "traceback" in error) == ("warm_up", False)
