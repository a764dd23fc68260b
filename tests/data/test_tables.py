"""Tables: what is committed is not made again, what another config made is not mixed in."""

import asyncio
import json
import tracemalloc
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rubricworks.data.manifest import read_manifest
from rubricworks.data.schemas import SCHEMAS
from rubricworks.data.shards import TableFolder
from rubricworks.data.tables import Sample, build_table, count_rows, read_rows, read_samples, shard_paths
from rubricworks.errors import UserError

MADE_BY = {"stage": "prepare", "config": "c1", "inputs": {}, "version": "1"}


class Maker:
    """Makes rows of `rejected` and remembers what it was asked for."""

    def __init__(self, reason="blurred"):
        self.asked, self.reason = [], reason

    async def __call__(self, items):
        self.asked += items
        return [{"source": str(item), "reason": self.reason} for item in items]


def build(folder, maker, items=range(10), made_by=MADE_BY, **options):
    return asyncio.run(
        build_table(
            folder, "rejected", items, maker, made_by=made_by, shard_size=options.pop("shard_size", 3), **options
        )
    )


def test_rows_come_back_in_order_over_all_shards(tmp_path):
    manifest = build(f"file://{tmp_path}/t", Maker())
    assert [row["source"] for row in read_rows(tmp_path / "t")] == [str(number) for number in range(10)]
    assert [shard.rows for shard in manifest.shards] == [3, 3, 3, 1]
    assert manifest.rows == count_rows(tmp_path / "t") == 10
    assert [path.name for path in shard_paths(tmp_path / "t")] == [f"part-0000{n}.parquet" for n in range(4)]
    assert manifest == read_manifest(tmp_path / "t")


def test_items_are_prepared_two_shards_ahead_and_not_for_committed_ones(tmp_path):
    prepared, at_making = [], []

    async def prepare(items):
        prepared.extend(items)
        return [item * 10 for item in items]

    class Stopped(Exception):
        pass

    maker = Maker()

    async def make(items):
        await asyncio.sleep(0)  # lets what may be prepared begin
        at_making.append(len(prepared))
        if len(at_making) == 3:
            raise Stopped
        return await maker(items)

    with pytest.raises(Stopped):
        build(tmp_path, make, items=range(20), prepare=prepare)
    assert at_making == [9, 12, 15]
    assert maker.asked == [0, 10, 20, 30, 40, 50]
    prepared.clear()
    build(tmp_path, maker, items=range(20), prepare=prepare)
    assert prepared == list(range(6, 20))
    assert [row["source"] for row in read_rows(tmp_path)] == [str(10 * number) for number in range(20)]


def test_columns_can_be_chosen(tmp_path):
    build(tmp_path, Maker())
    assert next(read_rows(tmp_path, columns=["reason"])) == {"reason": "blurred"}


def test_column_that_the_table_has_not_is_refused_by_name(tmp_path):
    commit(tmp_path, [SAMPLE_ROW])
    with pytest.raises(ValueError, match="no column 'colour'"):
        list(read_rows(tmp_path, columns=["source", "colour"]))


def test_finished_table_is_left_alone(tmp_path):
    build(tmp_path, Maker())
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = Maker("another")
    build(tmp_path, again)
    assert again.asked == []
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_failed_build_resumes_after_its_last_shard_and_equals_an_unbroken_one(tmp_path):
    async def fails_late(items):
        if 7 in items:
            raise ConnectionError("gone")
        return await Maker()(items)

    with pytest.raises(ConnectionError):
        build(tmp_path / "a", fails_late)
    with pytest.raises(UserError, match="not finished; run the stage prepare"):
        read_manifest(tmp_path / "a")
    maker = Maker()
    steps = []
    build(tmp_path / "a", maker, progress=lambda done, already: steps.append((done, already)))
    assert maker.asked == [6, 7, 8, 9]
    assert steps == [(3, 3), (6, 6), (9, 6), (10, 6)]
    build(tmp_path / "b", Maker())
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("change", [{"made_by": {**MADE_BY, "config": "c2"}}, {"shard_size": 4}])
def test_shards_of_another_plan_are_cleared_away(tmp_path, change):
    async def fails_late(items):
        if 9 in items:
            raise ConnectionError("gone")
        return await Maker("old")(items)

    with pytest.raises(ConnectionError):
        build(tmp_path, fails_late)
    maker = Maker("new")
    build(tmp_path, maker, **change)
    assert maker.asked == list(range(10))
    assert {row["reason"] for row in read_rows(tmp_path)} == {"new"}


