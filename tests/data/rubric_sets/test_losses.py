"""Losses of an export: each field that a format does not hold is noted, in every format."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.data.rubric_sets import FORMATS, RubricEntry, read_rubric_set, write_rubric_set
from rubricworks.rubrics import Criterion, Rubric

NAMES = {"csv": "set.csv", "rewardkit": "s1.toml", "verifiers": "s1.json"}
FULL = Criterion(
    criterion="red",
    key="colour",
    description="A red square.",
    evaluation_rule="Passes if red is named.",
    weight=2,
    justification="seen by all",
    student_already_met=True,
    reference_teachers=("a", "b"),
    teacher_consensus="red",
    essential=True,
    reference="expr_verify(target='4')",
)
ENTRY = RubricEntry(
    "s1",
    Rubric(criteria=(FULL, Criterion(criterion="blue", weight=-1, essential=False))),
    prompt="What is there?",
    reference="A square.",
    extras={"format": "elsewhere", "row": {"theme": "shapes", "empty": None}, "criteria": {"red": {"tags": ["a"]}}},
)
PROVENANCE = {"justification", "student_already_met", "reference_teachers", "teacher_consensus"}
OF_CRITERIA = {
    "rubricworks": set(),
    "csv": PROVENANCE,
    "healthbench": {*PROVENANCE, "key", "essential", "reference"},
    "researchrubrics": {*PROVENANCE, "key", "essential", "reference"},
    "rar": {*PROVENANCE, "key", "reference"},
    "rubrichub": {*PROVENANCE, "key", "essential", "reference"},
    "rewardkit": {*PROVENANCE, "key", "reference"},
    "verifiers": {*PROVENANCE, "key", "essential", "reference"},
    "healthbench_professional": {*PROVENANCE, "key", "essential", "reference"},
    "profbench": {*PROVENANCE, "key", "essential", "reference"},
    "frontierscience": {*PROVENANCE, "key", "essential", "reference"},
    "autorubric": {*PROVENANCE, "key", "essential", "reference"},
    "prbench": {*PROVENANCE, "essential", "reference"},
    "deepresearchbench": {*PROVENANCE, "essential", "reference"},
    "paperbench": {*PROVENANCE, "essential", "reference"},
}
OF_SAMPLES = {
    "prbench": {"reference"},
    "profbench": {"reference"},
    "frontierscience": {"reference"},
    "deepresearchbench": {"reference"},
    "paperbench": {"prompt", "reference"},
    "csv": {"reference"},
    "researchrubrics": {"reference"},
    "rubrichub": {"reference"},
    "rewardkit": {"prompt", "reference"},
    "verifiers": {"prompt", "reference"},
}


def write(tmp_path, entry, format):
    """File and notes of an export."""
    path, notes = tmp_path / NAMES.get(format, "set.jsonl"), []
    write_rubric_set([entry], path, format, note=notes.append)
    return path, notes


def fields(notes, start):
    return {note.removeprefix(start) for note in notes if note.startswith(start)}


@pytest.mark.parametrize("format", FORMATS)
def test_each_field_that_a_format_does_not_hold_is_noted(tmp_path, format):
    _, notes = write(tmp_path, ENTRY, format)
    assert fields(notes, f"{format} has no place for a criterion's ") == OF_CRITERIA[format]
    assert fields(notes, f"{format} has no place for a sample's ") == OF_SAMPLES.get(format, set())
    assert f"{format} has no place for such a weight" not in notes  # a pitfall turned round is of the same worth
    extras = {"theme", "tags"} if format != "rubricworks" else set()
    assert fields(notes, f"{format} has no place for elsewhere's ") == extras


@pytest.mark.parametrize("format", ["healthbench", "researchrubrics", "rar", "rubrichub", "rewardkit", "verifiers"])
def test_text_that_is_joined_to_other_text_is_noted_as_joined(tmp_path, format):
    _, notes = write(tmp_path, ENTRY, format)
    assert f"{format} holds a criterion's evaluation_rule joined to its other text" in notes


def test_a_must_have_is_marked_in_rar_and_a_reference_answer_stands_in_healthbench(tmp_path):
    path, _ = write(tmp_path, ENTRY, "rar")
    assert json.loads(path.read_text())["rubric"][0]["description"].startswith("Essential Criteria: A red square.")
    path, _ = write(tmp_path, ENTRY, "healthbench")
    assert json.loads(path.read_text())["ideal_completions_data"] == {"ideal_completion": "A square."}


def test_a_sample_is_named_by_its_file_where_a_format_has_no_names(tmp_path):
    notes = []
    write_rubric_set([ENTRY], tmp_path / "quality.toml", "rewardkit", note=notes.append)
    assert any("sample_id" in note for note in notes)
    assert not any("sample_id" in note for note in write(tmp_path, ENTRY, "rewardkit")[1])


def test_a_sample_called_as_a_row_is_keeps_its_name(tmp_path):
    """It stands in another row, so that its number would be another."""
    entry = RubricEntry("row-7", ENTRY.rubric, prompt="p")
    for format in ("rar", "rubrichub"):
        path, _ = write(tmp_path, entry, format)
        assert [entry.sample_id for entry in read_rubric_set(path, note=str)] == ["row-7"]


def test_a_rubric_that_could_not_be_imported_again_is_noted(tmp_path):
    long = Criterion(criterion="red " * 300, description="blue " * 700, weight=1)
    _, notes = write(tmp_path, RubricEntry("s1", Rubric(criteria=(long,))), "healthbench")
    assert any("import refuses what is written here" in note and "4000" in note for note in notes)


def test_fields_beside_the_criteria_of_verifiers_come_back(tmp_path):
    document = {"judge": "j", "criteria": [{"name": "a", "text": "b", "weight": 1.0, "note": "c"}]}
    (tmp_path / "a.json").write_text(json.dumps(document))
    entries = list(read_rubric_set(tmp_path / "a.json", note=str))
    write_rubric_set(entries, tmp_path / "b.json", "verifiers", note=str)
    assert json.loads((tmp_path / "b.json").read_text()) == document
    write_rubric_set(entries, tmp_path / "a.toml", "verifiers", note=str)
    assert list(read_rubric_set(tmp_path / "a.toml", note=str)) == entries


TEXTS = st.text("ab \n", max_size=6).map(str.strip)
CRITERIA = st.builds(
    Criterion,
    criterion=TEXTS.filter(bool),
    key=TEXTS,
    description=TEXTS,
    evaluation_rule=st.sampled_from(["", "Passes if it is.", "Passes if the statement does not hold of the response."]),
    weight=st.sampled_from([1.0, 2.0, -1.0]),
    justification=TEXTS,
    essential=st.booleans(),
    reference=TEXTS,
)
RUBRICS = (
    st.lists(CRITERIA, min_size=1, max_size=4, unique_by=lambda criterion: criterion.criterion)
    .filter(lambda criteria: any(criterion.weight > 0 for criterion in criteria))
    .map(lambda criteria: Rubric(criteria=tuple(criteria)))
)


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=40, deadline=None)
@given(rubric=RUBRICS, prompt=TEXTS, reference=TEXTS)
def test_what_comes_back_otherwise_was_noted(tmp_path_factory, format, rubric, prompt, reference):
    entry = RubricEntry("s1", rubric, prompt, reference)
    path, notes = write(tmp_path_factory.getbasetemp(), entry, format)
    (back,) = read_rubric_set(path, format, note=str)
    text = "\n".join(notes)
    for name in ("prompt", "reference"):
        assert getattr(back, name) == getattr(entry, name) or f"a sample's {name}" in text
    for criterion, other in zip(rubric.criteria, back.rubric.criteria, strict=True):
        for name in (name for name in Criterion.model_fields if getattr(criterion, name) != ""):
            noted = f"criterion's {name}" in text or "negated" in text or "no negative weight" in text
            noted = noted or (name == "weight" and "divided" in text)
            assert getattr(criterion, name) == getattr(other, name) or noted, name
