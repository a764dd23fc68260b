"""Reading a table of images in a training: each row group once, by few open files, in flat memory."""

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rubricworks.data.tables import build_table
from rubricworks.training import examples as stored
from rubricworks.training.examples import StoredExamples, StoredImages
from rubricworks.training.row_group_order import WORKERS, RowGroupOrder

ROWS, IMAGE, SHARD = 16_384, 4_096, 256
BATCH, PASS, PROCESSES = 8, 2, 2


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    noise = random.Random(0)

    async def rows(numbers):
        fixed = {"split": "train", "prompt": "describe", "references": ["text"], "source": ""}
        return [{"sample_id": f"s{number}", "image": noise.randbytes(IMAGE), **fixed} for number in numbers]

    asyncio.run(build_table(folder, "samples", range(ROWS), rows, made_by={"stage": "made"}, shard_size=SHARD))
    return folder


def examples_of(table: Path, count: int = ROWS) -> StoredExamples:
    return StoredExamples(
        StoredImages(table), ((f"s{number}", "describe", f"text {number}") for number in range(count))
    )


def order_of(examples: StoredExamples, **options) -> RowGroupOrder:
    places = examples.images.places(examples.rows)
    return RowGroupOrder(places, options.get("batch", BATCH), options.get("rows", PASS), seed=1)


def bytes_read() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


def open_files(folder: Path) -> int:
    links = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(str(folder) in os.readlink(link) for link in links if link.is_symlink())


def test_all_readers_together_read_each_row_group_about_once(table, monkeypatch):
    """Process and worker of a batch as accelerate and torch deal them: in turns."""
    monkeypatch.setattr(stored, "CACHED_BYTES", 8 * 64 * IMAGE)
    indices = list(order_of(examples_of(table)))
    batches = [indices[at : at + PASS] for at in range(0, ROWS, PASS)]
    total, most_open = 0, 0
    for process in range(PROCESSES):
        for worker in range(WORKERS):
            reader = examples_of(table)
            before = bytes_read()
            for batch in batches[process::PROCESSES][worker::WORKERS]:
                assert all(len(reader[index].image) == IMAGE for index in batch)
            total += bytes_read() - before
            most_open = max(most_open, open_files(table))
    assert total <= 1.2 * sum(path.stat().st_size for path in table.rglob("part-*.parquet"))
    assert most_open <= 32 < len(list(table.rglob("part-*.parquet")))


def test_random_access_keeps_few_files_open_and_its_cache_below_the_bound(table, monkeypatch):
    bound = 4 * 65 * IMAGE
    monkeypatch.setattr(stored, "CACHED_BYTES", bound)
    reader = examples_of(table)
    for index in random.Random(1).sample(range(ROWS), 200):
        assert reader[index].caption == f"text {index}"
        assert reader.images.cached_bytes <= bound
    assert open_files(table) <= 32 < len(list(table.rglob("part-*.parquet")))


@pytest.mark.parametrize(("count", "batch", "rows"), [(ROWS, 8, 2), (1_000, 64, None), (37, 5, None), (3, 512, 8)])
def test_order_has_each_row_once_mixes_groups_and_changes_with_the_epoch(table, count, batch, rows):
    order = order_of(examples_of(table, count), batch=batch, rows=rows)
    first = list(order)
    order.set_epoch(1)
    second = list(order)
    assert sorted(first) == sorted(second) == list(range(count))
    if count > 3:
        assert first != second != list(range(count))
    order.set_epoch(0)
    assert list(order) == first
    if count == ROWS:
        steps = np.asarray(order.places[first, 1]).reshape(-1, BATCH)
        assert min(len(Counter(step.tolist())) for step in steps[: len(steps) // 2]) >= BATCH // PASS - 1


def test_image_of_a_sample_that_the_table_lacks_is_refused(table):
    with pytest.raises(stored.UserError, match="no sample s-none"):
        StoredExamples(StoredImages(table), [("s-none", "describe", "text")])
