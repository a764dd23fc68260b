"""The prepare stage on a folder of images: what it promises is kept, whatever the images are worth."""

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rubricworks.data.tables import read_rows
from rubricworks.runtime.job import open_job
from rubricworks.stages.data import prepare


def jpeg(number: int) -> bytes:
    content = io.BytesIO()
    pixels = np.random.default_rng(number).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(content, "JPEG")
    return content.getvalue()


@pytest.fixture
def photographs(tmp_path) -> Path:
    """Forty files: 24 pictures, 10 copies of the first ten, and six that are no images."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(24):
        (folder / f"photo-{number:02}.jpg").write_bytes(jpeg(number))
    for number in range(10):
        (folder / f"copy-{number:02}.jpg").write_bytes(jpeg(number))
    for number in range(6):
        (folder / f"broken-{number}.jpg").write_bytes(b"no picture")
    return folder


def prepared(run: Path, source: Path, **config: object) -> tuple[list[dict], dict[str, str]]:
    """Rows of the samples, and reasons by the names of the rejected files."""
    run.mkdir()
    settings = prepare.Config(source=str(source), **config)
    job = open_job("prepare", settings, run, {})
    prepare.run(settings, job)
    rejected = {Path(row["source"]).name: row["reason"] for row in read_rows(job.out / "rejected")}
    return list(read_rows(job.out)), rejected


@pytest.mark.parametrize("seed", range(5))
def test_as_many_images_are_held_out_and_warmed_up_on_as_the_recipe_says(tmp_path, photographs, seed):
    rows, rejected = prepared(tmp_path / "run", photographs, held_out=10, warm_up=5, seed=seed, shard_size=7)
    assert Counter(row["split"] for row in rows) == {"held_out": 10, "warm_up": 5, "train": 9}
    assert len({row["image_digest"] for row in rows}) == 24
    assert len(rejected) == 16


def test_a_duplicate_names_the_file_that_is_taken_in_its_place(tmp_path, photographs):
    rows, rejected = prepared(tmp_path / "run", photographs, held_out=10, shard_size=7)
    taken = {Path(row["source"]).name for row in rows}
    for number in range(10):
        pair = {f"copy-{number:02}.jpg", f"photo-{number:02}.jpg"}
        (kept_out,) = pair - taken
        (other,) = pair & taken
        assert rejected[kept_out] == f"the same picture as {other}"


def test_one_image_at_least_remains_to_train_on(tmp_path, photographs):
    for path in photographs.glob("copy-*"):
        path.unlink()
    for path in photographs.glob("broken-*"):
        path.unlink()
    rows, _ = prepared(tmp_path / "run", photographs, held_out=500)
    assert Counter(row["split"] for row in rows) == {"held_out": 23, "train": 1}


def test_the_same_images_are_held_out_whatever_the_size_of_a_shard(tmp_path, photographs):
    first, _ = prepared(tmp_path / "run", photographs, held_out=10)
    second, _ = prepared(tmp_path / "again", photographs, held_out=10, shard_size=3)
    assert first == second
