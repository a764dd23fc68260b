"""Responses of a command-line argument: a sample and a text a row, whatever the column of texts is called."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.rows import iter_rows
from rubricworks.errors import UserError

TEXT_COLUMNS = ("response", "caption", "text")
"""Names of the column with the texts; the first that a row has counts."""


class ResponseRow(NamedTuple):
    """A response of a sample."""

    sample_id: str
    column: str
    """Name of the column that the text stands in."""
    text: str | None
    """None where the column holds no text."""


def iter_responses(place: str | Path) -> Iterator[ResponseRow]:
    """Iterate over the responses of a table, a file or a data set of the Hub, in order.

    Raises:
        UserError: a row has none of the columns; as for `iter_rows`.
    """
    for number, row in enumerate(iter_rows(place, ["sample_id"], optional=TEXT_COLUMNS), start=1):
        if (column := next((name for name in TEXT_COLUMNS if name in row), None)) is None:
            raise UserError(f"{place}: row {number} has no column {' or '.join(TEXT_COLUMNS)} with the response")
        text = row[column]
        yield ResponseRow(str(row["sample_id"]), column, text if isinstance(text, str) else None)
