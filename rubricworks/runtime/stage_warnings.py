"""Warnings of a stage, which its line of the ledger keeps for the report."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import rubricworks
from rubricworks.redaction import redact

_MOST = 20
_OWN = str(Path(rubricworks.__file__).parent)


@contextmanager
def collect_warnings(messages: list[str]) -> Iterator[None]:
    """Add this library's warnings to a list while they are printed as ever: each once, the first twenty."""

    def add(message: str) -> None:
        if (text := redact(message)) not in messages and len(messages) < _MOST:
            messages.append(text)

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category is UserWarning and filename.startswith(_OWN):
            add(str(message))
        printed(message, category, filename, lineno, file, line)

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            add(record.getMessage())

    printed, warnings.showwarning = warnings.showwarning, show
    handler = Collector(logging.WARNING)
    logging.getLogger("rubricworks").addHandler(handler)
    try:
        yield
    finally:
        warnings.showwarning = printed
        logging.getLogger("rubricworks").removeHandler(handler)
