"""Caches with rows that a test knows, and what is left of them."""

import hashlib
import json
import sqlite3
import time
from contextlib import closing

from rubricworks.llm.cache import AnswerCache

DAY = 86_400
NOW = 1_800_000_000


def key(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def fill(path, rows):
    """Rows of model, age in seconds and text; made by the cache itself, and dated back."""
    cache = AnswerCache(path)
    for number, (model, _, text) in enumerate(rows):
        cache.put(key(number), model, json.dumps([text, 10, 5, 0.25]))
    cache.close()
    with closing(sqlite3.connect(path)) as file, file:
        for number, (_, age, _) in enumerate(rows):
            file.execute("UPDATE answers SET made = ? WHERE key = ?", (NOW - age, key(number)))


def left(path) -> list[int]:
    """Which of the filled rows are still there."""
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        keys = {row[0] for row in file.execute("SELECT key FROM answers")}
    return [number for number in range(20_000) if key(number) in keys] if keys else []


def eventually(what) -> bool:
    """A run looks anew a few times a second."""
    deadline = time.monotonic() + 20
    while not (true := what()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return true
