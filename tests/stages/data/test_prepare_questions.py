"""The stage that makes samples of questions: what repeats, who sees which picture, what is counted, kills."""

import io
import json
import random
import signal
from collections import Counter
from pathlib import Path

import pytest
from asked_stages import tables
from forked import Forked
from PIL import Image
from pydantic import ValidationError
from question_rows import many, picture, question_row, write

from rubricworks.data.images import image_digest
from rubricworks.data.tables import Sample, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.runtime.launch import launch

PROGRAM = """
import os, signal, sys
from pathlib import Path
run, config, kill_at = sys.argv[1], sys.argv[2], int(sys.argv[3])

steps = 0
def killing(step):
    def before(*arguments):
        global steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*arguments)
    return before
os.fsync, Path.replace = killing(os.fsync), killing(Path.replace)

from rubricworks.runtime.launch import launch
launch("prepare_questions", config, run, {})
"""


def prepare(run: Path, source: str, **config: object) -> Path:
    return Path(launch("prepare_questions", json.dumps({"source": source, **config}), str(run), {}))


def samples(out: Path, *splits: str) -> list[Sample]:
    return list(read_samples(out, *splits))


def test_row_becomes_a_sample_with_its_template_and_its_options_in_line(tmp_path):
    rows = [
        question_row(
            1, "<image>which ?", answer="green", options=["red", "green"], task="colour", references=[r"it \boxed{B}"]
        ),
        question_row(2, "how many ?", answer=r"\boxed{3}"),
    ]
    source = write(tmp_path / "source", rows)
    out = prepare(tmp_path / "run", source, held_out=1, templates={"open": "Q {question} !"})
    choice, plain = sorted(samples(out), key=lambda sample: sample.question, reverse=True)
    assert (choice.question, choice.answer, choice.options) == ("which ? A red B green", "B", ("red", "green"))
    assert (choice.task, choice.references, choice.image) == ("colour", (r"it \boxed{B}",), picture(1))
    assert choice.prompt.startswith("which ?\nA. red\nB. green\n")
    assert (plain.question, plain.answer, plain.options, plain.task) == ("how many ?", "3", None, None)
    assert plain.prompt == "Q how many ? !"
    assert {sample.source for sample in (choice, plain)} == {f"{source}/questions.parquet#{at}" for at in (0, 1)}


def test_same_question_about_the_same_picture_is_kept_once_however_both_are_written(tmp_path):
    rows = [
        question_row(1, "how many stars are there ?"),
        question_row(1, "how many circles are there ?"),
        question_row(2, "how many stars are there ?"),
        question_row(1, "How many  STARS are there?", answer="2"),
        question_row(1, "how many stars are there ?", image=picture(1, level=1)),
        question_row(1, "how many stars are there ?", options=["1", "2"]),
        question_row(1, "How many stars are there?", options=["1", "2 "]),
    ]
    assert rows[4]["image"] != rows[0]["image"]
    out = prepare(tmp_path / "run", write(tmp_path / "source", rows), held_out=1)
    row_numbers = [int(sample.source.rpartition("#")[2]) for sample in samples(out)]
    assert row_numbers == [0, 1, 2, 5]
    rejected = list(read_rows(out / "rejected"))
    assert [row["source"].rpartition("#")[2] for row in rejected] == ["3", "4", "6"]
    assert {row["reason"] for row in rejected} == {"the same question about the same picture is there already"}
    counts = json.loads((out / "data.json").read_text())
    assert (counts["raw"], counts["duplicates"], counts["deduplicated"], counts["unusable"]) == (7, 3, 4, 0)
    assert counts["mcq_ratio"] == 1 / 4


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_picture_is_in_two_splits_and_enough_questions_are_held_out(tmp_path, seed):
    rows = many(pictures=40, each=3)
    random.Random(seed).shuffle(rows)
    out = prepare(tmp_path / "run", write(tmp_path / "source", rows), held_out=10, warm_up=20, seed=seed)
    splits: dict[str, set[str]] = {}
    for sample in samples(out):
        splits.setdefault(image_digest(sample.image), set()).add(sample.split)
    assert {len(split_names) for split_names in splits.values()} == {1}
    assert len(splits) == 40
    sizes = Counter(sample.split for sample in samples(out))
    assert 10 <= sizes["held_out"] < 13
    assert 20 <= sizes["warm_up"] < 23
    assert sizes.total() == 120


