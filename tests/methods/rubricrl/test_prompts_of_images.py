"""The stage that reads prompts: formats, lengths, splits, rejections."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rubricworks.data.tables import read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.runtime.launch import launch


def prepare(tmp_path, source, **config):
    settings = {"source": str(source), "held_out": 1, **config}
    return Path(launch("prepare_prompts", json.dumps(settings), str(tmp_path / "run"), {}))


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_lines_of_text_become_samples_without_images_and_held_out_ones_repeat(tmp_path):
    source = tmp_path / "prompts.txt"
    source.write_text("a dog\n\na cat\na bird, flying\na dog\n", encoding="utf-8")
    out = prepare(tmp_path, source, images_per_prompt=3)
    samples = list(read_samples(out))
    assert len({sample.sample_id for sample in samples}) == len(samples) == 5
    assert all(sample.image is None for sample in samples)
    held_out = [sample.prompt for sample in samples if sample.split == "held_out"]
    assert len(held_out) == 3
    assert len(set(held_out)) == 1
    train = {sample.prompt for sample in samples if sample.split == "train"}
    assert train | set(held_out) == {"a dog", "a cat", "a bird, flying"}
    assert [row["reason"] for row in read_rows(out / "rejected")] == ["the same prompt is there already"]


def test_one_of_several_lengths_is_drawn_by_the_seed(tmp_path):
    rows = [{"prompts": [f"short {at}", f"long {at} " + "words " * at]} for at in range(40)]
    source = jsonl(tmp_path / "p.jsonl", rows)
    drawn = {
        seed: [sample.prompt for sample in read_samples(prepare(tmp_path / str(seed), source, seed=seed))]
        for seed in (1, 2)
    }
    assert all(any(word in " ".join(drawn[seed]) for word in ("short", "long")) for seed in drawn)
    assert set(drawn[1]) != set(drawn[2])
    again = [sample.prompt for sample in read_samples(prepare(tmp_path / "again", source, seed=1))]
    assert again == drawn[1]


def test_genevals_own_file_gives_the_held_out_prompts_with_their_requirements(tmp_path):
    row = {"tag": "counting", "include": [{"class": "dog", "count": 2}], "exclude": [{"class": "dog", "count": 3}]}
    held_out = jsonl(tmp_path / "evaluation_metadata.jsonl", [{**row, "prompt": "a photo of two dogs"}])
    table = pa.table({"prompt": ["a photo of two dogs", "a photo of a cat"]})
    pq.write_table(table, tmp_path / "train.parquet")
    out = prepare(tmp_path, tmp_path / "train.parquet", held_out_source=str(held_out), images_per_prompt=2)
    by_split = {"train": [], "held_out": []}
    for sample in read_samples(out):
        by_split[sample.split].append(sample)
    assert [sample.prompt for sample in by_split["train"]] == ["a photo of a cat"]
    assert [sample.task for sample in by_split["held_out"]] == ["counting", "counting"]
    assert json.loads(by_split["held_out"][0].answer) == row


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": " "}, "empty"),
        ({"text": "a dog"}, "no text in `prompt`"),
        ({"prompts": []}, "no text in `prompt`"),
        ({"prompts": ["a", 3]}, "no text in `prompt`"),
        ({"prompt": "x" * 20_001}, "20000 characters"),
        ({"prompt": "a", "include": [{"class": "dog", "count": 1}]}, "without the `tag`"),
        ({"prompt": "a", "tag": "t", "include": [{"class": "dog", "count": "2"}]}, "no whole `count`"),
        ({"prompt": "a", "tag": "t", "include": [{"count": 2}]}, "no `class`"),
    ],
)
def test_a_row_that_cannot_be_used_is_listed_with_its_reason(tmp_path, row, reason):
    source = jsonl(tmp_path / "p.jsonl", [row, {"prompt": "a dog"}, {"prompt": "a cat"}])
    out = prepare(tmp_path, source)
    (rejected,) = read_rows(out / "rejected")
    assert reason in rejected["reason"]
    assert rejected["source"].endswith("p.jsonl:1")


def test_a_file_that_is_not_there_or_no_text_is_one_line(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        prepare(tmp_path, tmp_path / "none.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(UserError, match="not UTF-8"):
        prepare(tmp_path / "b", tmp_path / "latin.txt")
