"""A folder, Parquet files, a saved dataset and a tar: the same pictures with the same captions come out of each."""

import io
import json
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from rubricworks.data.images import image_digest
from rubricworks.data.source_entries import ImageEntry, RejectedEntry
from rubricworks.data.sources import SourceItem, image_entries, open_image, read_source
from rubricworks.errors import UserError

COLOURS = {"a": "red", "b": "green", "c": "blue"}


def picture(colour: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (12, 8), colour).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path):
    """Three pictures, two of them captioned, among things that are no pictures."""
    root = tmp_path / "photos"
    (root / "deep").mkdir(parents=True)
    (root / "a.png").write_bytes(picture("red"))
    (root / "deep" / "b.PNG").write_bytes(picture("green"))
    (root / "c.png").write_bytes(picture("blue"))
    (root / "._c.png").write_bytes(b"what another system leaves beside a file")
    (root / "notes.txt").write_text("nothing to see")
    lines = [{"file_name": "a.png", "text": "a red field"}, {"file_name": "deep/b.PNG", "texts": ["green", " a lawn "]}]
    (root / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return root


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def test_folder_gives_its_pictures_in_path_order_with_their_captions(folder):
    items = list(read_source(str(folder)))
    assert [item.key for item in items] == ["a.png", "c.png", "deep/b.PNG"]
    assert [item.references for item in items] == [("a red field",), (), ("green", "a lawn")]
    assert [item.image_digest for item in items] == [image_digest(picture(c)) for c in ("red", "blue", "green")]
    assert items == list(read_source(f"folder:{folder}")) == list(read_source(f"file://{folder}"))


def test_bad_files_are_rejected_with_a_reason_and_the_others_go_on(folder):
    (folder / "text.jpg").write_text("I only look like a picture")
    (folder / "cut.png").write_bytes(picture("red")[:40])
    (folder / "empty.jpg").touch()
    with (folder / "huge.jpg").open("wb") as file:
        file.truncate(200 * 2**20)
    items = list(read_source(str(folder)))
    reasons = {item.source.rpartition("/")[2]: item.reason for item in items if isinstance(item, RejectedEntry)}
    assert sum(isinstance(item, SourceItem) for item in items) == 3
    assert reasons.keys() == {"text.jpg", "cut.png", "empty.jpg", "huge.jpg"}
    assert reasons["text.jpg"].startswith("not an image")
    assert "too large" in reasons["huge.jpg"]


def test_metadata_that_names_a_missing_picture_is_reported_by_its_line(folder):
    with (folder / "metadata.jsonl").open("a") as file:
        file.write('\n{"file_name": "gone.png", "text": "was here"}\n')
    rejected = [item for item in read_source(str(folder)) if isinstance(item, RejectedEntry)]
    assert len(rejected) == 1
    assert rejected[0].source.endswith("metadata.jsonl:3")
    assert "gone.png, which does not exist" in rejected[0].reason


@pytest.mark.parametrize("line", ["{not json", '{"text": "no name"}', '{"file_name": "a.png", "text": 3}', "[]"])
def test_metadata_line_that_cannot_be_read_is_named(folder, line):
    (folder / "metadata.jsonl").write_text(f'{{"file_name": "a.png"}}\n{line}\n')
    with pytest.raises(UserError, match=r"metadata\.jsonl:2: "):
        list(read_source(str(folder)))


def test_single_picture_is_a_source(folder):
    assert [item.key for item in read_source(str(folder / "c.png"))] == ["c.png"]


def test_empty_folder_missing_path_and_unknown_kind_are_user_errors(tmp_path):
    for source, message in (
        (tmp_path, "no images here"),
        (tmp_path / "nowhere", "no such file"),
        ("zip:x", "not a kind"),
    ):
        with pytest.raises(UserError, match=message):
            list(read_source(str(source)))


@pytest.mark.parametrize("nested", [False, True])
def test_parquet_gives_pictures_and_captions(tmp_path, nested):
    images = [picture(colour) for colour in COLOURS.values()]
    column = [{"bytes": image, "path": None} for image in images] if nested else images
    table = pa.table({"id": list(COLOURS), "image": column, "captions": [["one", "two"], ["three"], None]})
    (tmp_path / "p").mkdir()
    pq.write_table(table.slice(0, 2), tmp_path / "p" / "0.parquet")
    pq.write_table(table.slice(2), tmp_path / "p" / "1.parquet")
    items = list(read_source(str(tmp_path / "p")))
    assert [item.key for item in items] == ["0.parquet#0", "0.parquet#1", "1.parquet#0"]
    assert [item.image for item in items] == images
    assert [item.references for item in items] == [("one", "two"), ("three",), ()]


def test_parquet_columns_can_be_named(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"left": [picture("red")], "right": [picture("blue")], "alt": ["says blue"]}), path)
    (item,) = read_source(str(path), image_column="right", caption_column="alt")
    assert item.image == picture("blue")
    assert item.references == ("says blue",)
    with pytest.raises(UserError, match="no column 'middle'; it has left, right, alt"):
        list(read_source(str(path), image_column="middle"))


