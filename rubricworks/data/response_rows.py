"""Responses of a command-line argument: a sample and a text a row, whatever the column of texts is called."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.rows import iter_rows
from rubricworks.errors import UserError

TEXT_COLUMNS = ("response", "caption", "text")
"""Names of the column with the texts; the first that holds one in a row counts."""
_ID_COLUMNS = ("sample_id", "prompt_id")
"""Names of the column with the sample; HealthBench's files have the second."""
_SOURCE_COLUMNS = ("source", "file_name")


class ResponseRow(NamedTuple):
    """A response of a sample."""

    sample_id: str
    column: str
    """Name of the column that the text stands in, or would."""
    text: str | None
    """None where the row has none."""
    source: str
    """Place of the sample's picture; empty where the row has none."""


def iter_responses(place: str | Path) -> Iterator[ResponseRow]:
    """Iterate over the responses of a table, a file or a data set of the Hub, in order.

    Raises:
        UserError: no row has one of the columns, a row names no sample, or a response is no text; as for `iter_rows`.
    """
    has_column, number = False, 0
    for number, row in enumerate(
        iter_rows(place, [], optional=(*_ID_COLUMNS, *_SOURCE_COLUMNS, *TEXT_COLUMNS)), start=1
    ):
        sample_id = next((row[name] for name in _ID_COLUMNS if row.get(name) is not None), None)
        if sample_id is None:
            raise UserError(f"{place}: row {number} has no {' or '.join(_ID_COLUMNS)}, by which its rubric is found")
        columns = [name for name in TEXT_COLUMNS if name in row]
        has_column |= bool(columns)
        column = next((name for name in columns if row[name] is not None), (*columns, TEXT_COLUMNS[0])[0])
        text = row.get(column)
        if text is not None and not isinstance(text, str):
            raise UserError(f"{place}: row {number}, of {sample_id}: the {column} is {text!r:.60}, and not a text")
        source = next((row[name] for name in _SOURCE_COLUMNS if row.get(name)), "")
        yield ResponseRow(str(sample_id), column, text, str(source))
    if number and not has_column:
        raise UserError(f"{place}: no column {' or '.join(TEXT_COLUMNS)} with the responses")