def test_finished_table_of_another_config_is_made_anew_without_old_shards(tmp_path):
    build(tmp_path, Maker("old"))
    build(tmp_path, Maker("new"), items=range(4), made_by={**MADE_BY, "config": "c2"})
    assert [row["reason"] for row in read_rows(tmp_path)] == ["new"] * 4
    assert len(list(tmp_path.rglob("part-*"))) == 2


@pytest.mark.parametrize("damage", [b"", b"PAR1 not really"])
def test_damaged_or_missing_shard_alone_is_made_again(tmp_path, damage):
    build(tmp_path, Maker())
    whole = contents(tmp_path)
    shard = tmp_path / "rejected" / "part-00001.parquet"
    shard.write_bytes(damage) if damage else shard.unlink()
    if damage:
        (tmp_path / ".manifest.json").unlink()
    maker = Maker()
    build(tmp_path, maker)
    assert maker.asked == [3, 4, 5]
    assert contents(tmp_path) == whole


def test_reading_a_damaged_shard_names_the_file(tmp_path):
    build(tmp_path, Maker())
    (tmp_path / "rejected" / "part-00002.parquet").write_bytes(b"junk")
    with pytest.raises(UserError, match=r"part-00002\.parquet: cannot be read"):
        list(read_rows(tmp_path))


@pytest.mark.parametrize("stage", ["prepare", "synthesize_rubrics"])
def test_unfinished_or_damaged_table_names_the_stage_of_its_plan(tmp_path, stage):
    async def fail(items):
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        build(tmp_path, fail, made_by={**MADE_BY, "stage": stage})
    with pytest.raises(UserError, match=f"the table is not finished; run the stage {stage} to make it"):
        read_manifest(tmp_path)
    (tmp_path / ".manifest.json").write_text("{}")
    with pytest.raises(UserError, match=f"delete the folder and run the stage {stage} again"):
        read_manifest(tmp_path)


def test_missing_table_names_its_folder(tmp_path):
    with pytest.raises(UserError, match="rubrics: there is no table here; run the stage that writes this folder"):
        read_manifest(tmp_path / "rubrics")


def test_damaged_manifest_is_one_clear_line(tmp_path):
    build(tmp_path, Maker())
    (tmp_path / ".manifest.json").write_text('{"table": "rejected"}')
    with pytest.raises(UserError, match=r"manifest\.json: schema_version"):
        read_manifest(tmp_path)


def test_second_run_in_the_same_folder_is_refused_and_the_first_goes_on(tmp_path):
    refused = []

    async def tries_again(items):
        try:
            await build_table(tmp_path, "rejected", items, Maker(), made_by=MADE_BY, shard_size=3)
        except UserError as error:
            refused.append(str(error))
        return await Maker()(items)

    assert build(tmp_path, tries_again).rows == 10
    assert "another run is writing this table" in refused[0]