@pytest.mark.parametrize(
    "columns",
    [("image_url", "caption"), ("URL", "TEXT"), ("image", "texts")],
    ids=["PixMo", "LAION", "by image column"],
)
def test_parquet_of_urls_gives_images_to_fetch_and_opens_none(tmp_path, columns):
    path = tmp_path / "x.parquet"
    urls = ["https://example.org/a.jpg", "http://example.org/b.jpg", "no url", None]
    pq.write_table(pa.table({"id": list(range(4)), columns[0]: urls, columns[1]: ["a", None, "c", "d"]}), path)
    first, second, third, fourth = image_entries(str(path))
    assert (first.key, first.url, first.source, first.references) == (urls[0], urls[0], urls[0], ("a",))
    assert (second.key, second.url, second.references) == (urls[1], urls[1], ())
    assert (third.source, third.reason) == (f"{path}#2", "not an http:// or https:// URL")
    assert open_image(fourth) == RejectedEntry(source=f"{path}#3", reason="the row has no image")
    assert open_image(first) == RejectedEntry(source=urls[0], reason="lies elsewhere and has not been fetched")


def test_bytes_go_before_urls_and_paths_are_no_urls(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"image_url": ["https://example.org/a.jpg"], "thumbnail": [picture("red")]}), path)
    (item,) = read_source(str(path))
    assert item.image == picture("red")
    for column, message in (("image", "'photos/a.jpg' is no URL"), ("image_path", "call the column image_url")):
        pq.write_table(pa.table({column: ["photos/a.jpg"]}), path)
        with pytest.raises(UserError, match=message):
            list(read_source(str(path)))


def test_text_file_gives_a_url_and_its_captions_a_line(tmp_path):
    lines = [
        "\ufeffhttps://example.org/a.jpg",
        "",
        "# a note",
        "http://example.org/b.jpg\tone\t two ",
        "nonsense\tthree",
    ]
    (tmp_path / "list.txt").write_text("\r\n".join(lines), encoding="utf-8")
    first, second, third = image_entries(f"urls:{tmp_path / 'list.txt'}")
    assert (first.key, first.url, first.references) == ("https://example.org/a.jpg", "https://example.org/a.jpg", ())
    assert (second.key, second.references) == ("http://example.org/b.jpg", ("one", "two"))
    assert third.source == f"{tmp_path / 'list.txt'}:5"
    assert list(image_entries(f"urls:{tmp_path}")) == [first, second, third]
    (tmp_path / "list.txt").write_text("# nothing\n")
    with pytest.raises(UserError, match="one URL a line"):
        list(image_entries(f"urls:{tmp_path}"))


