"""Runs of the API's benchmark in a bucket of Ceph's gateway: their records, and the Parquet of those that trained."""

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from rubricworks.data.schemas import table_from_rows
from rubricworks.data.shards import to_parquet
from rubricworks.storage.bucket import open_bucket

STORAGE = "s3://runs/all"
STAGE = "train_policy"
_WRITERS = 16


@contextmanager
def gateway(folder: Path) -> Iterator[Mapping[str, str]]:
    """Environment that reaches the gateway; the bucket is there."""
    from ceph_store import ceph_server, missing
    from object_store import environment

    if programs := missing():
        raise SystemExit(f"not installed: {', '.join(programs)}; `make test-cluster` installs them, or give --folder")
    with ceph_server(folder) as address:
        reached = environment(address)
        os.environ.update(reached)
        _create_bucket(address, reached)
        yield reached


def write_runs(runs: int, trained: int, each: int) -> list[tuple[str, int, datetime]]:
    """Write the records of all runs, and the shards of those that trained.

    Args:
        each: rollouts of a run that trained.
    Returns:
        Run, size and time of each shard of rollouts.
    """
    bucket = open_bucket(STORAGE)
    shards = {f"{STAGE}/{table}/part-00000.parquet": _shard(table, each) for table in ("rollouts", "scorecards")}
    outcome = json.dumps({"state": "SUCCEEDED", "message": "trained"}).encode()

    def write(number: int) -> None:
        run = bucket.below(f"run-{number:06}")
        run.write("outcome.json", outcome)
        if number < trained:
            for path, content in shards.items():
                run.write(path, content)

    with ThreadPoolExecutor(_WRITERS) as writers:
        for _ in writers.map(write, range(runs)):
            pass
    return [
        (f"run-{number:06}", item.size, item.modified)
        for number in range(trained)
        for item in bucket.below(f"run-{number:06}").objects(f"{STAGE}/rollouts/")
    ]


def _shard(table: str, each: int) -> bytes:
    """Parquet of a training's only shard; its numbers are those of the SQL in `benchmarks.api`."""
    rows = []
    for row in range(each):
        credits = [float(row % 2), float(row // 2 % 2), 1.0, 0.5, float(row // 4 % 2)]
        verdicts = [
            {
                "criterion": f"criterion {number}",
                "credit": credit,
                "error": None,
                "reasoning": f"Seen in response {row}.",
            }
            for number, credit in enumerate(credits)
        ]
        response = f"Response {row}: " + "a small red circle lies to the left of a large blue square; " * 4
        place = {"step": 1 + row // 64, "sample_id": f"sample-{row // 8 % 500}", "response": response}
        card = {**place, "judge": "judge", "verdicts": verdicts, "raw": [json.dumps(verdicts)]}
        rows.append({**place, "reward": row % 10 / 9.0, "tokens": 40, "advantage": row % 7 - 3.0})
        rows[-1] |= {"judge": "judge", "scorecard": json.dumps(card)}
    columns = ("tokens", "advantage") if table == "rollouts" else ("judge", "scorecard")
    names = ("step", "sample_id", "response", "reward", *columns)
    return to_parquet(table_from_rows(table, [{name: row[name] for name in names} for row in rows]))


def _create_bucket(address: str, reached: Mapping[str, str]) -> None:
    from minio import Minio

    keys = {"access_key": reached["AWS_ACCESS_KEY_ID"], "secret_key": reached["AWS_SECRET_ACCESS_KEY"]}
    Minio(address.removeprefix("http://"), secure=False, **keys).make_bucket("runs")
