"""Captions in another encoding than UTF-8 are named with their place, and never read as other letters."""

import io
import json
import tarfile

import pytest
from coloured_squares import squares

from rubricworks.data.rows import iter_rows
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.sources import SourceItem, read_source
from rubricworks.errors import UserError

LATIN = "a café".encode("latin-1")


def test_a_line_of_json_in_latin_1_is_told_with_its_byte(tmp_path):
    file = tmp_path / "captions.jsonl"
    file.write_bytes(json.dumps({"caption": "a"}).encode() + b'\n{"caption": "' + LATIN + b'"}\n')
    with pytest.raises(
        UserError, match=r"captions.jsonl:2: not UTF-8 \(byte 0xe9, number 19\); save the file as UTF-8"
    ):
        list(iter_rows(str(file), ["caption"]))


@pytest.mark.parametrize(("extension", "content"), [("txt", LATIN), ("json", b'{"caption": "' + LATIN + b'"}')])
def test_a_caption_of_a_tar_in_latin_1_is_rejected_and_its_image_is_not(tmp_path, extension, content):
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for name, data in (("a.png", squares()[0][0]), (f"a.{extension}", content)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    image, rejected = read_source(str(tmp_path / "0.tar"))
    assert isinstance(image, SourceItem)
    assert (image.key, image.references) == ("0.tar/a", ())
    assert isinstance(rejected, RejectedEntry)
    assert rejected.source.endswith(f"0.tar/a.{extension}")
    assert rejected.reason.startswith("captions not read: not UTF-8 (byte 0xe9")
