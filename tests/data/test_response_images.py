"""Images of responses: stored once by their digest, checked when read, dropped when no table names them."""

import gc
import hashlib
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from image_judge import noisy_image, plain_image

from rubricworks.data.response_images import ResponseImages, response_columns, response_of
from rubricworks.errors import UserError
from rubricworks.rubrics import Response

PNG, JPEG = Response.of_image(plain_image("red")), Response.of_image(plain_image("blue", format="JPEG"))


def files(folder) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_shard(folder, responses, number=0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [response_columns(response) for response in responses]
    schema = pa.schema([("response", pa.string()), ("response_type", pa.string())])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"part-{number:05d}.parquet")


def test_an_image_lies_under_the_sha256_of_its_bytes(tmp_path):
    images = ResponseImages(tmp_path / "images")
    for response in (PNG, JPEG, "a text", PNG):
        images.add(response)
    names = {
        hashlib.sha256(response.image).hexdigest(): (response.image, suffix)
        for response, suffix in ((PNG, "png"), (JPEG, "jpg"))
    }
    assert files(tmp_path) == {
        f"images/{digest[:2]}/{digest}.{suffix}": image for digest, (image, suffix) in names.items()
    }


def test_a_row_leads_back_to_the_very_response(tmp_path):
    images = ResponseImages(tmp_path / "images")
    for response in (PNG, JPEG, Response("a text")):
        images.add(response)
        row = response_columns(response)
        assert images.read(response_of(row)) == response
        assert images.read(response_of(row)).image == response.image
    assert response_columns("a text") == {"response": "a text", "response_type": None}
    assert response_columns(PNG) == {"response": PNG.digest, "response_type": "image/png"}
    assert response_of({"response": "a text of an older table"}) == "a text of an older table"


def test_a_stored_image_is_not_written_again(tmp_path):
    images = ResponseImages(tmp_path / "images")
    images.add(PNG)
    (path,) = (tmp_path / "images").rglob("*.png")
    before = path.stat()
    images.add(PNG)
    images.add(Response(digest=PNG.digest, media_type="image/png"))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_an_image_of_which_only_the_digest_is_known_cannot_be_stored(tmp_path):
    with pytest.raises(ValueError, match="only the digest of this image is known"):
        ResponseImages(tmp_path / "images").add(Response(digest=PNG.digest, media_type="image/png"))


def test_a_missing_and_a_damaged_image_are_named_and_never_shown(tmp_path):
    images = ResponseImages(tmp_path / "images")
    stripped = response_of(response_columns(PNG))
    with pytest.raises(UserError, match=rf"{PNG.digest}.png: the image cannot be read .*; run the stage"):
        images.read(stripped)
    images.add(PNG)
    assert images.damaged() is None
    (path,) = (tmp_path / "images").rglob("*.png")
    path.write_bytes(plain_image("green"))
    assert images.damaged() == path
    with pytest.raises(UserError, match=rf"{PNG.digest}.png: the image is damaged, its digest is another"):
        images.read(stripped)


def test_a_table_finds_its_images_in_its_own_folder_or_beside_it(tmp_path):
    sibling, own = tmp_path / "stage" / "rollouts", tmp_path / "responses"
    ResponseImages(tmp_path / "stage" / "images").add(PNG)
    ResponseImages(own / "images").add(JPEG)
    assert ResponseImages.of_table(sibling).read(response_of(response_columns(PNG))).image == PNG.image
    assert ResponseImages.of_table(f"file://{own}").read(response_of(response_columns(JPEG))).image == JPEG.image


def test_pruning_keeps_what_any_shard_beside_the_folder_names(tmp_path):
    of_rollouts, of_letters, of_main, stray = (Response.of_image(noisy_image("red", seed)) for seed in range(4))
    images = ResponseImages(tmp_path / "images")
    for response in (of_rollouts, of_letters, of_main, stray):
        images.add(response)
    write_shard(tmp_path / "rollouts", [of_rollouts, stray.digest])  # a text that reads like the digest names no image
    write_shard(tmp_path / "rollouts", [of_rollouts, "a text"], number=1)
    write_shard(tmp_path / "dead_letters", [of_letters])
    write_shard(tmp_path, [of_main])
    pq.write_table(pa.table({"sample_id": ["s"]}), tmp_path / "rollouts" / "part-00002.parquet")
    others = tmp_path / "images" / "ab" / "notes.png", tmp_path / "images" / "notes.txt"
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("another's")
    assert images.prune() == 1
    assert all(path.is_file() for path in others)
    assert {path.stem for path in (tmp_path / "images").rglob("*.png")} - {"notes"} == {
        response.digest for response in (of_rollouts, of_letters, of_main)
    }
    assert images.prune() == 0
    assert ResponseImages(tmp_path / "nowhere" / "images").prune() == 0


def test_beside_a_table_that_cannot_be_read_nothing_is_pruned(tmp_path):
    images = ResponseImages(tmp_path / "images")
    images.add(PNG)
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts" / "part-00000.parquet").write_bytes(b"PAR1 and no more")
    assert images.prune() == 0
    assert images.damaged() is None
    assert len(files(tmp_path / "images")) == 1


@pytest.mark.slow
def test_images_are_read_one_at_a_time(tmp_path):
    """All are 50 times the size of one, and no more than a few are held."""
    images = ResponseImages(tmp_path / "images")
    responses = [Response.of_image(noisy_image("green", seed, side=200)) for seed in range(50)]
    for response in responses:
        images.add(response)
    rows = [response_columns(response) for response in responses]
    size = len(responses[0].image)
    del responses, response
    images.read(response_of(rows[0]))  # what is imported or compiled when an image is first read is no image
    gc.collect()
    tracemalloc.start()
    try:
        assert sum(len(images.read(response_of(row)).image) > size // 2 for row in rows) == 50
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * size
