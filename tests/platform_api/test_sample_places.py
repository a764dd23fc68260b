"""Samples beside responses: the index knows their row groups, and pages read no more than one of them."""

import asyncio
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select
from trained_run import png, write_run

from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.migrate import migrate
from rubricworks.platform_api.db.tables import SamplePlace
from rubricworks.platform_api.services.run_index import RunIndex
from rubricworks.platform_api.services.samples import find_image, find_sample
from rubricworks.runs import tables
from rubricworks.runs.store import open_run_store

LARGE = 300_000
"""Bytes of an image: more than the 64 KiB that a reader takes of a file's end."""


class CountingStore:
    """A store of runs that counts the bytes of samples that are read."""

    def __init__(self, folder):
        self._store, self.count = open_run_store(str(folder)), 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def read(self, run, path):
        return self._counted(path, self._store.read(run, path))

    def read_range(self, run, path, start, length):
        return self._counted(path, self._store.read_range(run, path, start, length))

    def _counted(self, path, content):
        self.count += len(content or b"") if path.startswith("prepare") else 0
        return content


def sample(name, **more):
    image = png() + os.urandom(LARGE)
    return {"sample_id": name, "prompt": f"? {name}", "question": None, "image_digest": "d", "image": image, **more}


def write_samples(run, stage, samples, number=0):
    (run / stage / "samples").mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist(samples), run / stage / "samples" / f"part-{number:05}.parquet", row_group_size=1
    )


@pytest.fixture
def run(tmp_path):
    run = write_run(tmp_path)
    for number in (0, 1):
        write_samples(run, "prepare", [sample(f"s{number}{place}") for place in range(4)], number)
    return run


def with_index(run, work):
    async def work_on_index():
        database = Database(f"sqlite:///{run.parent}/x.db")
        await migrate(database)
        store = CountingStore(run.parent)
        index = RunIndex(database, store)
        await index.look()
        async with database.session() as session:
            result = await work(session, store, index)
        await database.close()
        return result

    return asyncio.run(work_on_index())


def test_indexing_reads_no_image_and_a_page_one_row_group(run):
    async def work(session, store, _):
        counts = [store.count]
        text = await find_sample(session, store, "today-1", "s12")
        counts.append(store.count)
        image = await find_image(session, store, "today-1", "s12")
        counts.append(store.count)
        again = await find_image(session, store, "today-1", "s12")
        return text, image, again, [*counts, store.count]

    result, image, again, counts = with_index(run, work)
    assert (result.prompt, result.question, result.has_image) == ("? s12", "", True)
    assert (image, image[:4], len(image) > LARGE) == (again, b"\x89PNG", True)
    indexing, text, picture, known = (after - before for before, after in zip([0, *counts], counts, strict=False))
    assert (indexing < LARGE, text < LARGE, LARGE < picture < 2 * LARGE, known) == (True, True, True, 0)


def test_rewritten_question_precedes_the_first_tables_question(run):
    write_samples(run, "prepare_questions", [sample("s12", question="Which star?", image=None)])

    async def work(session, store, _):
        place = (session, store, "today-1", "s12")
        return (await find_sample(*place)).question, (await find_image(*place)) is not None

    assert with_index(run, work) == ("Which star?", True)


def test_replaced_and_deleted_files_are_followed(run):
    async def work(session, store, index):
        write_samples(run, "prepare", [sample("new"), sample("s" * 300)], 0)
        (run / "prepare" / "samples" / "part-00001.parquet").unlink()
        await index.look()
        prompts = [
            (await find_sample(session, store, "today-1", item)).prompt for item in ("new", "s00", "s10", "s" * 300)
        ]
        return prompts, (await session.scalars(select(SamplePlace.sample_id))).all()

    assert with_index(run, work) == (["? new", "", "", ""], ["new"])


def write_group(run, number, images):
    rows = [sample(f"g{number}{place}") for place in range(images)]
    pq.write_table(
        pa.Table.from_pylist(rows), run / "prepare" / "samples" / f"part-{number:05}.parquet", row_group_size=images
    )
    return {row["sample_id"]: row["image"] for row in rows}


def test_thumbnails_of_a_large_group_are_read_once(run):
    images = write_group(run, 2, 32)  # 9.6 MB

    async def work(session, store, _):
        before = store.count
        shown = await asyncio.gather(*(find_image(session, store, "today-1", image) for image in images))
        return shown, store.count - before

    shown, count = with_index(run, work)
    assert shown == list(images.values())
    assert count < 33 * LARGE


def test_thumbnails_take_bounded_space_and_larger_groups_are_shown(run, monkeypatch):
    stored = tables._RecentBytes(3 * LARGE)
    monkeypatch.setattr(tables, "_kept", stored)
    large, small = write_group(run, 2, 5), write_group(run, 3, 2)

    async def work(session, store, _):
        counts, sizes = [], []
        for name, image in [*large.items(), *small.items(), *list(small.items())[:1]]:
            before = store.count
            assert await find_image(session, store, "today-1", name) == image
            counts.append(store.count - before)
            sizes.append(stored.size)
        return counts, sizes

    counts, sizes = with_index(run, work)
    assert max(sizes) <= 3 * LARGE
    # Of a group that is larger than the bound, the last images are kept.
    assert [count > 0 for count in counts] == [True, True, True, False, False, True, False, False]
