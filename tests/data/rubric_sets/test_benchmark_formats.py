"""Rubrics of benchmarks in their own form: read with the weights that their own scores have, and written back."""

import json
from pathlib import Path

import pytest

from rubricworks.data.rubric_sets import read_rubric_set, write_rubric_set
from rubricworks.errors import UserError
from rubricworks.rewards import signed_reward

FILES = Path(__file__).parents[1] / "rubric_files"
ROWS = ["healthbench_professional", "prbench", "profbench", "frontierscience", "deepresearchbench"]


def read(path, format=None):
    notes = []
    return list(read_rubric_set(path, format, note=notes.append)), notes


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ROWS)
def test_a_set_comes_back_from_our_table_as_it_was(tmp_path, name):
    entries, _ = read(FILES / f"{name}.jsonl")
    write_rubric_set(entries, tmp_path / "own.parquet", "rubricworks", note=str)
    ours, _ = read(tmp_path / "own.parquet")
    assert ours == entries
    write_rubric_set(ours, tmp_path / "back.jsonl", name, note=str)
    assert rows_of(tmp_path / "back.jsonl") == rows_of(FILES / f"{name}.jsonl")


@pytest.mark.parametrize("name", [*ROWS, "paperbench", "autorubric"])
def test_our_rubric_survives_its_form_with_the_same_order_of_rewards(tmp_path, name):
    rubric = [{"criterion": "a", "weight": 3}, {"criterion": "b", "weight": 1}]
    (tmp_path / "own.jsonl").write_text(json.dumps({"sample_id": "s", "prompt": "p", "rubric": rubric}))
    write_rubric_set(read(tmp_path / "own.jsonl")[0], tmp_path / "there.jsonl", name, note=str)
    (entry,), _ = read(tmp_path / "there.jsonl")
    assert [criterion.criterion for criterion in entry.rubric.criteria] == ["a", "b"]
    assert signed_reward([1, 0], entry.rubric.weights) == pytest.approx(0.75)


def test_healthbench_professional_has_points_conversation_and_answer():
    (first, second), notes = read(FILES / "healthbench_professional.jsonl")
    assert (first.sample_id, first.rubric.weights) == ("hbp-1", [8, 5, -9])
    assert first.reference.startswith("Fluconazole inhibits")
    assert second.prompt == "user: Dose?\n\nassistant: Of what?\n\nuser: Amoxicillin, 20 kg."
    assert "lowers the score of long answers" in notes[0]


def test_prbench_weighs_by_class_and_reads_reference_texts_first(tmp_path):
    (row,) = rows_of(FILES / "prbench.jsonl")
    row["rubric"][0]["annotations"]["important_weight"] = 4  # what an earlier annotation left
    row["rubric"][2]["annotations"]["detrimental_weight"] = 5
    row["rubric"][1]["annotations"] = [row["rubric"][1]["annotations"]]
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    (entry,), _ = read(tmp_path / "rows.jsonl")
    assert entry.rubric.weights == [9, 2, -5]
    assert entry.rubric.criteria[0].key == "Financial Accuracy"
    assert entry.prompt.splitlines()[2] == "assistant: Which figures do you have?"
    assert entry.prompt.splitlines()[4:] == [
        "user: Reference Text 0:",
        "A company with two sources of funds.",
        "",
        "Equity 60 at 10 %, debt 40 at 5 %, no taxes.",
    ]


def test_profbench_weighs_its_four_names_as_its_own_score_does():
    (entry,), notes = read(FILES / "profbench.jsonl")
    assert (entry.rubric.weights, notes) == ([4, 3, 1], [])


def test_frontierscience_has_items_with_points_or_an_answer_to_compare_with():
    (research, olympiad), notes = read(FILES / "frontierscience.jsonl")
    assert research.rubric.weights == [1.5, 1, 0.5]
    assert research.rubric.criteria[0].criterion == "Names the strain.\nAward half for a lattice without its sign."
    (criterion,) = olympiad.rubric.criteria
    assert (criterion.reference, criterion.essential) == (r"\(2\pi\sqrt{l/g}\)", True)
    assert [("parts of its points" in note, "Olympiad" in note) for note in notes] == [(True, False), (False, True)]


def test_a_criterion_of_race_weighs_its_share_of_its_dimension_and_that_ones():
    (entry,), notes = read(FILES / "deepresearchbench.jsonl")
    assert entry.rubric.weights == pytest.approx([0.3 * 0.6, 0.3 * 0.4, 0.5, 0.2])
    assert [criterion.key for criterion in entry.rubric.criteria][::3] == ["comprehensiveness", "readability"]
    assert "beside a reference article" in notes[0]


def test_a_row_of_fact_is_refused_with_the_file_that_has_criteria(tmp_path):
    row = {
        "id": 1,
        "prompt": "p",
        "article": "a",
        "citations_deduped": {"http://x": {"facts": ["f"], "url_content": "c"}},
    }
    (tmp_path / "validated.jsonl").write_text(json.dumps(row))
    with pytest.raises(UserError, match=r"row 1: it is an article with its citations, .*FACT has no criteria; .*RACE"):
        read(tmp_path / "validated.jsonl")