def test_rows_without_a_picture_and_damaged_files_are_rejected(tmp_path):
    pq.write_table(pa.table({"image": pa.array([None, picture("red")], pa.binary())}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 not")
    empty, item, damaged = read_source(str(tmp_path))
    assert (empty.source.rpartition("/")[2], empty.reason) == ("a.parquet#0", "the row has no image")
    assert item.image == picture("red")
    assert "damaged Parquet" in damaged.reason


def test_dataset_saved_on_disk_is_read_split_by_split(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "caption": datasets.Value("string")})

    def split(names):
        rows = [
            {"image": {"bytes": picture(COLOURS[name]), "path": None}, "caption": f"picture {name}"} for name in names
        ]
        return datasets.Dataset.from_list(rows, features=features)

    datasets.Dataset.from_dict({"image_url": ["https://example.org/a.jpg"], "caption": ["a"]}).save_to_disk(
        tmp_path / "urls"
    )
    (entry,) = image_entries(str(tmp_path / "urls"))
    assert (entry.url, entry.references) == ("https://example.org/a.jpg", ("a",))

    whole = datasets.DatasetDict({"train": split("ab"), "test": split("c")})
    whole.save_to_disk(tmp_path / "saved")
    items = list(read_source(str(tmp_path / "saved")))
    assert [item.references for item in items] == [("picture a",), ("picture b",), ("picture c",)]
    assert [item.image_digest for item in items] == [image_digest(picture(colour)) for colour in COLOURS.values()]
    assert [item.key.partition("/")[0] for item in items] == ["train", "train", "test"]
    (only,) = read_source(f"hf:{tmp_path / 'saved' / 'test'}")
    assert only.references == ("picture c",)


def test_selected_rows_of_a_saved_dataset_are_the_ones_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = [{"image": picture(colour), "text": name} for name, colour in COLOURS.items()]
    datasets.Dataset.from_list(rows).select([2, 0]).save_to_disk(tmp_path / "saved")
    assert [item.references for item in read_source(str(tmp_path / "saved"))] == [("c",), ("a",)]


def test_webdataset_groups_members_by_key(tmp_path):
    for number, names in enumerate(("ab", "c")):
        with tarfile.open(tmp_path / f"shard-{number}.tar", "w") as tar:
            for name in names:
                add(tar, f"x/{name}.png", picture(COLOURS[name]))
                add(tar, f"x/{name}.cls", b"7")
                if name == "a":
                    add(tar, "x/a.txt", b"from the text\n")
                else:
                    add(tar, f"x/{name}.json", json.dumps({"captions": ["one", "two"], "width": 3}).encode())
    items = list(read_source(str(tmp_path)))
    assert [item.key for item in items] == ["shard-0.tar/x/a", "shard-0.tar/x/b", "shard-1.tar/x/c"]
    assert [item.image for item in items] == [picture(colour) for colour in COLOURS.values()]
    assert [item.references for item in items] == [("from the text",), ("one", "two"), ("one", "two")]
    assert items[:2] == [
        item.model_copy(update={"key": f"shard-0.tar/{item.key.partition('/')[2]}"})
        for item in read_source(f"webdataset:{tmp_path / 'shard-0.tar'}")
    ]


def test_cut_off_tar_gives_what_it_holds_and_says_where_it_ends(tmp_path):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as tar:
        for name, colour in COLOURS.items():
            add(tar, f"{name}.png", picture(colour) + bytes(2_000))
        add(tar, "d.txt", b"a caption without a picture")
    content = path.read_bytes()
    complete = list(read_source(str(path)))
    assert [type(item).__name__ for item in complete] == ["SourceItem"] * 3 + ["RejectedEntry"]
    path.write_bytes(content[: len(content) // 4])
    *items, last = read_source(str(path))
    assert len(items) < 3
    assert "damaged tar" in last.reason


PROMPTS = {"a": "<image>\nWhat do you see?", "b": "", "c": "Describe it."}
READ_PROMPTS = {"a": "What do you see?", "b": "", "c": "Describe it."}


def test_prompts_that_images_came_with_are_read_from_every_kind_of_source(tmp_path):
    pictures = {name: picture(colour) for name, colour in COLOURS.items()}
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = [json.dumps({"file_name": f"{name}.png", "text": name, "prompt": text}) for name, text in PROMPTS.items()]
    (folder / "metadata.jsonl").write_text("\n".join(lines))
    for name, image in pictures.items():
        (folder / f"{name}.png").write_bytes(image)
    columns = {"image": list(pictures.values()), "text": list(PROMPTS), "prompt": list(PROMPTS.values())}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        for name, image in pictures.items():
            add(tar, f"{name}.png", image)
            add(tar, f"{name}.json", json.dumps({"caption": name, "prompt": PROMPTS[name]}).encode())
    for source in (folder, tmp_path / "rows.parquet", tmp_path / "shard.tar"):
        items = list(read_source(str(source)))
        assert {item.references[0]: item.prompt for item in items} == READ_PROMPTS, source


def test_finding_opens_no_picture(folder):
    (folder / "text.jpg").write_text("I only look like a picture")
    entries = list(image_entries(str(folder)))
    assert all(isinstance(entry, ImageEntry) for entry in entries)
    assert sum(isinstance(open_image(entry), SourceItem) for entry in entries) == 3
