"""Copies of runs in a bucket: what is needed alone, in a bounded place, and none that somebody reads gives way."""

from contextlib import ExitStack

import pyarrow.parquet as pq
import pytest
from trained_run import STAGE, write_run

from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.services import run_storage
from rubricworks.platform_api.services.run_storage import CopiedTable, run_folder
from rubricworks.runs.store import open_run_store

CARDS = f"{STAGE}/scorecards"
CARD_TABLE = CopiedTable("scorecards")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Three runs, as if they were in a bucket; places of their copies."""
    for name in ("one-1", "two-2", "three-3"):
        run = write_run(tmp_path / "runs", name)
        (run / "llm_cache.sqlite").write_bytes(b"c" * 100_000)
    store = open_run_store(str(tmp_path / "runs"))
    monkeypatch.setattr(store, "uri", "s3://bucket/runs")
    for name in ("_sources", "_readers"):
        monkeypatch.setattr(run_storage, name, {})
    monkeypatch.setattr(run_storage, "_workspace", lambda: tmp_path / "copies")
    return store


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_files_that_nobody_needs_and_columns_of_images_are_not_copied(store):
    with run_folder(
        store, "one-1", {CARDS: CARD_TABLE, "prepare": CopiedTable("samples", ["sample_id", "task", "x"])}
    ) as folder:
        assert names(folder) == [
            *("prepare/done.json", "prepare/made_from.json", "prepare/samples/part-00000.parquet", "recipe.yaml"),
            *(f"{CARDS}/part-0000{number}.parquet" for number in (0, 1)),
        ]
        samples = pq.read_table(folder / "prepare" / "samples" / "part-00000.parquet").to_pydict()
    assert samples == {"sample_id": ["a", "b"], "task": [None, None]}


def test_copies_that_were_not_used_for_longest_give_way_and_those_that_are_read_stay(store, monkeypatch):
    with run_folder(store, "one-1", {CARDS: CARD_TABLE}) as first:
        size = sum(path.stat().st_size for path in first.rglob("*") if path.is_file())
    monkeypatch.setattr(run_storage, "_MOST_BYTES", 2 * size + 100)
    with run_folder(store, "two-2", {CARDS: CARD_TABLE}) as second, run_folder(store, "one-1") as first:
        assert names(second) == names(first), "what was copied for one reader is there for the next"
    with run_folder(store, "three-3", {CARDS: CARD_TABLE}) as third:
        assert (first.exists(), second.exists(), third.exists()) == (True, False, True)
    with ExitStack() as stack:
        for name in ("one-1", "two-2"):
            stack.enter_context(run_folder(store, name, {CARDS: CARD_TABLE}))
        with pytest.raises(BadRequest, match="ask for fewer runs"):
            stack.enter_context(run_folder(store, "three-3", {CARDS: CARD_TABLE}))
    with run_folder(store, "three-3", {CARDS: CARD_TABLE}) as third:
        assert len(names(third)) == 3, "nobody reads the others any more"


def test_a_missing_column_that_may_be_empty_is_empty_in_a_copy_of_a_whole_table(store, tmp_path):
    file = tmp_path / "runs" / "one-1" / CARDS / "part-00000.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["reward"]), file)
    with run_folder(store, "one-1", {CARDS: CARD_TABLE}) as folder:
        assert pq.read_table(folder / CARDS / file.name)["reward"].to_pylist() == [None] * 6
