"""Recaptioning of sources of every kind: what is captioned, what is rejected and why, and what a kill leaves."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from coloured_squares import SMALL, squares
from PIL import Image
from pydantic import ValidationError
from scripted_server import Said, fail, say

from rubricworks.data import source_units as units_module
from rubricworks.data.source_units import source_units
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.runtime.launch import launch
from rubricworks.training.model_card import Usage, write_card


def recaption(run: Path, sources: list[object], captioners: list[dict], **fields: object) -> Path:
    config = {"sources": [str(source) for source in sources], "captioners": captioners, **fields}
    return Path(launch("recaption", json.dumps(config), str(run), {}))


def by_endpoint(url: str, **fields: object) -> list[dict]:
    return [{"endpoint": {"url": url, "model": "m", **fields}}]


def colour_of(_: int, body: dict) -> Said:
    """Captions an image by its first pixel's red value, so that an answer belongs to one image alone."""
    import base64

    data = body["messages"][0]["content"][0]["image_url"]["url"].partition(",")[2]
    pixel = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB").getpixel((0, 0))
    return say(f"red {pixel[0]}")


def png(red: int, mode: str = "RGB") -> bytes:
    return encoded(Image.new("RGB", (8, 8), (red, 80, 120)).convert(mode))


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def tar(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def captions_of(table: Path) -> dict[str, str]:
    return {row["sample_id"]: row["caption"] for row in read_rows(table)}


def rejections_of(table: Path) -> dict[str, str]:
    return {Path(row["source"]).name: row["reason"] for row in read_rows(table / "rejected")}


def contents(table: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(table)): path.read_bytes()
        for path in table.rglob("*")
        if path.suffix in (".parquet", ".json")
    }


def test_each_kind_of_source_gives_one_caption_per_image_under_its_own_key(tmp_path, serve):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.png").write_bytes(png(10))
    tar(tmp_path / "tars" / "0.tar", {"b.png": png(20), "b.txt": b"an old caption"})
    tar(tmp_path / "tars" / "1.tar", {"b.png": png(30)})
    rows = pa.table({"image": [png(40), png(50)], "caption": ["x", "y"]})
    (tmp_path / "rows").mkdir()
    pq.write_table(rows, tmp_path / "rows" / "r.parquet", row_group_size=1)
    from datasets import Dataset

    Dataset.from_dict({"image": [png(60)]}).save_to_disk(str(tmp_path / "saved"))
    sources = [folder, tmp_path / "tars", tmp_path / "rows", tmp_path / "saved"]
    table = recaption(tmp_path / "run", sources, by_endpoint(serve(colour_of).url))
    assert captions_of(table) == {
        "a.png": "red 10",
        "1:0.tar/b": "red 20",
        "1:1.tar/b": "red 30",
        "2:r.parquet#0": "red 40",
        "2:r.parquet#1": "red 50",
        "3:data-00000-of-00001.arrow#0": "red 60",
    }
    assert not list(read_rows(table / "rejected"))


@pytest.mark.slow
def test_unusable_images_are_rejected_with_reasons_and_unusual_ones_are_captioned(tmp_path, serve):
    whole = tar(tmp_path / "w" / "0.tar", {"ok.png": png(10), "cut.png": np.random.default_rng(0).bytes(40_000)})
    (tmp_path / "w" / "cut.tar").write_bytes(whole.read_bytes()[:20_000])
    deep = Image.fromarray(np.full((4, 4), 30_000, np.uint16))
    frames = [Image.new("RGB", (8, 8), (red, 0, 0)) for red in (0, 250)]
    members = {
        "empty.jpg": b"",
        "huge.png": encoded(Image.new("1", (20_000, 20_000))),
        "text.jpg": b"not an image",
        "animated.gif": encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "print.jpg": encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG"),
        "deep.png": encoded(deep),
        "alone.txt": b"no image",
        "ok.png": png(10),
    }
    tar(tmp_path / "t" / "0.tar", members)
    table = recaption(tmp_path / "run", [tmp_path / "t", tmp_path / "w" / "cut.tar"], by_endpoint(serve(colour_of).url))
    captions = captions_of(table)
    assert captions.keys() == {"0.tar/animated", "0.tar/print", "0.tar/deep", "0.tar/ok", "1:cut.tar/ok"}
    assert captions["0.tar/animated"] == "red 0", "the first frame is the picture"
    assert captions["0.tar/deep"] == f"red {30_000 >> 8}"
    rejected = rejections_of(table)
    assert rejected["empty"] == "the file is empty"
    assert "too large" in rejected["huge"]
    assert "not an image" in rejected["text"]
    assert "no image beside" in rejected["alone"]
    assert "damaged tar" in rejected["cut.tar"]