def test_tables_made_in_the_same_pass_are_committed_together(tmp_path):
    async def halves(items):
        if 9 in items and fail:
            raise ConnectionError("gone")
        rows = [{"source": str(item), "reason": "odd"} for item in items if item % 2]
        letter = {
            "stage": "s",
            "purpose": "p",
            "reason": "refused",
            "message": "",
            "raw": "",
            "request": "",
            "attempts": 1,
        }
        return {"rejected": rows, "dead_letters": [{"sample_id": str(i), **letter} for i in items if i % 2 == 0]}

    dead_letters = tmp_path / "dead_letters"
    fail = True
    with pytest.raises(ConnectionError):
        build(tmp_path, halves, side_tables={"dead_letters": dead_letters})
    fail = False
    build(tmp_path, halves, side_tables={"dead_letters": dead_letters})
    assert [row["source"] for row in read_rows(tmp_path)] == list("13579")
    assert [row["sample_id"] for row in read_rows(dead_letters)] == list("02468")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"source": "a", "reason": "b", "colour": "red"}, "no column 'colour'"),
        ({"source": "a"}, "column 'reason' has no value"),
        ({"source": "a", "reason": 3}, "rejected: "),
    ],
)
def test_row_that_does_not_fit_its_schema_is_refused(tmp_path, row, message):
    async def make(items):
        return [row]

    with pytest.raises(ValueError, match=message):
        build(tmp_path, make)


def test_empty_table_is_a_table(tmp_path):
    assert build(tmp_path, Maker(), items=[]).rows == 0
    assert list(read_rows(tmp_path)) == []


def test_manifest_digest_follows_content_and_origin(tmp_path):
    first = build(tmp_path / "a", Maker())
    assert first.digest == build(tmp_path / "b", Maker()).digest
    assert first.digest != build(tmp_path / "c", Maker("sharp")).digest
    assert first.digest != build(tmp_path / "d", Maker(), made_by={**MADE_BY, "version": "2"}).digest


def test_shards_have_the_columns_of_their_schema(tmp_path):
    build(tmp_path, Maker())
    assert pq.read_schema(tmp_path / "rejected" / "part-00000.parquet").equals(SCHEMAS["rejected"])


def test_samples_are_read_by_split_and_few_at_a_time(tmp_path):
    size = 200_000

    async def make(items):
        return [
            {
                "sample_id": f"s{i}",
                "split": "held_out" if i % 4 == 0 else "train",
                "image": i.to_bytes(2, "big") * (size // 2),
                "image_digest": "",
                "prompt": "Describe.",
                "references": ["one", "two"],
                "source": "x",
            }
            for i in items
        ]

    asyncio.run(build_table(tmp_path, "samples", range(400), make, made_by=MADE_BY, shard_size=50))
    assert [sample.sample_id for sample in read_samples(tmp_path, "held_out")] == [f"s{i}" for i in range(0, 400, 4)]
    tracemalloc.start()
    count = sum(sample.references == ("one", "two") and len(sample.image) == size for sample in read_samples(tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 400
    assert peak < 400 * size / 2


def contents(folder: Path) -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert json.loads(files[".manifest.json"])["shards"]
    return files


SAMPLE_ROW = {"sample_id": "s", "split": "train", "image": b"png", "image_digest": "d", "prompt": "p"} | {
    "references": ["r"],
    "source": "a.png",
}


def test_prompts_without_an_image_are_samples_beside_those_with_one(tmp_path):
    prompt = {**SAMPLE_ROW, "sample_id": "t", "image": None, "image_digest": None}
    commit(tmp_path / "a", [SAMPLE_ROW, prompt])
    assert [(sample.sample_id, sample.image) for sample in read_samples(tmp_path / "a")] == [("s", b"png"), ("t", None)]


def commit(folder: Path, rows: list[dict[str, object]]) -> None:
    table = TableFolder(folder, "samples", MADE_BY, 8)
    with table.locked():
        table.begin()
    table.commit_shard(0, rows)
    table.finish(1)


def test_a_sample_without_a_picture_is_called_by_its_file_and_its_id(tmp_path):
    lost = Sample(sample_id="2b71", source="photos/house/brick.jpg")
    with pytest.raises(UserError, match=r"^sample brick\.jpg \(2b71\): the judge is shown it, and"):
        lost.require_image("the judge is shown it")
    with pytest.raises(UserError, match=r"^sample 2b71: "):
        Sample(sample_id="2b71").require_image("the judge is shown it")
