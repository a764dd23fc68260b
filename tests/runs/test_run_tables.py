"""Rows of a run's tables: by place and by value, whatever the row groups, the statistics and the damage."""

import io
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rubricworks.data.manifest import Shard
from rubricworks.runs import tables
from rubricworks.runs.store import open_run_store
from rubricworks.runs.tables import StoredTable, TableFile, UnreadableTable

_ROWS = [{"step": at // 300, "sample_id": f"é{at // 3 % 50}", "response": f"response {at}"} for at in range(900)]


def _content(rows, **options):
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer, **options)
    return buffer.getvalue()


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Writes a file of a run and returns it as the reader has it."""
    monkeypatch.setattr(tables, "_kept", tables._RecentBytes(1_000_000))
    (tmp_path / "run" / "table").mkdir(parents=True)

    def write(content, name="part-00000.parquet"):
        (tmp_path / "run" / "table" / name).write_bytes(content)
        return TableFile(open_run_store(str(tmp_path)), "run", f"table/{name}", len(content))

    return write


@pytest.mark.slow
@pytest.mark.parametrize("write_statistics", [True, False])
@pytest.mark.parametrize("row_group_size", [1, 7, 64, 100, 5000])
@pytest.mark.parametrize("place", [(0, "é0"), (1, "é49"), (2, "é17"), (2, "z"), (3, "é0"), (-1, "")])
def test_rows_are_those_that_hold_the_values_in_their_order(stored, place, row_group_size, write_statistics):
    file = stored(_content(_ROWS, row_group_size=row_group_size, write_statistics=write_statistics))
    expected = [row["response"] for row in _ROWS if (row["step"], row["sample_id"]) == place]

    rows = file.rows_where(dict(zip(("step", "sample_id"), place, strict=True)), ["response", "tokens"])

    assert rows == [{"response": response} for response in expected]
    assert place[0] > 2 or place[0] < 0 or place[1] == "z" or len(expected) == 6


def test_no_row_holds_a_value_of_another_type(stored):
    file = stored(_content([{"step": "1", "sample_id": "a", "response": "b"}]))

    assert file.rows_where({"step": 1, "sample_id": "a"}) == []


def test_what_is_wrong_with_a_file_is_told(stored):
    whole = _content(_ROWS, row_group_size=100)
    damaged = b"PAR1" + bytes(len(whole) // 2) + whole[len(whole) // 2 + 4 :]
    values = {"step": 1, "sample_id": "é3"}

    for content, name, problem in (
        (b"no Parquet", "one", "run/table/one is no Parquet file"),
        (_content([{"step": 1}]), "two", "run/table/two has no column sample_id"),
        (damaged, "three", "run/table/three is no table to read: a page has no header"),
    ):
        with pytest.raises(UnreadableTable, match=problem):
            stored(content, name).rows_where(values)
    gone = TableFile(stored(whole, "four").store, "run", "table/gone", 1)
    with pytest.raises(UnreadableTable, match="run/table/gone is gone"):
        gone.rows()


@pytest.mark.parametrize("start", [0, 1, 299, 300, 450, 899, 900, 2000])
@pytest.mark.parametrize("limit", [0, 1, 7, 300, 5000, None])
def test_rows_from_a_place_on_span_files_and_row_groups(stored, start, limit):
    parts = [_ROWS[:300], _ROWS[300:700], _ROWS[700:]]
    files = [stored(_content(rows, row_group_size=64), f"part-{at}") for at, rows in enumerate(parts)]
    shards = [Shard(name=f"part-{at}", rows=len(rows), sha256=str(at)) for at, rows in enumerate(parts)]
    table = StoredTable(files[0].store, "run", "table", "", shards)

    assert table.rows(start, limit) == (_ROWS[start:] if limit is None else _ROWS[start : start + limit])


def test_first_row_with_a_value_is_of_the_first_file_that_has_it(stored):
    shards = []
    for at, responses in enumerate((["a"], ["b", "c"], ["c", "d"])):
        stored(_content([{"response": text, "part": at} for text in responses]), f"part-{at}")
        shards.append(Shard(name=f"part-{at}", rows=len(responses), sha256=str(at)))
    table = StoredTable(stored(b"", "other").store, "run", "table", "", shards)

    assert table.first_where("response", "c") == {"response": "c", "part": 1}
    assert table.first_where("response", "e") is None
    assert [row["response"] for row in table] == ["a", "b", "c", "c", "d"]


def test_kept_bytes_stay_within_their_bound_and_are_what_was_put():
    stored, sizes = tables._RecentBytes(1000), [300, 300, 300, 300, 999, 1, 1001, 500, 499, 2]
    contents = {at: os.urandom(size) for at, size in enumerate(sizes)}

    for key, content in contents.items():
        stored.put(key, content)
        known = {other: held for other in contents if (held := stored.get(other)) is not None}
        assert sum(map(len, known.values())) <= 1000
        assert known == {other: contents[other] for other in known}
        assert (key in known) == (len(content) <= 1000), key

    assert stored.get(9) == contents[9]
    assert stored.get(6) is None, "larger than the bound"


def test_a_forked_process_does_not_write_over_what_its_parent_keeps():
    tables._kept.put("table", b"of the parent")
    if (child := os.fork()) == 0:
        tables._kept.put("other", b"!" * 100)
        os._exit(0 if tables._kept.get("table") is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert tables._kept.get("table") == b"of the parent"