def score_of(node, graded):
    """PaperBench's own score: of a leaf its grade, of a node the mean of those below it by their weights."""
    if not node["sub_tasks"]:
        return graded[node["id"]]
    total = sum(task["weight"] for task in node["sub_tasks"])
    return sum(task["weight"] * score_of(task, graded) for task in node["sub_tasks"]) / total


@pytest.mark.parametrize("met", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (1, 1, 0, 1)])
def test_leaves_of_a_tree_earn_what_paperbench_gives_the_tree(met):
    tree = json.loads((FILES / "paperbench.json").read_text())
    (entry,), notes = read(FILES / "paperbench.json")
    graded = dict(zip(("m1", "m2", "e1", "r"), met, strict=True)) | {"o": 1}
    assert signed_reward(list(met), entry.rubric.weights) == pytest.approx(score_of(tree, graded))
    first = entry.rubric.criteria[0]
    assert first.description == f"Part of: {tree['requirements']} > The method has been implemented"
    assert first.key == "Code Development"
    assert notes == ["nodes of PaperBench of weight 0 are left out"]


def test_a_tree_comes_back_whole_and_flat_after_a_change(tmp_path):
    (entry,), _ = read(FILES / "paperbench.json")
    write_rubric_set([entry], tmp_path / "back.jsonl", "paperbench", note=str)
    assert rows_of(tmp_path / "back.jsonl") == [json.loads((FILES / "paperbench.json").read_text())]
    changed, notes = entry.with_polarity({}), []
    criteria = tuple(criterion.model_copy(update={"weight": 1.0}) for criterion in changed.rubric.criteria)
    changed = type(changed)("root", type(changed.rubric)(criteria=criteria), extras=changed.extras)
    write_rubric_set([changed], tmp_path / "flat.jsonl", "paperbench", note=notes.append)
    (row,) = rows_of(tmp_path / "flat.jsonl")
    assert [task["weight"] for task in row["sub_tasks"]] == [1, 1, 1, 1]
    assert any("written flat" in note for note in notes)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda tree: tree["sub_tasks"][0].update(weight=-1), "node root: a weight below it is negative"),
        (lambda tree: tree["sub_tasks"][1]["sub_tasks"][0].update(weight=0), "node e: all weights below it are 0"),
        (lambda tree: tree["sub_tasks"][0].update(weight="2"), "weight is '2', not a number"),
        (lambda tree: tree["sub_tasks"][3].pop("requirements"), "no 'requirements'"),
    ],
)
def test_a_tree_at_fault_is_refused_with_its_node(tmp_path, change, reason):
    tree = json.loads((FILES / "paperbench.json").read_text())
    change(tree)
    (tmp_path / "rubric.json").write_text(json.dumps(tree))
    with pytest.raises(UserError, match=reason):
        read(tmp_path / "rubric.json")


def test_autorubric_has_a_sample_for_its_rubric_and_for_each_item_with_its_own():
    (shared, own), notes = read(FILES / "autorubric.json")
    assert (shared.sample_id, shared.rubric.weights) == ("triage", [10, 15, -20])
    assert (shared.prompt, shared.reference) == ("A patient describes symptoms.", "Please call an ambulance.")
    assert shared.rubric.criteria[1].evaluation_rule == "Passes at the best level only: Right."
    assert (own.sample_id, own.prompt) == ("triage-1", "A patient asks about a cold.")
    assert [(criterion.criterion, criterion.weight) for criterion in own.rubric.criteria] == [("Recommends rest", 10)]
    assert any("submissions and their labels" in note for note in notes)


@pytest.mark.parametrize(
    "document",
    [
        [{"name": "a", "weight": 2.0, "requirement": "Names it"}],
        {"sections": [{"name": "s", "criteria": [{"name": "a", "weight": 2.0, "requirement": "Names it"}]}]},
        {"rubric": {"sections": [{"criteria": [{"name": "a", "weight": 2.0, "requirement": "Names it"}]}]}},
    ],
)
def test_a_rubric_of_autorubric_is_a_list_or_sections(tmp_path, document):
    (tmp_path / "r.json").write_text(json.dumps(document))
    (entry,), _ = read(tmp_path / "r.json")
    (criterion,) = entry.rubric.criteria
    assert (entry.sample_id, criterion.criterion, criterion.description, criterion.weight) == ("r", "a", "Names it", 2)


def test_a_set_of_autorubric_comes_back_in_meaning(tmp_path):
    entries, _ = read(FILES / "autorubric.json")
    write_rubric_set(entries, tmp_path / "back.jsonl", "autorubric", note=str)
    back, _ = read(tmp_path / "back.jsonl")
    assert [entry.rubric for entry in back] == [entry.rubric for entry in entries]
    options = rows_of(tmp_path / "back.jsonl")[0]["rubric"][1]["options"]
    assert [option["label"] for option in options] == ["Wrong", "Roughly", "Right", "N/A"]
