"""Sources that reach for what is not theirs: files outside the folder, devices, and JSON made to break a parser."""

import io
import json
import os
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from image_server import picture

from rubricworks.data.questions import QuestionEntry, question_entries
from rubricworks.data.rows import iter_rows
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.sources import SourceItem, image_entries, open_image, read_source
from rubricworks.errors import UserError

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def secret(tmp_path):
    """An image that lies outside the source's folder."""
    file = tmp_path / "secret.png"
    file.write_bytes(picture())
    return file


@pytest.fixture
def source(tmp_path, secret):
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "own.png").write_bytes(picture())
    (folder / "linked.png").symlink_to(secret)
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "inside.png").symlink_to("own.png")
    os.mkfifo(folder / "pipe.png")
    return folder


def question_rows(folder, *images: str) -> list[dict]:
    return [{"question": "what is it?", "answer": "a picture", "image": image} for image in images]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_image_of_a_question_that_leads_out_of_the_source_is_a_row_with_the_reason(source, secret, kind):
    rows = question_rows(source, "../secret.png", str(secret), "sub/../../secret.png", "linked.png", "/dev/zero",
                         "zero.png", "pipe.png", "own.png", "inside.png", "sub/../own.png")  # fmt: skip
    if kind == "jsonl":
        (source / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), source / "rows.parquet")
    for place in (source, source / f"rows.{kind}"):
        opened = []
        for entry in question_entries(str(place)):
            assert isinstance(entry, QuestionEntry)
            opened.append(open_image(entry.image))
        reasons = [item.reason for item in opened if isinstance(item, RejectedEntry)]
        assert [isinstance(item, SourceItem) for item in opened] == [False] * 7 + [True] * 3
        assert all("leads out of" in reason for reason in reasons[:6])
        assert "no regular file" in reasons[6]


def test_image_beside_the_folder_of_its_rows_and_inside_the_source_is_read(source):
    row = {"question": "what is it?", "answer": "a picture", "image": "../own.png"}
    (source / "sub" / "rows.jsonl").write_text(json.dumps(row))
    (entry,) = question_entries(str(source))
    assert isinstance(open_image(entry.image), SourceItem)


def test_links_out_of_a_folder_of_images_and_devices_in_it_are_rows_with_the_reason(source):
    (source / "broken.png").symlink_to("gone.png")
    items = list(read_source(str(source)))
    assert [item.key for item in items if isinstance(item, SourceItem)] == ["inside.png", "own.png"]
    reasons = {item.source.rpartition("/")[2]: item.reason for item in items if isinstance(item, RejectedEntry)}
    assert reasons.keys() == {"linked.png", "zero.png", "pipe.png", "broken.png"}
    assert "leads out of" in reasons["linked.png"]


def test_links_into_the_store_of_a_hub_download_are_followed(tmp_path):
    download = tmp_path / "datasets--me--photos"
    (download / "blobs").mkdir(parents=True)
    (download / "blobs" / "3f2a").write_bytes(picture())
    snapshot = download / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (snapshot / "a.png").symlink_to("../../blobs/3f2a")
    (item,) = read_source(str(snapshot))
    assert isinstance(item, SourceItem)


@pytest.mark.parametrize("line", [DEEP, '{"file_name": ' + DEEP + "}"])
def test_nested_metadata_is_one_clear_line(source, line):
    (source / "metadata.jsonl").write_text(line)
    with pytest.raises(UserError, match=r"metadata\.jsonl:1: not JSON"):
        list(image_entries(str(source)))


def test_nested_webdataset_captions_are_rejected_and_the_image_stays(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name, content in (("a.png", picture()), ("a.json", DEEP.encode()), ("b.png", picture()), ("b.json", b"{")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    items = list(read_source(str(tmp_path / "x.tar")))
    assert [type(item).__name__ for item in items] == ["SourceItem", "RejectedEntry"] * 2
    assert all("captions not read: not JSON" in item.reason for item in items[1::2])


def test_nested_rows_are_one_clear_line(tmp_path):
    (tmp_path / "rows.jsonl").write_text(DEEP)
    with pytest.raises(UserError, match=r"rows\.jsonl:1: not JSON"):
        list(iter_rows(tmp_path / "rows.jsonl", ["sample_id"]))


@pytest.mark.parametrize("listing", [{"splits": ["../other"]}, {"splits": ["/etc"]}, {"splits": [["a"]]}])
def test_saved_dataset_that_names_a_place_outside_itself_is_refused(tmp_path, listing):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps(listing))
    with pytest.raises(UserError, match=r"dataset_dict\.json: damaged"):
        list(image_entries(f"hf:{tmp_path / 'saved'}"))


def test_saved_dataset_whose_state_names_a_file_outside_itself_is_refused(tmp_path):
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../x.arrow"}]}))
    with pytest.raises(UserError, match=r"state\.json: damaged"):
        list(image_entries(f"hf:{tmp_path}"))


def test_links_out_of_the_fixed_folder_of_a_pattern_are_rows_with_the_reason(source):
    for place in (source / "*.png", source / "linked.png"):
        items = {item.source.rpartition("/")[2]: item for item in read_source(str(place)) if hasattr(item, "reason")}
        assert "leads out of" in items["linked.png"].reason
    assert [item.key for item in read_source(str(source / "own*"))] == ["own.png"]