def test_second_shard_of_a_name_is_rejected_because_its_keys_would_repeat(tmp_path, serve):
    tar(tmp_path / "a" / "0.tar", {"x.png": png(10), "y.png": png(20), "x.jpg": png(30)})
    tar(tmp_path / "b" / "0.tar", {"x.png": png(40)})
    url = serve(colour_of).url
    table = recaption(tmp_path / "run", [tmp_path / "*" / "0.tar"], by_endpoint(url))
    # `x` comes again after `y`, and a WebDataset's sample is what stands together.
    assert captions_of(table) == {"0.tar/x": "red 10", "0.tar/y": "red 20"}
    reasons = [row["reason"] for row in read_rows(table / "rejected")]
    assert ["a second image has the key" in reasons[0], "a second file is called 0.tar" in reasons[1]] == [True, True]
    below_both = recaption(tmp_path / "whole", [f"webdataset:{tmp_path}"], by_endpoint(url))
    assert set(captions_of(below_both)) == {"a/0.tar/x", "a/0.tar/y", "b/0.tar/x"}


def test_model_here_and_an_endpoint_caption_the_same_images_side_by_side(tmp_path, serve):
    from rubricworks.training.tiny.student import build_student

    student = build_student([caption for _, _, caption in squares()], tmp_path / "student", config=SMALL, seed=1)
    tar(tmp_path / "0.tar", {f"{number}.png": image for number, (image, _, _) in enumerate(squares()[:3])})
    captioners = [
        {"name": "policy", "model": str(student), "max_new_tokens": 4, "batch_size": 2},
        *by_endpoint(serve([say("a wall")]).url),
    ]
    table = recaption(tmp_path / "run", [tmp_path / "0.tar"], captioners, prompt="describe the image .")
    rows = list(read_rows(table))
    assert [(row["captioner"], row["sample_id"]) for row in rows] == [
        (captioner, f"0.tar/{number}") for captioner in ("policy", "m") for number in range(3)
    ]
    assert all(1 <= row["completion_tokens"] <= 4 and len(row["revision"]) == 64 for row in rows[:3])
    assert {row["caption"] for row in rows[3:]} == {"a wall"}


def test_failed_call_is_a_dead_letter_and_no_caption(tmp_path, serve):
    tar(tmp_path / "0.tar", {"a.png": png(10), "b.png": png(20)})
    server = serve(
        lambda number, body: fail(400, "too dark") if "red 10" in captioned(body) else colour_of(number, body)
    )
    table = recaption(tmp_path / "run", [tmp_path / "0.tar"], by_endpoint(server.url))
    assert captions_of(table) == {"0.tar/b": "red 20"}
    letters = [(row["sample_id"], row["reason"]) for row in read_rows(table / "dead_letters")]
    assert letters == [("0.tar/a", "transport")]


def captioned(body: dict) -> str:
    return json.loads(colour_of(0, body).body)["choices"][0]["message"]["content"]


def test_source_without_images_is_refused_and_so_are_two_captioners_of_one_name(tmp_path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UserError, match="no images here"):
        recaption(tmp_path / "run", [tmp_path / "nothing"], by_endpoint("http://localhost:1/v1"))
    with pytest.raises(ValueError, match="two captioners are called m"):
        recaption(tmp_path / "run", [tmp_path], by_endpoint("http://a/v1") + by_endpoint("http://b/v1"))


def test_units_of_a_parquet_file_and_a_folder_cover_every_entry_once(tmp_path, monkeypatch):
    monkeypatch.setattr(units_module, "ENTRIES", 3)
    pq.write_table(pa.table({"image": [png(red) for red in range(10)]}), tmp_path / "r.parquet", row_group_size=2)
    units = source_units(str(tmp_path / "r.parquet"))
    assert [unit.name for unit in units] == ["r.parquet[0:]", "r.parquet[2:]", "r.parquet[4:]"]
    keys = [entry.key for unit in units for entry in unit.entries()]
    assert keys == [f"r.parquet#{number}" for number in range(10)]
    (tmp_path / "f").mkdir()
    for red in range(7):
        (tmp_path / "f" / f"{red}.png").write_bytes(png(red))
    units = source_units(str(tmp_path / "f"))
    assert [len(list(unit.entries())) for unit in units] == [3, 3, 1]


@pytest.mark.slow
def test_killed_recaptioning_goes_on_at_its_unit_and_ends_with_the_same_bytes(tmp_path, serve):
    for number in range(4):
        tar(tmp_path / "tars" / f"{number}.tar", {f"{red}.png": png(red + 10 * number) for red in range(10)})

    def killed(number: int, body: dict) -> Said:
        if number == 25 and processes:
            os.kill(processes.pop().pid, signal.SIGKILL)
        return colour_of(number, body)

    processes: list[subprocess.Popen] = []
    server = serve(killed)
    config = {"sources": [str(tmp_path / "tars")], "captioners": by_endpoint(server.url, concurrency=2)}
    command = [sys.executable, "-m", "rubricworks.runtime", "recaption", "--config", json.dumps(config)]
    process = subprocess.Popen([*command, "--run-uri", str(tmp_path / "killed")])
    processes.append(process)
    assert process.wait() == -signal.SIGKILL
    committed = sorted(path.name for path in (tmp_path / "killed" / "recaption" / "captions").glob("part-*.parquet"))
    assert committed
    assert len(committed) < 4
    before = len(server.chats)
    resumed = Path(launch("recaption", json.dumps(config), str(tmp_path / "killed"), {}))
    assert len(server.chats) - before <= 40 - 10 * len(committed)
    alone = Path(launch("recaption", json.dumps(config), str(tmp_path / "alone"), {}))
    assert contents(resumed) == contents(alone)
    assert len(captions_of(alone)) == 40


