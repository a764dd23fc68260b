"""Negated criteria of rewardkit and verifiers: what earned by being false takes away, or says so, in every format."""

import json

import pytest

from rubricworks.data.rubric_sets import read_rubric_set, write_rubric_set

JUDGE = """
[[criterion]]
name = "tests"
description = "Adds tests."
weight = 2.0

[[criterion]]
name = "deletes"
description = "Deletes files of the user."
negate = true
"""
SIGNED = ["healthbench", "researchrubrics", "rar", "rubrichub"]


def read(path):
    return list(read_rubric_set(path, note=str))


def exported(tmp_path, text, format):
    """Rows and notes of an export."""
    (tmp_path / "judge.toml").write_text(text)
    notes = []
    write_rubric_set(read(tmp_path / "judge.toml"), tmp_path / "rows.jsonl", format, note=notes.append)
    row = json.loads((tmp_path / "rows.jsonl").read_text())
    return row.get("rubrics") or row["rubric"], notes


def worth(item):
    return item.get("points", item.get("weight"))


@pytest.mark.parametrize("format", SIGNED)
def test_a_negated_criterion_takes_away_where_its_statement_is_met(tmp_path, format):
    (tests, deletes), notes = exported(tmp_path, JUDGE, format)
    assert (worth(tests), worth(deletes)) == (2, -1)
    text = deletes.get("description") or deletes["criterion"]
    assert "Deletes files of the user." in text
    assert "not hold" not in text
    assert any("negated" in note and "take its weight away" in note for note in notes)


@pytest.mark.parametrize("format", SIGNED)
def test_negated_criteria_alone_say_in_words_that_they_are_and_come_back(tmp_path, format):
    alone = JUDGE.partition("\n[[criterion]]\n")[2].partition("\n\n")[2]
    (deletes,), notes = exported(tmp_path, alone, format)
    assert worth(deletes) == 1
    assert (deletes.get("description") or deletes["criterion"]).endswith(
        "Passes if the statement does not hold of the response."
    )
    assert any("negated" in note for note in notes)
    (before,), (after,) = read(tmp_path / "judge.toml"), read(tmp_path / "rows.jsonl")
    (criteria,), (other,) = before.rubric.criteria, after.rubric.criteria
    assert (other.weight, other.evaluation_rule) == (criteria.weight, criteria.evaluation_rule)
    write_rubric_set([after], tmp_path / "back.json", "verifiers", note=str)
    (item,) = json.loads((tmp_path / "back.json").read_text())["criteria"]
    assert (item["weight"], item["choices"]) == (1, ["yes", "no"])


@pytest.mark.parametrize("format", SIGNED)
def test_reversed_choices_of_verifiers_come_back_reversed_by_way_of_another_format(tmp_path, format):
    criteria = [
        {"name": "cites", "text": "Does it cite?", "weight": 2.0},
        {"name": "flatters", "text": "Does it flatter?", "weight": 0.5, "choices": ["yes", "no"]},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"criteria": criteria}))
    write_rubric_set(read(tmp_path / "a.json"), tmp_path / "rows.jsonl", format, note=str)
    write_rubric_set(read(tmp_path / "rows.jsonl"), tmp_path / "b.json", "verifiers", note=str)
    back = json.loads((tmp_path / "b.json").read_text())["criteria"]
    assert [(item["weight"], item.get("choices")) for item in back] == [(2, None), (0.5, ["yes", "no"])]
