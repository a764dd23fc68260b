"""`rubricworks rubrics import` of pitfalls: counted, listed, read by a writer where words do not tell, corrected."""

import csv
import json

import pyarrow.parquet as pq
import pytest
from scripted_server import fail, say

from rubricworks.rubrics import Rubric

PITFALLS = {
    "early": "Pitfall Criteria: Must not round early.",
    "unit": "Pitfall Criteria: Does not mention the unit.",
    "surgery": "Pitfall Criteria: Does not recommend surgery.",
    "reversible": "Pitfall Criteria: Clarifies that it is reversible.",
}


@pytest.fixture
def source(tmp_path):
    rubric = [{"title": "Result", "description": "Essential Criteria: Gives the result.", "weight": 5}]
    rubric += [{"title": title, "description": text, "weight": -1} for title, text in PITFALLS.items()]
    row = {"id": "q1", "question": "What now?", "reference_answer": "Surgery.", "rubric": rubric}
    (tmp_path / "rar.jsonl").write_text(json.dumps(row))
    return tmp_path / "rar.jsonl"


def weights(path):
    (row,) = pq.read_table(path).to_pylist()
    return Rubric.model_validate_json(row["rubric"]).weights


def listed(path):
    return {row["criterion"]: (row["weight"], row["met"]) for row in csv.DictReader(path.open())}


def test_an_import_counts_its_pitfalls_and_lists_what_meeting_them_says(tell, tmp_path, source):
    told = tell("rubrics", "import", source, "--out", "rubrics.parquet")
    assert weights(tmp_path / "rubrics.parquet") == [5, 1, -1, -1, -1]
    assert "4 pitfalls: 1 say what a response must not do" in told.err
    assert "; 1 name a fault" in told.err
    assert "; 2 take it away as in SOURCE, for their phrasing does not tell: ask a writer with --judge" in told.err
    assert listed(tmp_path / "rubrics.pitfalls.csv") == {
        "early": ("1", "good"),
        "unit": ("-1", "bad"),
        "surgery": ("-1", "unknown"),
        "reversible": ("-1", "unknown"),
    }
    shown = tell("rubrics", "show", "rubrics.parquet").out
    assert (
        "1 earn by not doing what their source takes points for, and of 2 pitfalls the phrasing does not tell" in shown
    )


def test_a_corrected_list_decides_and_a_wrong_one_is_one_line(tell, tmp_path, source):
    tell("rubrics", "import", source, "--out", "rubrics.parquet")
    text = (tmp_path / "rubrics.pitfalls.csv").read_text()
    corrected = text.replace(",good", ",bad").replace("is reversible.,-1,unknown", "is reversible.,-1,good")
    (tmp_path / "mine.csv").write_text(corrected)
    told = tell("rubrics", "import", source, "--pitfalls", "mine.csv", "--out", "again.parquet")
    assert (told.code, weights(tmp_path / "again.parquet")) == (0, [5, -1, -1, -1, 1])
    assert listed(tmp_path / "again.pitfalls.csv")["reversible"] == ("1", "good")
    for changed, words in (
        (text.replace(",good", ",fine"), "line 2: met is 'fine'; write good, bad or unknown"),
        (text.replace("q1,early", "q1,late"), "sample 'q1' has no pitfall 'late'"),
        (text.replace(",met", ",verdict"), "no column 'met'"),
    ):
        (tmp_path / "mine.csv").write_text(changed)
        told = tell("rubrics", "import", source, "--pitfalls", "mine.csv", "--out", "again.parquet")
        assert (told.code, told.err.count("\n")) == (2, 1)
        assert words in told.err


def test_a_writer_reads_those_alone_that_their_words_leave_open(tell, tmp_path, source, serve):
    server = serve([say('{"pitfalls": [{"id": 1, "met": "worse"}, {"id": 2, "met": "better"}]}')])
    told = tell("rubrics", "import", source, "--judge", f"w@{server.url}", "--out", "rubrics.parquet")
    assert weights(tmp_path / "rubrics.parquet") == [5, 1, -1, -1, 1]
    assert "4 pitfalls: 2 say what a response must not do, and earn their weight; 2 name a fault" in told.err
    (chat,) = server.chats
    asked = chat.body["messages"][1]["content"]
    assert "<reference_answer>\nSurgery.\n</reference_answer>" in asked
    assert "Does not recommend surgery." in asked
    assert "Must not round early" not in asked
    assert "-1" not in asked


@pytest.mark.parametrize(
    "script", [[fail(400)], [say('{"pitfalls": [{"id": 1, "met": "unclear"}, {"id": 2, "met": "unclear"}]}')]]
)
def test_what_a_writer_cannot_tell_keeps_its_sign_and_is_counted(tell, tmp_path, source, serve, script):
    server = serve(script)
    told = tell("rubrics", "import", source, "--judge", f"w@{server.url}", "--out", "rubrics.parquet")
    assert (told.code, weights(tmp_path / "rubrics.parquet")) == (0, [5, 1, -1, -1, -1])
    assert "; 2 take it away as in SOURCE, for the writer could not tell: correct them in the list" in told.err