def test_thoughts_of_a_model_of_ones_own_are_no_captions(tmp_path, monkeypatch):
    texts = {10: "<think>A wall?</think>\n\nA wall.", 20: "Or a door?\n</think>\n\nA door.", 30: "<think>Hm", 40: " "}

    class Engine:
        def __call__(self, images, prompts, **_):
            pixels = [Image.open(io.BytesIO(image)).convert("RGB").getpixel((0, 0))[0] for image in images]
            return [(texts[red], 5) for red in pixels]

        def close(self):
            pass

    monkeypatch.setattr("rubricworks.training.engine.load_engine", lambda *_, **__: Engine())
    folder = tmp_path / "folder"
    folder.mkdir()
    for red in texts:
        (folder / f"{red}.png").write_bytes(png(red))
    table = recaption(tmp_path / "run", [folder], [{"model": str(tmp_path)}])
    assert captions_of(table) == {"10.png": "A wall.", "20.png": "A door."}
    letters = {row["sample_id"]: (row["reason"], row["raw"]) for row in read_rows(table / "dead_letters")}
    assert letters == {"30.png": ("malformed", "<think>Hm"), "40.png": ("malformed", " ")}


@pytest.mark.parametrize(("prompt", "expected"), [(None, "caption as trained"), ("another", "another")])
def test_all_captioners_are_asked_with_the_prompt_that_the_policy_was_trained_on(
    tmp_path, serve, monkeypatch, prompt, expected
):
    asked = []

    class Engine:
        def __call__(self, images, prompts, **_):
            asked.extend(prompts)
            return [("A wall.", 3) for _ in images]

        def close(self):
            pass

    monkeypatch.setattr("rubricworks.training.engine.load_engine", lambda *_, **__: Engine())
    policy, images = tmp_path / "policy", tmp_path / "images"
    policy.mkdir()
    write_card(policy, Usage("caption as trained"), trained_by="train_policy", data={}, config={})
    images.mkdir()
    (images / "a.png").write_bytes(png(10))
    run = tmp_path / "run"
    prepared = {"source": str(images), "prompt": "describe the image .", "train_only": True}
    samples = launch("prepare", json.dumps(prepared), str(run), {})
    server = serve([say("a wall")])
    config = {"captioners": [*by_endpoint(server.url), {"model": str(policy)}], "prompt": prompt}
    launch("recaption", json.dumps(config), str(run), {"samples": samples})
    (heard,) = server.chats
    assert [part["text"] for part in heard.body["messages"][0]["content"] if part["type"] == "text"] == [expected]
    assert asked == [expected]


def test_a_file_of_captions_stands_in_for_a_model_and_what_it_lacks_is_a_dead_letter(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a.png", "b.png", "c.png"):
        (folder / name).write_bytes(png(10))
    (folder / "broken.png").write_bytes(b"no image")
    captions = tmp_path / "gpt-4v.jsonl"
    rows = [{"file_name": "x/a.png", "caption": "by GPT-4V"}, {"file_name": "b.png", "caption": "too"}]
    captions.write_text("\n".join(map(json.dumps, rows)))
    captioners = [{"name": "gpt-4v", "responses": str(captions)}]
    table = recaption(tmp_path / "run", [folder], captioners)
    assert captions_of(table) == {"a.png": "by GPT-4V", "b.png": "too"}
    assert {row["captioner"] for row in read_rows(table)} == {"gpt-4v"}
    [letter] = read_rows(table / "dead_letters")
    assert letter["sample_id"] == "c.png"
    assert "gpt-4v.jsonl has no caption of it" in letter["message"]
    assert list(rejections_of(table)) == ["broken.png"]

    captions.write_text("\n".join(json.dumps({**row, "caption": "another"}) for row in rows))
    assert set(captions_of(recaption(tmp_path / "run", [folder], captioners)).values()) == {"another"}
    captions.write_text(json.dumps({"file_name": "other.png", "caption": "x"}))
    with pytest.raises(UserError, match=r"gpt-4v\.jsonl: no caption of the images of .*; they are known by their file"):
        recaption(tmp_path / "none", [folder], captioners)
    with pytest.raises(ValidationError, match="one of endpoint, model and responses"):
        recaption(tmp_path / "both", [folder], [{"model": "m", "responses": str(captions)}])
