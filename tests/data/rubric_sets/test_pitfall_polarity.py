"""Pitfalls of other projects: what a response must not do earns, and a fault takes away, whatever sign both have."""

import json

import pytest

from rubricworks.data.rubric_sets import read_rubric_set, write_rubric_set
from rubricworks.data.rubric_sets.entries import NEGATED
from rubricworks.data.rubric_sets.polarity import phrased
from rubricworks.errors import UserError
from rubricworks.rewards import signed_reward

GOOD = [
    "Pitfall Criteria: Must not imply that entropy decreases in an isolated system.",
    "Pitfall Criteria: The response should avoid rounding intermediate values too early.",
    "Pitfall Criteria: Avoids confusing molality with molarity.",
    "Pitfall Criteria: Does not confuse speed with velocity.",
    "The answer does not incorrectly assume a constant temperature.",
    "It doesn't contain irrelevant details about the apparatus.",
    "Never mistakes mass for weight.",
    "Pitfall criterion - The model's answer should never claim that the proof is constructive.",
    "Refrains from speculating about the patient's motives.",
    "Pitfall Criteria: The response should not omit mentioning that gases are taken as ideal.",
    "Pitfall Criteria: Does not mention irrelevant details of the apparatus.",
]
BAD = [
    "Pitfall Criteria: Does not mention that friction is neglected.",
    "Pitfall Criteria: Does not explicitly state the sign convention.",
    "Pitfall Criteria: Fails to convert to kelvin.",
    "Pitfall Criteria: Recommends (A) as the correct answer.",
    "The response misidentifies the limiting reagent.",
    "Omits the units of the final answer.",
    "Includes irrelevant details about the apparatus.",
    "Incorrectly assumes a constant temperature.",
    "Never mentions the boundary conditions.",
    "No mention of follow-up.",
]
UNKNOWN = [
    "Pitfall Criteria: Does not recommend surgery.",
    "Pitfall Criteria: Does not suggest delaying fluids in septic shock.",
    "Pitfall Criteria: Clarifies that the reaction is reversible.",
    "Avoids answering the question.",
    "结论与数据不符",
    "",
]


@pytest.mark.parametrize(
    ("text", "met"),
    [*((text, "good") for text in GOOD), *((text, "bad") for text in BAD), *((text, "unknown") for text in UNKNOWN)],
)
def test_first_words_tell_whether_meeting_a_pitfall_is_good(text, met):
    assert phrased(text) == met


@pytest.mark.parametrize(
    ("text", "met"), [(GOOD[0], "good"), (GOOD[2], "unknown"), (GOOD[3], "unknown"), (UNKNOWN[1], "bad")]
)
def test_where_a_format_defines_the_sign_only_what_must_not_be_done_is_good(text, met):
    assert phrased(text, defined=True) == met


def rar_row(*pitfalls):
    rubric = [{"title": "Result", "description": "Essential Criteria: Gives the result.", "weight": 4}]
    rubric += [
        {"title": f"Pitfall {number}", "description": text, "weight": -1} for number, text in enumerate(pitfalls)
    ]
    return {"question": "?", "reference_answer": "!", "rubric": rubric, "rubric_count": len(rubric)}


def read(path, row):
    path.write_text(json.dumps(row))
    (entry,) = read_rubric_set(path, note=str)
    return entry


@pytest.mark.parametrize("text", GOOD)
def test_a_perfect_answer_earns_1_where_rar_says_what_must_not_be_done(tmp_path, text):
    entry = read(tmp_path / "rar.jsonl", rar_row(text))
    assert signed_reward([1, 1], entry.rubric.weights) == 1
    assert signed_reward([1, 0], entry.rubric.weights) == pytest.approx(4 / 5)


@pytest.mark.parametrize("text", BAD)
def test_a_perfect_answer_earns_1_where_rar_names_the_fault(tmp_path, text):
    entry = read(tmp_path / "rar.jsonl", rar_row(text))
    assert signed_reward([1, 0], entry.rubric.weights) == 1
    assert signed_reward([1, 1], entry.rubric.weights) == pytest.approx(3 / 4)


