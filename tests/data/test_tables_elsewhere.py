"""Tables of runs opened by other libraries, and the examples of docs/reading-results.md as written."""

import asyncio
import json
import re
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from coloured_squares import square

from rubricworks.data.tables import build_table

PAGE = Path(__file__).parents[2] / "docs" / "reading-results.md"
READABLE = {"source": ["0", "1", "2", "3", "4"], "reason": ["blurred"] * 5}


def build(folder: Path, table: str, rows: list[dict], **side_tables: list[dict]) -> None:
    """A table in shards of two rows."""

    async def make(numbers):
        some = {name: [of_table[number] for number in numbers] for name, of_table in side_tables.items()}
        return {table: [rows[number] for number in numbers], **some}

    places = {name: folder / name for name in side_tables}
    asyncio.run(build_table(folder, table, range(len(rows)), make, made_by={}, shard_size=2, side_tables=places))


@pytest.fixture(params=["of a stage", "beside others"])
def table(request, tmp_path) -> Path:
    """A table of five rows; that of a stage has side tables and the stage's records beside it."""
    rejected = [{"source": str(number), "reason": "blurred"} for number in range(5)]
    if request.param == "beside others":
        build(tmp_path / "rejected", "rejected", rejected)
        return tmp_path / "rejected"
    overlong = [{"sample_id": str(number), "reason": "of another table"} for number in range(5)]
    build(tmp_path / "prepare", "rejected", rejected, overlong=overlong)
    (tmp_path / "prepare" / "done.json").write_text("{}")
    return tmp_path / "prepare" / "rejected"


def test_pyarrow_opens_the_folder_of_a_table(table):
    assert ds.dataset(table).to_table().to_pydict() == READABLE


def test_pandas_opens_the_folder_of_a_table(table):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert pandas.read_parquet(table).to_dict("list") == READABLE


def test_datasets_opens_the_folder_of_a_table(table, tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = datasets.load_dataset(str(table), split="train", cache_dir=str(tmp_path / "cache"))
    assert rows.to_dict() == READABLE


def test_duckdb_opens_the_folder_of_a_table(table):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    rows = duckdb.sql(f"from '{table}/*.parquet' order by source").fetchall()
    assert rows == list(zip(*READABLE.values(), strict=True))


def example(title: str) -> str:
    """Code of the page below a heading."""
    section = PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.search(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[1]


def results_of(title: str, module: str) -> dict:
    """What the names of an example are in the end."""
    pytest.importorskip(module, reason=f"{module} is not installed")
    names: dict = {}
    exec(example(title), names)  # the page's own code
    return names


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    """A run of two pictures with 40 steps of a rollout each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    run = tmp_path / "runs" / "first"
    samples = [
        {"sample_id": name, "split": split, "image": square("top-left", "red"), "prompt": "?", "references": []}
        | {"source": f"photos/{name}.jpg"}
        for name, split in (("a", "train"), ("b", "held_out"))
    ]
    build(run / "prepare", "samples", samples, rejected=[{"source": "x", "reason": "y"}] * 2)
    rollouts = [
        {"step": step, "sample_id": "a", "response": "red", "tokens": 1, "reward": step / 40} for step in range(1, 41)
    ]
    build(run / "train_policy" / "rollouts", "rollouts", rollouts)
    verdicts = [{"criterion": "Names red", "credit": 0.0}, {"criterion": "Is short", "credit": None}]
    cards = [
        {
            "step": step,
            "sample_id": "a",
            "response": "red",
            "judge": "j",
            "scorecard": json.dumps({"verdicts": verdicts}),
        }
        for step in (1, 2)
    ]
    build(run / "train_policy" / "scorecards", "scorecards", cards)
    return run


def test_the_pages_pandas_lists_the_worst_rollouts_with_their_pictures(run):
    worst = results_of("pandas", "pandas")["worst"]
    assert worst["step"].tolist() == list(range(1, 11))
    assert set(worst["source"]) == {"photos/a.jpg"}


def test_the_pages_pyarrow_filters_steps(run):
    assert results_of("PyArrow", "pyarrow")["last_steps"]["reward"].to_pylist() == [step / 40 for step in range(31, 41)]


def test_the_pages_datasets_decode_pictures(run):
    (row,) = results_of("Hugging Face datasets", "datasets")["held_out"]
    assert (row["sample_id"], row["image"].size) == ("b", (32, 32))


def test_the_pages_duckdb_joins_rollouts_with_pictures(run):
    assert results_of("DuckDB", "duckdb")["by_picture"] == [("photos/a.jpg", pytest.approx(0.5125))]


def test_the_pages_verdicts_are_averaged_by_criterion(run):
    means = results_of("The verdicts", "pandas")["by_criterion"]
    assert means["Names red"] == 0.0
    assert means.isna()["Is short"]
