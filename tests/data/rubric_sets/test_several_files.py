"""Rubric sets of several files: a pattern of them, and rows without names in each."""

import json

import pytest

from rubricworks.data.rubric_sets import read_rubric_set
from rubricworks.errors import UserError

RAR = {"question": "q", "reference_answer": "a", "rubric": [{"title": "t", "description": "d", "weight": 1}]}
HUB = {"question": "q", "rubrics": [{"criterion": "c", "points": 1}]}
VERL = {"prompt": [{"role": "user", "content": "q"}], "reward_model": {"rubrics": HUB["rubrics"]}}


@pytest.fixture(params=[RAR, HUB, VERL], ids=["rar", "rubrichub", "verl"])
def shards(request, tmp_path):
    for name, rows in (("train-0", 2), ("train-1", 1), ("val", 1)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(request.param)}\n" for _ in range(rows)))
    return tmp_path


def ids(source):
    return [entry.sample_id for entry in read_rubric_set(source, note=str)]


def test_rows_without_names_are_numbered_across_the_files_of_a_set(shards):
    assert ids(shards) == ["row-0", "row-1", "row-2", "row-3"]


def test_a_pattern_chooses_files(shards):
    assert ids(shards / "train-*.jsonl") == ["row-0", "row-1", "row-2"]
    assert ids(f"{shards}/*-1.jsonl") == ["row-0"]
    with pytest.raises(UserError, match="no such file"):
        ids(shards / "test-*.jsonl")


def test_a_fault_is_told_by_the_row_of_its_own_file(shards):
    (shards / "train-1.jsonl").write_text("[1]\n")
    with pytest.raises(UserError, match=r"train-1\.jsonl: row 1: "):
        ids(shards)