def test_a_set_of_both_comes_back_from_our_table_as_it_was_and_is_told_apart_there(tmp_path):
    row = rar_row(GOOD[0], BAD[0], UNKNOWN[0])
    entry = read(tmp_path / "rar.jsonl", row)
    assert [(pitfall.criterion.criterion, pitfall.met) for pitfall in entry.pitfalls] == [
        ("Pitfall 0", "good"),
        ("Pitfall 1", "bad"),
        ("Pitfall 2", "unknown"),
    ]
    notes = []
    write_rubric_set([entry], tmp_path / "own.parquet", "rubricworks", note=notes.append)
    (ours,) = read_rubric_set(tmp_path / "own.parquet", note=str)
    assert ours == entry
    write_rubric_set([ours], tmp_path / "back.jsonl", "rar", note=notes.append)
    assert json.loads((tmp_path / "back.jsonl").read_text()) == row
    assert notes == []


def test_what_earns_here_earns_in_another_format(tmp_path):
    entry = read(tmp_path / "rar.jsonl", rar_row(GOOD[0], BAD[0]))
    write_rubric_set([entry], tmp_path / "hb.jsonl", "healthbench", note=str)
    assert [rubric["points"] for rubric in json.loads((tmp_path / "hb.jsonl").read_text())["rubrics"]] == [4, 1, -1]


ROWS = {
    "healthbench": lambda *items: {"prompt_id": "a", "prompt": "?", "rubrics": list(items)},
    "researchrubrics": lambda *items: {
        "sample_id": "a",
        "prompt": "?",
        "rubrics": [{"criterion": item["criterion"], "weight": item["points"], "axis": "x"} for item in items],
    },
    "rubrichub": lambda *items: {"question": "?", "id": "a", "rubrics": list(items)},
}


@pytest.mark.parametrize("name", ROWS)
def test_what_must_not_be_done_earns_in_every_format_with_signs_and_comes_back(tmp_path, name):
    texts = [
        ("Gives the dose.", 5),
        ("Must not recommend aspirin to a child.", -5),
        ("Avoids a referral.", -3),
        ("Clarifies x.", -2),
    ]
    row = ROWS[name](*({"criterion": text, "points": points} for text, points in texts))
    entry = read(tmp_path / "rows.jsonl", row)
    assert entry.rubric.weights == [5, 5, -3, -2]
    assert [pitfall.met for pitfall in entry.pitfalls] == ["good", "unknown", "bad"]
    write_rubric_set([entry], tmp_path / "back.jsonl", name, note=str)
    (back,) = read_rubric_set(tmp_path / "back.jsonl", note=str)
    assert back.rubric == entry.rubric
    written = json.loads((tmp_path / "back.jsonl").read_text())["rubrics"]
    assert [rubric.get("points", rubric.get("weight")) for rubric in written] == [5, -5, -3, -2]


def test_the_sign_that_a_person_wrote_or_a_negation_says_is_kept(tmp_path):
    (tmp_path / "a.csv").write_text("sample_id,criterion,weight\ns,Names it,3\ns,Must not lie,-2\n")
    (entry,) = read_rubric_set(tmp_path / "a.csv")
    assert entry.rubric.weights == [3, -2]
    denied = rar_row(f"Must not lie.\n{NEGATED}")
    assert read(tmp_path / "rar.jsonl", denied).rubric.weights == [4, -1]


def test_pitfalls_are_decided_otherwise_and_back(tmp_path):
    entry = read(tmp_path / "rar.jsonl", rar_row(GOOD[0], UNKNOWN[0]))
    turned = entry.with_polarity({"Pitfall 0": "bad", "Pitfall 1": "good"})
    assert turned.rubric.weights == [4, -1, 1]
    assert [pitfall.met for pitfall in turned.pitfalls] == ["bad", "good"]
    assert turned.with_polarity({"Pitfall 0": "good", "Pitfall 1": "unknown"}) == entry
    alone = read(tmp_path / "rar.jsonl", {**rar_row(GOOD[0]), "rubric": rar_row(GOOD[0])["rubric"][1:]})
    with pytest.raises(UserError, match="nothing can be earned"):
        alone.with_polarity({"Pitfall 0": "bad"})
