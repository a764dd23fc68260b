"""Mutations of a run's folder, as a stranger might send one: bytes, values, types, links, sizes, times and journals."""

import json
import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DEEP = 600
_PAGE = 450_000_000
"""Bytes of one page, which is more than a reader may take."""
VALUES: list[Any] = [
    *(None, True, -1, 0, 2**31, 2**63, -(2**63), 10**400, 0.5, float("nan"), float("inf"), 1e308, 1e-320),
    *("", "x", "\ud800", "a\0b", "../../etc", "<script>alert(1)</script>", "\u202e", "2026-13-45T99:99"),
    *([], {}, [[]], {"": None}, [None, 1, "x"], {"a": {"b": []}}),
]
"""In the place of any value of JSON."""


def odd_value(rng: random.Random) -> Any:
    """A value that no file of ours holds there."""
    if rng.random() < 0.03:
        return "x" * 4_000_000
    if rng.random() < 0.06:
        deep: Any = []
        for _ in range(DEEP):
            deep = [deep]
        return deep
    return rng.choice(VALUES)


def mutate(run: Path, beside: Path, rng: random.Random) -> str:
    """Change one thing in a run's folder; return what was done.

    Args:
        beside: folder with a file `secret`, to which links and journals lead.
    """
    files = sorted(path for path in run.rglob("*") if path.is_file())
    file = rng.choice(files)
    kinds: dict[str, Callable[..., Any]] = {".parquet": _in_table, ".json": _in_json, ".jsonl": _in_lines}
    if file.suffix in kinds and rng.random() < 0.6:
        what = kinds[file.suffix](file, rng)
    elif file.suffix == ".sqlite" and rng.random() < 0.7:
        what = _in_sqlite(file, beside, rng)
    else:
        what = rng.choice([_bytes, _bytes, _link, _node, _size, _folder_link, _time, _name])(file, run, beside, rng)
    return f"{file.relative_to(run)}: {what}"


def _bytes(file: Path, run: Path, beside: Path, rng: random.Random) -> str:
    content = bytearray(file.read_bytes())
    how = rng.choice(["flip", "flip", "flip", "cut", "empty", "noise", "insert"])
    if how == "flip":
        for _ in range(rng.choice([1, 3, 30])):
            if content:
                content[rng.randrange(len(content))] = rng.randrange(256)
    elif how == "cut":
        del content[rng.randrange(len(content) + 1) :]
    elif how == "insert":
        at = rng.randrange(len(content) + 1)
        content[at:at] = rng.randbytes(rng.choice([1, 8, 1000]))
    else:
        content = bytearray(rng.randbytes(2000) if how == "noise" else b"")
    file.write_bytes(content)
    return how


def _link(file: Path, run: Path, beside: Path, rng: random.Random) -> str:
    target = rng.choice([beside / "secret", Path("/proc/self/environ"), Path("/dev/zero"), file, Path("/dev/stdin")])
    file.unlink()
    file.symlink_to(target)
    return f"link to {target}"


def _node(file: Path, run: Path, beside: Path, rng: random.Random) -> str:
    file.unlink()
    if rng.random() < 0.5:
        os.mkfifo(file)
        return "pipe"
    file.mkdir()
    (file / "inner").write_text("{}")
    return "folder"


def _size(file: Path, run: Path, beside: Path, rng: random.Random) -> str:
    size = rng.choice([10**10, 2 * 10**8])
    os.truncate(file, size)
    return f"{size} bytes"


def _folder_link(file: Path, run: Path, beside: Path, rng: random.Random) -> str:
    folder = file.parent
    if folder == run:
        moved = run.with_name(f".{run.name}")
        run.rename(moved)
        run.symlink_to(moved)
        return "the run is a link"
    shutil.rmtree(folder)
    folder.symlink_to(rng.choice([beside, Path("/proc/self"), folder]))
    return "its folder is a link"


def _time(file: Path, run: Path, beside: Path, rng: random.Random) -> str:
    seconds = rng.choice([0, -(2**40), 2**33, 2**40])
    os.utime(file, (seconds, seconds))
    return f"time {seconds}"


def _name(file: Path, run: Path, beside: Path, rng: random.Random) -> str:
    names = [b"\xff\xfe", "\u202e", "<b>", "a\nb", "x" * 250, "-rf", "%2e%2e", "train policy"]
    name = os.fsdecode(rng.choice(names))
    target = file.with_name(name) if rng.random() < 0.5 else file.parent / name / file.name
    target.parent.mkdir(exist_ok=True)
    file.rename(target)
    return f"renamed to {target.relative_to(run)!r}"


def _in_json(file: Path, rng: random.Random) -> str:
    value = json.loads(file.read_text())
    value, where = _changed(value, rng)
    file.write_text(_text(value))
    return where


def _in_lines(file: Path, rng: random.Random) -> str:
    lines = file.read_text().splitlines()
    at = rng.randrange(len(lines))
    try:
        value, where = _changed(json.loads(lines[at]), rng)
    except ValueError:
        value, where = odd_value(rng), "half a line"
    lines[at] = _text(value)
    file.write_text("\n".join(lines))
    return f"line {at}: {where}"


def _text(value: Any) -> str:
    text = json.dumps(value)
    return text.replace("Infinity", "1e999")


