"""Cells of CSV files that people open in a spreadsheet: a text that it would carry out as a formula stays a text.

What a model wrote, or a person named, may begin with `=` and fetch an address with the cells beside it. An apostrophe
before it makes it a text (OWASP, CSV injection); reading the file takes the apostrophe away again. A sign alone is no
formula.
"""

import re
from typing import TypeVar

T = TypeVar("T")
_FORMULA = re.compile(r"'*[=+\-@\t\r](?!\Z)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def guard_cell(value: T) -> T | str:
    """A cell as it is written: a text that is a formula with an apostrophe before it, anything else as it is."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def unguard_cell(text: str) -> str:
    """The text of a cell that `guard_cell` wrote."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
