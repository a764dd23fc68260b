"""Stage 2's table of questions: written before the processes of the training start, shard by shard."""

import json
from pathlib import Path

import pytest
from captioned_squares import squares_table
from coloured_squares import square

from rubricworks.data.manifest import read_manifest
from rubricworks.data.tables import read_rows
from rubricworks.runtime import launch as runtime

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
    config = {"questions": {"source": str(tmp_path / "source" / "questions.jsonl")}, "splits": []}

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
    whole = {path.name: path.read_bytes() for path in table.iterdir() if path.is_file()}
    for name in ("manifest.json", "part-00001.parquet"):
        (table / name).unlink()
    (tmp_path / "source" / "a" / "square.png").unlink()
    tune()
    assert {path.name: path.read_bytes() for path in table.iterdir() if path.is_file()} == whole
