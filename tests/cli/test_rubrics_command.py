"""`rubricworks rubrics`: sets of rubrics converted, shown and compared, as at a terminal."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from rubricworks.rubrics import Rubric

FILES = Path(__file__).parents[1] / "data" / "rubric_files"


def test_an_imported_set_is_what_grade_reads_and_exports_to_what_it_was(tell, tmp_path):
    told = tell("rubrics", "import", FILES / "healthbench.jsonl", "--out", "rubrics.parquet")
    assert (told.code, told.out) == (0, "rubrics.parquet: 2 rubrics, as rubricworks\n")
    rows = pq.read_table(tmp_path / "rubrics.parquet").to_pylist()
    assert Rubric.model_validate_json(rows[0]["rubric"]).weights == [9, 7, -8]
    assert rows[0]["sample_id"].startswith("6f2f4b1e")
    tell("rubrics", "export", "rubrics.parquet", "--to", "healthbench", "--out", "back.jsonl")
    before, after = (FILES / "healthbench.jsonl").read_text(), (tmp_path / "back.jsonl").read_text()
    assert [json.loads(line) for line in after.splitlines()] == [json.loads(line) for line in before.splitlines()]


def test_one_sample_goes_into_one_file_and_what_is_lost_is_noted(tell, tmp_path):
    told = tell("rubrics", "export", FILES / "people.csv", "--to", "verifiers", "--sample", "s1", "--out", "s1.json")
    assert "note: verifiers knows no negative weight" in told.err
    assert [item["weight"] for item in json.loads((tmp_path / "s1.json").read_text())["criteria"]] == [3, 1.5, 2]
    missing = tell("rubrics", "export", FILES / "people.csv", "--to", "csv", "--sample", "s9", "--out", "s9.csv")
    assert (missing.code, missing.err) == (2, "error: no rubric of sample 's9'\n")


def test_a_set_is_summarised_and_a_rubric_shown(tell):
    told = tell("rubrics", "show", FILES / "people.csv")
    assert told.out.splitlines() == [
        "2 rubrics, 4 criteria: 1 to 3 in a rubric, 2.0 on average",
        "2 essential, 0 with a reference, 1 pitfalls in 1 rubrics",
        "weights: 3 (1), 2 (1), 1.5 (1), -2 (1)",
    ]
    assert "  -2 Invents a dog" in tell("rubrics", "show", FILES / "people.csv", "s1").out


def test_differences_are_told_criterion_by_criterion(tell, tmp_path):
    text = (FILES / "people.csv").read_text()
    (tmp_path / "new.csv").write_text(text.replace("Names the cat,3", "Names the cat,2").replace("s2,", "s3,"))
    told = tell("rubrics", "diff", FILES / "people.csv", "new.csv")
    assert told.code == 1
    assert told.out.splitlines() == [
        "s1",
        "  ~ Names the cat: weight 3.0 → 2.0",
        "s2",
        "  removed, 1 criteria",
        "s3",
        "  added, 1 criteria",
        "3 of 3 samples differ",
    ]
    assert tell("rubrics", "diff", FILES / "people.csv", FILES / "people.csv").code == 0


def test_other_prompts_and_reference_answers_are_differences(tell, tmp_path):
    row = {"sample_id": "s1", "rubric": [{"criterion": "red", "weight": 1}], "prompt": "p", "reference": "r " * 99}
    (tmp_path / "old.jsonl").write_text(json.dumps(row))
    (tmp_path / "new.jsonl").write_text(json.dumps({**row, "prompt": "q", "reference": "r " * 99 + "blue"}))
    told = tell("rubrics", "diff", "old.jsonl", "new.jsonl")
    assert told.code == 1
    sample, prompt, reference, count = told.out.splitlines()
    assert (sample, prompt, count) == ("s1", "  ~ the sample's prompt p → q", "1 of 1 samples differ")
    assert reference.startswith("  ~ the sample's reference answer … r r")
    assert reference.endswith(" r blue")


def test_mistakes_are_one_line(tell, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": 1}')
    for arguments, words in (
        (("import", "a.jsonl"), "no known format"),
        (("import", "org/name"), "needs a revision"),
        (("export", FILES / "people.csv", "--to", "rewardkit", "--out", "a.toml"), "give a folder"),
    ):
        told = tell("rubrics", *arguments)
        assert told.code == 2
        assert words in told.err
        assert told.err.count("\n") == 1
