"""An API key for a test, and a search for it in everything that the test left behind."""

import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

VARIABLE = "JUDGE_KEY"
_CORE = "RubricSecret0123456789"
KEY = f"sk-judge/{_CORE}+x="
"""Its slash and its plus are what some servers escape when they echo it in JSON."""
ECHOES = (f"you sent Bearer {KEY}", "you sent Bearer " + KEY.replace("/", "\\/").replace("+", "\\u002b"))
"""As the inside of a JSON string: as it is, and escaped."""


class KeySearch:
    """Search for the key in the values that a test saw, and in its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: list[str] = []

    def see(self, *things: Any) -> None:
        """Everything about these that could be printed, logged or pickled."""
        for thing in things:
            self._seen += [repr(thing), str(thing)]
            if isinstance(thing, BaseException):
                self._seen += [*traceback.format_exception(thing), pickle.dumps(vars(thing)).decode("latin1")]
            elif hasattr(thing, "model_dump_json"):
                self._seen.append(thing.model_dump_json())

    def found_in(self, records: list[logging.LogRecord], printed: str) -> list[str]:
        """Names of the places that contain the key."""
        places = [f"a value: {text[:80]}" for text in self._seen if _CORE in text]
        places += [f"log: {vars(record)}" for record in records if _CORE in str(vars(record))]
        places += ["standard output"] if _CORE in printed else []
        return places + [str(path) for path, content in self._contents() if _CORE in content]

    def _contents(self) -> Iterator[tuple[Path, str]]:
        for path in self.folder.rglob("*"):
            if path.is_file():
                yield path, path.read_bytes().decode("latin1")
                if path.suffix == ".parquet":  # compressed
                    yield path, str(pq.read_table(path).to_pylist())
