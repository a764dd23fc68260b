"""`rubricworks agreement` reports invalid files in one line, with exit code 2."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rated import card, write_labels, write_parquet


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no column 'sample_id': it is empty"),
        ("sample_id,criterion,label\n", "labels.csv: it has no row"),
        ("sample_id,criterion,label\ns1,red,\n", "all of its 1 labels are empty"),
        ("sample_id;criterion;label\ns1;red;1\n", "no column 'sample_id': it has 'sample_id;criterion;label'"),
        ("sample_id,label\ns1,1\n", "no column 'criterion': it has 'sample_id', 'label'"),
        ("sample_id,criterion,label,label\ns1,red,1,0\n", "two columns 'label'"),
        ("sample_id,criterion,label\ns1,red,1\ns2,red,maybe\n", "line 3: label 'maybe' is no credit"),
        ("sample_id,criterion,label\ns1,red,2\n", "line 2: label '2' is no credit"),
        ("sample_id,criterion,label\ns1,red,nan\n", "line 2: label 'nan' is no credit"),
        ("sample_id,criterion,label\ns1,red, and round,1\n", "line 2: 4 cells under 3 columns"),
        ("sample_id,criterion,label\n,red,1\n", "line 2: sample_id is empty"),
        ('sample_id,criterion,label\ns1,"red,1\n', "not CSV"),
        ("sample_id,criterion,label\ns1,red,1\ns1,red,1\n", "line 3: there is a second label for 'red' of sample 's1'"),
        ("sample_id,criterion,label,rater\ns1,red,1,ana\ns1,red,0,ana\n", "line 3: 'ana' labels 'red' of sample 's1'"),
        ("sample_id,criterion,label\nS-1,red,1\n", "no sample_id is in both: people has sample 'S-1'"),
        ("sample_id,criterion,label\ns1,Red,1\n", "no criterion of a common sample is in both"),
        ("sample_id,criterion,label,response\ns1,red,1,a hat\n", "no response of a common sample is in both"),
    ],
)
def test_what_is_wrong_with_the_labels_is_said_in_one_line(tell, tmp_path, content, message):
    (tmp_path / "labels.csv").write_text(content)
    table = write_parquet(tmp_path / "t.parquet", [card("s1", {"red": 1.0})])
    result = tell("agreement", "labels.csv", table)
    assert (result.code, result.err.count("\n"), result.out) == (2, 1, "")
    assert message in result.err


def test_labels_in_another_encoding_are_refused(tell, tmp_path):
    (tmp_path / "labels.csv").write_bytes("sample_id,criterion,label\ns1,größer,1\n".encode("latin-1"))
    result = tell("agreement", "labels.csv", write_parquet(tmp_path / "t.parquet", [card("s1", {"red": 1.0})]))
    assert (result.code, "save it as CSV UTF-8" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("no table"), "t.parquet: cannot be read as Parquet"),
        (lambda path: None, "t.parquet: there is no such file or folder"),
        (lambda path: path.mkdir(), "there is no table here"),
        (lambda path: pq.write_table(pa.table({"sample_id": ["a"]}), path), "no column 'scorecard'"),
        (lambda path: pq.write_table(pa.table({"scorecard": ["{}"]}), path), "row 0: scorecard.sample_id: Field"),
        (lambda path: pq.write_table(pa.table({"scorecard": ["prose"]}), path), "row 0: scorecard: Invalid JSON"),
        (lambda path: pq.write_table(pa.table({"scorecard": [1]}), path), "row 0: scorecard is int, not JSON text"),
        (lambda path: pq.write_table(pa.table({"scorecard": pa.array([None], pa.string())}), path), "no row has a"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_in_one_line(tell, tmp_path, make, message):
    make(tmp_path / "t.parquet")
    labels = write_labels(tmp_path / "labels.csv", [("s1", "red", "yes")])
    result = tell("agreement", labels, tmp_path / "t.parquet")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err


def test_too_little_to_compare_is_said(tell, tmp_path):
    labels = write_labels(tmp_path / "labels.csv", [("s1", "red", "yes")])
    table = write_parquet(tmp_path / "t.parquet", [card("s1", {"red": 1.0})])
    messages = {
        (table,): "holds one judge, strict",
        (table, "./t.parquet"): "is the same table as",
        (labels,): "is compared with nothing",
        (labels, labels, table): "a second file of labels",
        (tmp_path / "none.csv", table): "No such file",
    }
    for sources, words in messages.items():
        result = tell("agreement", *sources)
        assert (result.code, words in result.err) == (2, True), result