def test_split_depends_on_pictures_and_seed_and_not_on_order_or_neighbours(tmp_path):
    rows = many()
    mixed = [*rows, question_row(200, "one more ?")]
    random.Random(5).shuffle(mixed)
    parts = []
    for name, some in (("a", rows), ("b", mixed)):
        out = prepare(tmp_path / name, write(tmp_path / f"source-{name}", some), held_out=20)
        parts.append({sample.sample_id: sample.split for sample in samples(out)})
    moved = [sample_id for sample_id, split in parts[0].items() if parts[1][sample_id] != split]
    assert len(moved) <= 3  # the new picture may take one picture's place
    other = prepare(tmp_path / "c", str(tmp_path / "source-a"), held_out=20, seed=2)
    assert {sample.sample_id: sample.split for sample in samples(other)} != parts[0]


def test_max_train_draws_single_questions_and_leaves_the_other_splits_alone(tmp_path):
    source = write(tmp_path / "source", many())
    whole = prepare(tmp_path / "whole", source, held_out=10)
    part = prepare(tmp_path / "part", source, held_out=10, max_train=25)
    ids = {split: {sample.sample_id for sample in samples(whole, split)} for split in ("train", "held_out")}
    assert {sample.sample_id for sample in samples(part, "held_out")} == ids["held_out"]
    sample_ids = {sample.sample_id for sample in samples(part, "train")}
    assert len(sample_ids) == 25
    assert sample_ids < ids["train"]
    assert len({image_digest(sample.image) for sample in samples(part, "train")}) > 25 / 3


def test_counts_are_those_of_the_rows(tmp_path):
    rows = [
        *many(),
        question_row(1, "how many 0"),
        question_row(3, "", task="t0"),
        question_row(4, "?", image=b"no picture"),
    ]
    out = prepare(tmp_path / "run", write(tmp_path / "source", rows), held_out=10, name="My corpus", max_train=50)
    counts = json.loads((out / "data.json").read_text())
    assert counts.pop("splits") == dict(Counter(sample.split for sample in samples(out)))
    assert counts == {
        "name": "My corpus",
        "raw": 93,
        "unusable": 2,
        "duplicates": 1,
        "deduplicated": 90,
        "mcq_ratio": 18 / 90,
        "tasks": {"t0": 30, "t1": 30, "t2": 30},
        "corpora": [],
    }
    assert sorted(row["reason"].split(":")[0] for row in read_rows(out / "rejected")) == [
        "not an image",
        "the row has no question",
        "the same question about the same picture is there already",
    ]


def test_large_pictures_are_scaled_and_told_apart_as_scaled(tmp_path):
    rows = [
        question_row(1, "a?", image=picture(1, side=64)),
        question_row(1, "a?", image=picture(1, side=32)),
        question_row(2, "a?"),
    ]
    out = prepare(tmp_path / "run", write(tmp_path / "source", rows), held_out=1, max_side=32)
    assert len(samples(out)) == 2
    sizes = {Image.open(io.BytesIO(sample.image)).size for sample in samples(out)}
    assert sizes == {(32, 32), (16, 16)}


def test_questions_about_one_picture_cannot_be_split(tmp_path):
    rows = [question_row(1, "a?"), question_row(1, "b?"), question_row(2, "c?", image=b"text")]
    source = write(tmp_path / "source", rows)
    with pytest.raises(UserError, match=r"about 1 different images; at least 2.*parquet#2: not an image"):
        prepare(tmp_path / "run", source)
    assert json.loads((tmp_path / "run" / "error.json").read_text())["stage"] == "prepare_questions"


