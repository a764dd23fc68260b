"""Captions and images wherever data sets have them: each is read, or one line says what is not and why."""

import base64
import csv
import io
import json
import re
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from image_server import picture

from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.sources import read_source
from rubricworks.errors import UserError

PNG = picture()
TEXT = base64.b64encode(PNG).decode()
LLAVA = [{"from": "human", "value": "<image>\nDescribe it."}, {"from": "gpt", "value": "a red field"}]
OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Describe it."}]},
    {"role": "assistant", "content": "a red field"},
]


def read(source):
    """(captions, prompt) of each image, and reasons of what was rejected."""
    items = list(read_source(str(source)))
    rejected = [item.reason for item in items if isinstance(item, RejectedEntry)]
    return [(item.references, item.prompt) for item in items if not isinstance(item, RejectedEntry)], rejected


RECORDS = [
    ({"text": "a"}, ("a",), ""),
    ({"caption": "a"}, ("a",), ""),
    ({"captions": ["a", "b"]}, ("a", "b"), ""),
    ({"description": "a"}, ("a",), ""),
    ({"text": "a", "texts": ["b"]}, ("a", "b"), ""),
    ({"caption": "a", "prompt": "<image>What?"}, ("a",), "What?"),
    ({"conversations": LLAVA}, ("a red field",), "Describe it."),
    ({"messages": OPENAI}, ("a red field",), "Describe it."),
]


@pytest.mark.parametrize(("record", "references", "prompt"), RECORDS)
@pytest.mark.parametrize("place", ["metadata.jsonl", "sidecar", "tar", "llava"])
def test_a_record_is_read_alike_wherever_it_is(tmp_path, place, record, references, prompt):
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.png").write_bytes(PNG)
    if place == "metadata.jsonl":
        (root / place).write_text(json.dumps({"file_name": "a.png", **record}))
    elif place == "sidecar":
        (root / "a.json").write_text(json.dumps(record))
    elif place == "llava":
        (root / "llava.json").write_text(
            json.dumps([{"image": "a.png", "conversations": LLAVA, **record}, {"id": "text"}])
        )
    else:
        root = write_tar(tmp_path / "a.tar", {"a.png": PNG, "a.json": json.dumps(record).encode()})
    assert read(root) == ([(references, prompt)], [])


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_a_csv_of_metadata_and_text_files_caption_images(tmp_path):
    for name in ("a.png", "b.c.png", "d.png"):
        (tmp_path / name).write_bytes(PNG)
    with (tmp_path / "metadata.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["file_name", "text", "label"], ["a.png", 'a "red", field', "7"]])
    (tmp_path / "a.txt").write_text("not this one")
    (tmp_path / "b.c.txt").write_text("\ufeffred\n")
    (tmp_path / "b.c.caption").write_text("a field")
    assert read(tmp_path) == ([(('a "red", field',), ""), (("red", "a field"), ""), ((), "")], [])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", b"{", r"captions not read: a\.json \("),
        ("a.txt", b"gr\xfcn", r"captions not read: a\.txt \(.*codec"),
        ("a.txt", b"x" * 2_000_000, "larger than a mebibyte"),
        ("a.json", json.dumps({"conversations": LLAVA * 2}), "of its conversation's 4 turns the first two are read"),
        ("a.json", json.dumps({"conversations": LLAVA[1:]}), "its conversation is not a turn of human"),
        ("metadata.csv", b"file_name,text\ngone.png,x\n", r"names gone\.png, which does not exist"),
    ],
)
def test_captions_that_are_not_read_are_one_line(tmp_path, name, content, reason):
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    items, (told,) = read(tmp_path)
    assert len(items) == 1
    assert re.search(reason, told)


def test_metadata_without_file_name_or_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "metadata.csv").write_text("image_id,text\n1,x\n")
    with pytest.raises(UserError, match=r'metadata\.csv:2: no "file_name"'):
        read(tmp_path)
    (tmp_path / "metadata.csv").write_bytes(b"file_name,text\na.png,gr\xfcn\n")
    with pytest.raises(UserError, match="no CSV in UTF-8"):
        read(tmp_path)


def test_of_a_tar_a_name_of_several_dots_is_told_with_what_webdataset_makes_of_it(tmp_path):
    members = {"IMG.2024.01.png": PNG, "IMG.2024.01.txt": b"a", "b.png": PNG, "b.cls": b"7", "c.heic": b"?"}
    items, rejected = read(write_tar(tmp_path / "a.tar", members))
    assert len(items) == 1
    assert rejected == [
        "its sample is 'IMG', the name up to the first dot, and '2024.01.png' no kind of file; rename it",
        "its sample is 'IMG', the name up to the first dot, and '2024.01.txt' no kind of file; rename it",
        "c.heic is no kind of image that is read",
    ]


def test_of_two_members_with_one_name_the_first_is_read(tmp_path):
    path = tmp_path / "a.tar"
    write_tar(path, {"a.png": PNG, "a.PNG": b"no image"})
    assert read(path) == ([((), "")], ["a member of this name stands before it"])


IMAGES = [
    pa.array([list(PNG)], pa.list_(pa.uint8())),
    pa.array([[list(PNG)]], pa.list_(pa.list_(pa.uint8()))),
    pa.array([PNG]).dictionary_encode(),
    pa.array([PNG], pa.large_binary()),
    pa.array([PNG], pa.binary(len(PNG))),
    pa.array([PNG], pa.binary_view()),
    pa.array([{"bytes": PNG, "path": None}]),
    pa.array([TEXT]),
    pa.array([f"data:image/png;base64,{TEXT}"]).dictionary_encode(),
    pa.array([TEXT], pa.large_string()),
]


@pytest.mark.parametrize("image", IMAGES, ids=lambda column: str(column.type))
def test_images_are_read_from_columns_of_any_type_that_holds_them(tmp_path, image):
    caption = pa.array(["red"]).dictionary_encode()
    pq.write_table(
        pa.table({"label": pa.array([[1, 2]], pa.list_(pa.uint8())), "image": image, "text": caption}),
        tmp_path / "a.parquet",
    )
    assert read(tmp_path / "a.parquet") == ([(("red",), "")], [])


PLAIN = [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "a field"}]


@pytest.mark.parametrize(
    ("name", "turns", "said"),
    [
        ("conversations", LLAVA, (("a red field",), "Describe it.")),
        ("messages", PLAIN, (("a field",), "What is it?")),
    ],
)
def test_a_column_of_conversations_gives_prompt_and_caption(tmp_path, name, turns, said):
    pq.write_table(pa.table({"image": [PNG], name: [turns]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == ([said], [])


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ([TEXT, "data:image/png;base64,%%%"], "neither a data URL nor base64"),
        ([TEXT, TEXT[:60]], "damaged image"),
        ([TEXT, "photos/a.png"], "not an http:// or https:// URL"),
    ],
)
def test_a_cell_that_holds_no_image_is_one_line_and_the_others_are_read(tmp_path, cells, reason):
    pq.write_table(pa.table({"image": cells}), tmp_path / "a.parquet")
    items, (told,) = read(tmp_path / "a.parquet")
    assert len(items) == 1
    assert reason in told
