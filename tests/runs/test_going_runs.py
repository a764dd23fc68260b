"""Runs in a bucket that are going, told from their files alone."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from rubricworks.runs.records import run_record
from rubricworks.runs.store import StoredFile

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TRAINING = {"recipe.yaml": 60, "state/train_policy/attempt.json": 50, "train_policy/rollouts/part-00000.parquet": 3}


@pytest.mark.parametrize(
    ("minutes", "state"),
    [
        (TRAINING, "going"),
        ({"state/preflight/attempt.json": 1}, "going"),
        (TRAINING | {"train_policy/rollouts/part-00000.parquet": 21}, "unfinished"),
        (TRAINING | {"state/train_policy/error.json": 1}, "failed"),
        (TRAINING | {"state/train_policy/error.json": 55}, "going"),
        (TRAINING | {"outcome/outcome.json": 1}, "done"),
        (TRAINING | {"outcome/outcome.json": 55}, "going"),
        ({f"report/{mark}.json": 1 for mark in ("made_from", "done")}, "going"),  # its outcome comes last
        (TRAINING | {"pruned.json": 1}, "unfinished"),
    ],
)
def test_run_in_a_bucket_is_going_while_it_is_written(minutes, state):
    """A stage that began after an error or an outcome goes on from there."""
    minutes = {"recipe.yaml": 60} | minutes
    files = {path: StoredFile(1, NOW - timedelta(minutes=ago)) for path, ago in minutes.items()}
    content = {"outcome/outcome.json": b'{"state": "SUCCEEDED"}', "state/train_policy/error.json": b'{"message": "m"}'}
    store = SimpleNamespace(uri="s3://b/runs", files=lambda _: files, read=lambda _, path: content.get(path))
    assert run_record(store, "today-1", now=NOW).state == state
