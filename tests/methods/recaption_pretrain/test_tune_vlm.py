"""Stage 2's table of examples: written before the processes of the training start, shard by shard; its training."""

import json
from pathlib import Path

import pytest
import torch
from captioned_squares import squares_table
from coloured_squares import square
from safetensors.torch import load_file

from rubricworks.data.manifest import read_manifest
from rubricworks.data.tables import read_rows
from rubricworks.runtime import launch as runtime
from rubricworks.training.config import TinyLlavaConfig
from rubricworks.training.llava.assembly import build_tiny_llava

_SHARD = 1_024


class Started(Exception):
    pass


@pytest.fixture
def tune(tmp_path, monkeypatch):
    """Run `tune_vlm` with two processes up to their start; return the folder of the table."""
    samples = squares_table(tmp_path / "made")
    for folder, colour in (("a", "red"), ("b", "blue")):
        (tmp_path / "source" / folder).mkdir(parents=True)
        (tmp_path / "source" / folder / "square.png").write_bytes(square("top-left", colour))
    lines = [
        json.dumps({"image": f"{'a' if at < _SHARD else 'b'}/square.png", "question": f"which ? {at}", "answer": "red"})
        for at in range(_SHARD + 3)
    ]
    (tmp_path / "source" / "questions.jsonl").write_text("\n".join(lines))
    monkeypatch.setenv("RUBRICWORKS_ACCELERATORS", "2")
    table = tmp_path / "run" / "scratch" / "tune_vlm" / "questions"

    def start(count, work):
        assert read_manifest(table).rows == _SHARD + 3, "the processes wait for the table"
        raise Started

    monkeypatch.setattr(runtime, "run_processes", start)
    source = str(tmp_path / "source" / "questions.jsonl")
    config = {"examples": {"type": "questions", "source": source, "splits": []}}

    def run() -> Path:
        with pytest.raises(Started):
            runtime.launch("tune_vlm", json.dumps(config), str(tmp_path / "run"), {"samples": samples})
        return table

    return run


def test_table_of_questions_is_whole_before_the_processes_start(tune):
    rows = list(read_rows(tune(), columns=["sample_id", "answer"]))
    assert [row["sample_id"] for row in rows] == [f"question-{number}" for number in range(_SHARD + 3)]


def test_killed_table_of_questions_resumes_without_reading_its_first_pictures(tune, tmp_path):
    table = tune()
    whole = {path.name: path.read_bytes() for path in table.rglob("*") if path.is_file()}
    for name in (".manifest.json", "samples/part-00001.parquet"):
        (table / name).unlink()
    (tmp_path / "source" / "a" / "square.png").unlink()
    tune()
    assert {path.name: path.read_bytes() for path in table.rglob("*") if path.is_file()} == whole


@pytest.mark.slow
def test_instructions_of_any_form_train_the_model_and_odd_rows_are_rejected(tmp_path):
    def turns(*texts: str) -> list[dict[str, str]]:
        return [{"from": ("human", "gpt")[at % 2], "value": text} for at, text in enumerate(texts)]

    source = tmp_path / "source"
    source.mkdir()
    for colour in ("red", "blue"):
        (source / f"{colour}.png").write_bytes(square("top-left", colour))
    rows = [
        {"image": "red.png", "conversations": turns("<image>\nwhich colour ? A red B blue", "A", "sure ?", "yes")},
        {"image": ["red.png", "blue.png"], "conversations": turns("<image>\n<image>\nwhich is red ?", "first")},
        *({"conversations": turns("name a colour", colour)} for colour in ("red", "blue", "red", "blue")),
        {"image": "lost.png", "conversations": turns("<image>\nwhich colour ?", "red")},
    ]
    (source / "instructions.json").write_text(json.dumps(rows))
    words = ["which colour ? A red B blue sure yes is first name a"]
    shape = TinyLlavaConfig(hidden=16, layers=1, heads=2, intermediate=32, vision_hidden=16, vision_heads=2)
    images = [square("top-left", "red")]
    start = build_tiny_llava(words, tmp_path / "start" / "model", config=shape, images=images, seed=1)
    (start.parent / "done.json").write_text('{"digest": "untrained"}')
    samples = squares_table(tmp_path / "made")
    config = {
        "examples": {"type": "instructions", "source": str(source / "instructions.json")},
        # Two examples a pass: some passes have no image.
        "sft": {"steps": 12, "batch_size": 6, "optimizer": {"learning_rate": 1e-2, "rows_per_pass": 2}},
    }
    inputs = {"samples": samples, "model": str(start.parent)}
    out = Path(runtime.launch("tune_vlm", json.dumps(config), str(tmp_path / "run"), inputs))
    before, after = (load_file(folder / "model" / "model.safetensors") for folder in (start.parent, out))
    assert not any(torch.equal(after[name], before[name]) for name in before if name.endswith("q_proj.weight"))
    table = tmp_path / "run" / "scratch" / "tune_vlm" / "instructions"
    assert [json.loads(row["messages"])[0]["content"][-1]["text"] for row in read_rows(table)][:3] == [
        "which colour ? A red B blue", "which is red ?", "name a colour",
    ]  # fmt: skip
    (rejected,) = read_rows(table / "rejected")
    assert (rejected["source"].rsplit(": ")[-1], rejected["reason"]) == (
        "object 7", "cannot be read: No such file or directory",
    )  # fmt: skip
    ledger = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    assert (ledger[-1]["examples"], ledger[-1]["rejected"]) == (6, 1)
