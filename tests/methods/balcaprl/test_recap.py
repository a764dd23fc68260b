"""References written anew: on photographs whose captions lie beside them, by a captioner on loopback."""

import json
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from scripted_server import fail, say

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.runtime.launch import launch

HELD_OUT, WARM_UP, IMAGES = 2, 1, 7


def prepared(folder: Path, *, captions: bool = True) -> str:
    (folder / "images").mkdir(parents=True)
    for number in range(IMAGES):
        content = BytesIO()
        Image.new("RGB", (20, 20), (30 * number, 80, 120)).save(content, "PNG")
        (folder / "images" / f"{number}.png").write_bytes(content.getvalue())
    if captions:
        lines = [
            json.dumps({"file_name": f"{n}.png", **({"text": f"weak caption {n}"} if n > WARM_UP else {})})
            for n in range(IMAGES)
        ]
        (folder / "images" / "metadata.jsonl").write_text("\n".join(lines))
    config = {"source": str(folder / "images"), "held_out": HELD_OUT, "warm_up": WARM_UP, "prompt": "what is there?"}
    return launch("prepare", json.dumps(config), str(folder / "prepared"), {})


def recap(folder: Path, samples: str, **config) -> Path:
    return Path(launch("recap", json.dumps(config), str(folder / "run"), {"samples": samples}))


def rows(table: str | Path) -> dict[str, dict]:
    return {row["sample_id"]: row for row in read_rows(table)}


def test_samples_come_out_with_the_strong_caption_alone_and_otherwise_as_they_were(tmp_path, serve):
    server = serve(lambda n, body: say(f"  a strong caption by {body['model']} \n", tokens=(100, 7)))
    samples = prepared(tmp_path)
    captioner = {"url": server.url, "model": "strong", "prices": [1.0, 10.0]}
    out = recap(tmp_path, samples, captioner=captioner, seed=5)

    before, after = rows(samples), rows(out)
    assert {row["split"] for row in after.values()} == {"train", "held_out"}
    assert len(after) == IMAGES - WARM_UP
    for sample_id, row in after.items():
        assert row == {**before[sample_id], "references": ["a strong caption by strong"]}
    recaptions = rows(out / "captions")
    assert recaptions.keys() == after.keys()
    assert {(row["captioner"], row["seed"], row["completion_tokens"]) for row in recaptions.values()} == {
        ("strong", 5, 7)
    }
    assert all(row["cost"] == pytest.approx((100 * 1 + 7 * 10) / 1e6) for row in recaptions.values())
    # The request is the sample's own, as in the paper.
    prompt = server.chats[0].body["messages"][0]["content"]
    assert [part["text"] for part in prompt if part["type"] == "text"] == ["what is there?"]
    assert [part["type"] for part in prompt].count("image_url") == 1


def test_without_a_captioner_the_own_caption_is_the_reference(tmp_path):
    samples = prepared(tmp_path)
    out = recap(tmp_path, samples)
    before, after = rows(samples), rows(out)
    assert after == {key: row for key, row in before.items() if row["split"] != "warm_up" and row["references"]}
    assert all(row["references"][0].startswith("weak caption") for row in after.values())
    assert not list(read_rows(out / "captions"))
    (line,) = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    assert line["samples"] + line["without_reference"] == IMAGES - WARM_UP
    assert line["without_reference"] > 0


def test_weak_training_references_leave_the_held_out_ones_unchanged(tmp_path, serve):
    server = serve(lambda *_: say("strong"))
    samples = prepared(tmp_path)
    out = recap(tmp_path, samples, captioner={"url": server.url, "model": "m"}, splits=["held_out"], prompt="In full:")
    references = {(row["split"], row["references"][0].split()[0]) for row in rows(out).values()}
    assert references == {("train", "weak"), ("held_out", "strong")}
    assert len(server.chats) == HELD_OUT
    assert "In full:" in server.chats[0].text


def test_a_sample_whose_caption_failed_is_left_out_and_its_dead_letter_says_why(tmp_path, serve):
    failing = iter([True])
    server = serve(lambda *_: fail(400, "too large") if next(failing, False) else say("strong"))
    out = recap(tmp_path, prepared(tmp_path), captioner={"url": server.url, "model": "m"})
    (letter,) = read_rows(out / "dead_letters")
    assert (letter["stage"], letter["purpose"], letter["reason"]) == ("recap", "recaption by m", "transport")
    assert "too large" in letter["message"]
    assert letter["sample_id"] not in rows(out)
    assert len(rows(out)) == IMAGES - WARM_UP - 1


def test_images_without_captions_and_no_captioner_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(UserError, match=r"no image came with a caption; .*recap\.captioner"):
        recap(tmp_path, prepared(tmp_path, captions=False))


def test_a_captioner_that_says_nothing_stops_the_run_and_another_one_goes_on(tmp_path, serve):
    server = serve(lambda _, body: say("a caption at last" if body["model"] == "other" else " "))
    samples = prepared(tmp_path)
    with pytest.raises(UserError):
        recap(tmp_path, samples, captioner={"url": server.url, "model": "mute"})
    out = recap(tmp_path, samples, captioner={"url": server.url, "model": "other"})
    assert len(rows(out)) == IMAGES - WARM_UP
