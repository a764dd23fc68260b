"""A process that builds a table is killed with SIGKILL, again and again; the end is as if it had not been."""

import random
import signal
import time
from pathlib import Path

import pytest
from forked import Forked

PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
folder, kill_at, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

steps = 0
def killing(step):
    def before(*arguments):
        global steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*arguments)
    return before
os.fsync, Path.replace = killing(os.fsync), killing(Path.replace)

from rubricworks.data.tables import build_table
async def make_rows(items):
    with open(folder.parent / "asked", "a") as asked:
        print(items[0] // 4, file=asked)
    await asyncio.sleep(pause)
    letter = {"stage": "s", "purpose": "p", "reason": "refused", "message": "", "raw": "", "request": "", "attempts": 1}
    return {
        "rejected": [{"source": f"{item}", "reason": "x" * item} for item in items],
        "dead_letters": [{"sample_id": f"{item}", **letter} for item in items if item % 3 == 0],
    }
side = {"dead_letters": folder / "dead_letters"}
made_by = {"stage": "s"}
asyncio.run(build_table(folder, "rejected", range(30), make_rows, made_by=made_by, shard_size=4, side_tables=side))
"""


def start(folder: Path, kill_at: int = 0, pause: float = 0.0) -> Forked:
    return Forked(PROGRAM, folder, kill_at, pause)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("unbroken") / "table"
    assert start(folder).wait() == 0
    return contents(folder)


def calls_in(folder: Path) -> list[int]:
    log = folder.parent / "asked"
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def test_killed_before_each_step_of_a_commit_ends_byte_identical(tmp_path, unbroken):
    folder = tmp_path / "table"
    kill_at, killed = 0, 0
    while True:
        kill_at += 1
        committed = {int(path.stem[5:]) for path in (folder / "rejected").glob("part-*.parquet")}
        before = len(calls_in(folder))
        code = start(folder, kill_at).wait()
        # A main shard vouches for the one beside it, which is committed first.
        assert not committed & set(calls_in(folder)[before:])
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed += 1
        assert not (folder / ".manifest.json").exists()
    assert killed >= 8
    assert contents(folder) == unbroken


def test_killed_at_random_moments_ends_byte_identical(tmp_path, unbroken):
    folder = tmp_path / "table"
    moments = random.Random(7)
    for _ in range(4):
        process = start(folder, pause=0.05)
        while not calls_in(folder) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.5))
        process.kill()
        process.wait()
    assert start(folder).wait() == 0
    assert contents(folder) == unbroken