def test_wrong_settings_are_refused_before_anything_is_read(tmp_path):
    for config in ({"templates": {"open": "no place"}}, {"columns": {"picture": "x"}}, {"held_out": 0}):
        with pytest.raises(ValidationError):
            prepare(tmp_path / "run", str(tmp_path / "nowhere"), **config)


def contents(run: Path) -> dict[str, bytes]:
    return tables(run) | {"data.json": (run / "prepare_questions" / "data.json").read_bytes()}


def test_killed_between_any_two_steps_of_a_commit_ends_byte_identical(tmp_path):
    rows = [*many(pictures=12, each=2), question_row(1, "How many 0?"), question_row(2, "")]
    config = json.dumps({"source": write(tmp_path / "source", rows), "held_out": 5, "shard_size": 9})

    def start(run: Path, kill_at: int = 0) -> int:
        return Forked(PROGRAM, run, config, kill_at).wait()

    assert start(tmp_path / "unbroken") == 0
    run, killed = tmp_path / "run", 0
    for kill_at in (2, 5, 8, 7, 6, 11):
        code = start(run, kill_at)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        assert not (run / "prepare_questions" / "done.json").exists()
        killed += 1
    assert killed >= 4
    assert code == 0 or start(run) == 0
    assert contents(run) == contents(tmp_path / "unbroken")


def test_second_attempt_reads_the_digests_of_the_first(tmp_path):
    source = write(tmp_path / "source", many())
    whole = contents(prepare(tmp_path / "run", source, held_out=10).parent)
    (memory,) = (tmp_path / "run" / "scratch").rglob("*.jsonl")
    lines = memory.read_bytes().splitlines()
    assert len([line for line in lines if line]) == 30  # each picture was opened once, for three questions
    again = tmp_path / "again" / memory.relative_to(tmp_path / "run")
    again.parent.mkdir(parents=True)
    again.write_bytes(b"\n".join(lines[:10]) + b'\n["abc", "de')
    assert contents(prepare(tmp_path / "again", source, held_out=10).parent) == whole


def test_several_corpora_are_mixed_with_counts_of_each_and_repeats_are_the_firsts(tmp_path):
    first, second = many(12, 2), many(20, 1)
    second += [question_row(0, "how many 0 ?", options=["0", "1"])] * 2
    third = [{**question_row(900 + at, f"what {at} ?"), "task": "what"} for at in range(5)]
    places = [write(tmp_path / name, rows) for name, rows in (("a", first), ("ab", second), ("c", third))]
    more = [{"source": places[1], "name": "Second"}, {"source": places[2]}]
    out = prepare(tmp_path / "run", places[0], held_out=4, more=more)
    rows = list(read_rows(out))
    by_place = Counter(Path(row["source"].partition("#")[0]).parent.name for row in rows)
    keys = [{(row["image"], row["question"], bool(row.get("options"))) for row in part} for part in (first, second)]
    assert by_place == {"a": 24, "ab": len(keys[1] - keys[0]), "c": 5}
    counts = json.loads((out / "data.json").read_text())
    assert [corpus["name"] for corpus in counts["corpora"]] == ["a", "Second", "c"]
    assert [corpus["source"] for corpus in counts["corpora"]] == places
    assert [corpus["raw"] for corpus in counts["corpora"]] == [24, 22, 5]
    assert [corpus["deduplicated"] for corpus in counts["corpora"]] == [by_place["a"], by_place["ab"], by_place["c"]]
    assert (counts["raw"], counts["deduplicated"]) == (51, len(rows))
    assert counts["splits"] == dict(Counter(row["split"] for row in rows))
    assert counts["tasks"]["what"] == 5
    # The same picture is in one split, whichever corpora ask about it.
    splits = {(row["image_digest"], row["split"]) for row in rows}
    assert len(splits) == len({digest for digest, _ in splits})
    alone = json.loads((prepare(tmp_path / "alone", places[0], held_out=4) / "data.json").read_text())
    assert alone["corpora"] == []
    assert "source" not in alone
