"""Rows of a Parquet file by their values: whatever its row groups, its statistics and its damage."""

import io
import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rubricworks.platform_api.services.stored_parquet import rows_with

_ROWS = [{"step": at // 300, "sample_id": f"é{at // 3 % 50}", "response": f"response {at}"} for at in range(900)]


def _content(rows, **options):
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer, **options)
    return buffer.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("write_statistics", [True, False])
@pytest.mark.parametrize("row_group_size", [1, 7, 64, 100, 5000])
@pytest.mark.parametrize("place", [(0, "é0"), (1, "é49"), (2, "é17"), (2, "z"), (3, "é0"), (-1, "")])
def test_rows_are_those_that_hold_the_values_in_their_order(place, row_group_size, write_statistics):
    content = _content(_ROWS, row_group_size=row_group_size, write_statistics=write_statistics)
    expected = [row["response"] for row in _ROWS if (row["step"], row["sample_id"]) == place]

    found = rows_with(content, "part", dict(zip(("step", "sample_id"), place, strict=True)), ["response", "tokens"])

    assert found == {"response": expected}
    assert place[0] > 2 or place[0] < 0 or place[1] == "z" or len(expected) == 6


def test_nothing_is_found_where_a_column_is_of_another_type():
    content = _content([{"step": "1", "sample_id": "a", "response": "b"}])

    assert rows_with(content, "part", {"step": 1, "sample_id": "a"}, ["response"]) == {"response": []}


def test_a_damaged_file_is_told_of_in_the_log(caplog):
    whole = _content(_ROWS, row_group_size=100)
    values = {"step": 1, "sample_id": "é3"}

    with caplog.at_level(logging.WARNING):
        assert rows_with(b"no Parquet", "one", values, ["response"]) == {}
        assert rows_with(_content([{"step": 1}]), "two", values, ["response"]) == {}
        assert (
            rows_with(b"PAR1" + bytes(len(whole) // 2) + whole[len(whole) // 2 + 4 :], "three", values, ["step"]) == {}
        )

    assert [record.getMessage() for record in caplog.records] == [
        "one is no Parquet file",
        "two has no column sample_id",
        "three is damaged",
    ]