def _changed(value: Any, rng: random.Random) -> tuple[Any, str]:
    """A value with one part of it, anywhere, replaced or taken away; and where that is."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            return {name: part for name, part in value.items() if name != key}, f"without {key}"
        part, where = _changed(value[key], rng)
        return {**value, key: part}, f"{key}.{where}"
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        part, where = _changed(value[at], rng)
        return [*value[:at], part, *value[at + 1 :]], f"{at}.{where}"
    odd = odd_value(rng)
    return odd, repr(odd)[:40] if not isinstance(odd, list) else "a list"


def _in_table(file: Path, rng: random.Random) -> str:
    if rng.random() < 0.1:
        return bomb(file, rng.choice(["rows", "page"]))
    table = pq.read_table(file)
    name = rng.choice(table.column_names)
    at = table.column_names.index(name)
    rows = table.num_rows
    texts = [value for value in table[name].to_pylist() if isinstance(value, str) and value[:2] in ('{"', "[{")]
    if texts and rng.random() < 0.8:
        values = table[name].to_pylist()
        row = rng.randrange(rows)
        value, where = _changed(json.loads(values[row] or "{}"), rng)
        values[row] = _text(value)
        changed = table.set_column(at, table.schema.field(name), pa.array(values, pa.string()))
        pq.write_table(changed, file)
        return f"{name} of row {row}: {where}"
    odd: dict[str, Callable[[], pa.Array | None]] = {
        "dropped": lambda: None,
        "numbers": lambda: pa.array([2**62] * rows),
        "fractions": lambda: pa.array([float("nan"), float("inf"), -1e308] * rows)[:rows],
        "nulls": lambda: pa.nulls(rows, table.schema.field(name).type),
        "no type": lambda: pa.nulls(rows),
        "bytes": lambda: pa.array([b"\xff\xfe\0"] * rows, pa.binary()),
        "bad text": lambda: pa.Array.from_buffers(pa.string(), rows, pa.array([b"\xff"] * rows, pa.binary()).buffers()),
        "NUL": lambda: pa.array(["a\0b"] * rows),
        "long": lambda: pa.array(["x" * 2_000_000] * rows),
        "lists": lambda: pa.array([[["x"]]] * rows),
        "times": lambda: pa.array([2**62] * rows, pa.timestamp("us")),
        "same": lambda: pa.array(["a"] * rows),
        "negative": lambda: pa.array([-(2**63)] * rows),
    }
    kind = rng.choice(list(odd))
    column = odd[kind]()
    pq.write_table(table.drop_columns([name]) if column is None else table.set_column(at, name, column), file)
    return f"{name}: {kind}"


def bomb(file: Path, kind: str) -> str:
    """Make of a table a few kilobytes that decode to gigabytes, in its own columns."""
    schema = pq.read_schema(file)
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    rows = 3_000 if kind == "rows" else 1
    columns: dict[str, pa.Array] = {}
    for field in schema:
        if field.name not in texts:
            columns[field.name] = pa.array([None] * rows, field.type)
        elif kind == "rows":
            text = pa.array(["x" * (1 if field.name == "sample_id" else 1_000_000)])
            columns[field.name] = text.dictionary_encode().take(pa.array([0] * rows))
        else:  # one text of zeros, of which none is in memory before it is written
            size = _PAGE if field.name == texts[-1] else 1
            offsets = pa.array([0, size], pa.int32()).buffers()[1]
            columns[field.name] = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(bytes(size))])
    options = {"compression": "zstd", "compression_level": 1, "write_statistics": False, "store_schema": False}
    pq.write_table(pa.table(columns), file, use_dictionary=kind == "rows", **options)
    return f"a bomb of {kind}"


def _in_sqlite(file: Path, beside: Path, rng: random.Random) -> str:
    kind = rng.choice(["journal", "journal", "view", "generated", "values"])
    if kind == "journal":
        file.with_name(f"{file.name}-journal").write_bytes(journal_naming(beside / "secret", file))
        return "a journal that names another file"
    file.unlink()
    columns = "calls, cached, requests, prompt_tokens, completion_tokens, cost, seconds, cached_tokens"
    endless = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT x FROM t"
    names = ", ".join(f"x {name}" for name in ("stage", "purpose", "model", *columns.split(", ")))
    made = {
        "view": f"CREATE VIEW spending AS SELECT {names} FROM ({endless})",
        "generated": f"CREATE TABLE spending (stage AS (hex(zeroblob(30000000))), purpose, model, {columns})",
        "values": f"CREATE TABLE spending (stage, purpose, model, {columns})",
    }
    with closing(sqlite3.connect(file)) as database:
        database.execute(made[kind])
        database.execute("CREATE TABLE failures (stage, purpose, model, class, count)")
        if kind == "values":
            odd = [rng.choice([None, "x", -1, 1e308, 2**62, b"\xff"]) for _ in range(11)]
            database.execute(f"INSERT INTO spending VALUES ({', '.join('?' * 11)})", odd)
        database.commit()
    return kind


def journal_naming(victim: Path, database: Path) -> bytes:
    """A hot journal as section 1.5 of SQLite's file format has it: no page to restore, and a super-journal's name."""
    name = str(victim).encode()
    pages = database.stat().st_size // 4096
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 1, pages, 512, 4096)
    ending = struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name))
    return header.ljust(512, b"\0") + ending + bytes.fromhex("d9d505f920a163d7")
