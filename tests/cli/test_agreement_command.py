"""`rubricworks agreement`: labels and tables as people have them, the table and the file that come out."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rated import card, write_labels, write_parquet, write_table

from rubricworks.rubrics import ErrorClass


@pytest.fixture
def compare(tell, tmp_path):
    """Runs the command; the JSON that it wrote beside what it printed."""

    def run(*sources, **options):
        flags = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", value)]
        result = tell("agreement", *sources, *flags, "--json", tmp_path / "agreement.json")
        assert result.code == 0, result
        assert max(len(line) for line in result.out.splitlines() if str(tmp_path) not in line) <= 100
        return result.out, json.loads((tmp_path / "agreement.json").read_text())

    return run


@pytest.fixture
def fifty(tmp_path):
    """Cohen's kappa of a textbook: 20 times both yes, 15 times both no, 5 and 10 times not the same; kappa 0.40."""
    people = ["yes"] * 25 + ["no"] * 25
    judge = [1.0] * 20 + [0.0] * 5 + [1.0] * 10 + [0.0] * 15
    rows = [(f"s{n}", "red", label) for n, label in enumerate(people)]
    cards = [card(f"s{n}", {"red": credit}) for n, credit in enumerate(judge)]
    return write_labels(tmp_path / "labels.csv", rows), cards


@pytest.mark.parametrize("write", [write_parquet, write_table])
def test_a_judge_is_compared_with_people(compare, tmp_path, fifty, write):
    labels, cards = fifty
    out, report = compare(labels, write(tmp_path / "scorecards.parquet", cards))
    (comparison,) = report["comparisons"]
    (red,) = comparison["criteria"]
    assert (comparison["first"], comparison["second"], red["criteria"]) == ("people", "strict", ["red"])
    assert red["agreement"]["kappa"]["value"] == pytest.approx(0.4)
    assert red["agreement"]["accuracy"]["value"] == pytest.approx(0.7)
    assert red["agreement"]["kappa"]["low"] < 0.4 < red["agreement"]["kappa"]["high"]
    cells = {(cell["first"], cell["second"]): cell["count"] for cell in comparison["confusion"]}
    assert cells == {(1, 1): 20, (1, 0): 5, (0, 1): 10, (0, 0): 15}
    lines = [line.split() for line in out.splitlines()]
    (row,) = [line for line in lines if line[:1] == ["red"]]
    assert row[1:3] == ["50", "0.70"]
    assert "0.40" in row
    assert ["0", "15", "10"] in lines
    assert ["1", "5", "20"] in lines


def test_judges_are_compared_with_each_other_without_labels(compare, tmp_path, fifty):
    _, cards = fifty
    lenient = [card(graded.sample_id, {"red": 1.0}, judge="lenient") for graded in cards]
    out, report = compare(write_parquet(tmp_path / "a.parquet", cards), write_parquet(tmp_path / "b.parquet", lenient))
    (comparison,) = report["comparisons"]
    assert (comparison["first"], comparison["second"]) == ("strict", "lenient")
    assert comparison["overall"]["accuracy"]["value"] == pytest.approx(0.6)
    assert comparison["overall"]["kappa"]["value"] == 0
    assert "people" not in out


def test_every_pair_is_compared_and_three_judges_together(compare, tmp_path, fifty):
    labels, cards = fifty
    others = [card.model_copy(update={"judge": name}) for name in ("second", "third") for card in cards]
    out, report = compare(labels, write_parquet(tmp_path / "all.parquet", [*cards, *others]))
    pairs = [(comparison["first"], comparison["second"]) for comparison in report["comparisons"]]
    assert pairs == [
        ("people", "strict"), ("people", "second"), ("people", "third"),
        ("strict", "second"), ("strict", "third"), ("second", "third"),
    ]  # fmt: skip
    (group,) = report["groups"]
    assert (group["raters"], group["alpha_interval"]["value"]) == (["strict", "second", "third"], 1)
    assert "3 together (strict, second, third): alpha 1.00" in out


def test_two_tables_of_one_judge_are_two_judges(compare, tmp_path, fifty):
    _, cards = fifty
    for place in ("one", "two"):
        write_table(tmp_path / place / "scorecards", cards)
    write_parquet(tmp_path / "again.parquet", cards)
    out, report = compare("one/scorecards", "two/scorecards", tmp_path / "again.parquet")
    names = [rater["name"] for rater in report["raters"]]
    assert names == ["strict (one/scorecards)", "strict (two/scorecards)", "strict (again.parquet)"]
    assert "strict (one/scorecards) and strict (again.parquet)" in out


def test_majority_of_people_counts_and_a_tie_is_left_out(compare, tmp_path):
    votes = {"s1": "a+ b+ c-", "s2": "a- b- c+", "s3": "a+ b-", "s4": "a+"}
    rows = [(s, "red", vote[0], {"+": "pass", "-": "fail"}[vote[1]]) for s in votes for vote in votes[s].split()]
    labels = write_labels(tmp_path / "labels.csv", rows, columns=("sample_id", "criterion", "rater", "label"))
    out, report = compare(labels, write_parquet(tmp_path / "t.parquet", [card(s, {"red": 1.0}) for s in votes]))
    (comparison,) = report["comparisons"]
    assert (comparison["overall"]["units"], comparison["left_out_first"]) == (3, {"tied": 1})
    assert comparison["overall"]["accuracy"]["value"] == pytest.approx(2 / 3)
    assert "1 without a credit from people (1 tied)" in out
    (people,) = report["groups"]
    assert (people["raters"], people["units"]) == (["a", "b", "c"], 3)


def test_errors_are_counted_and_never_compared(compare, tmp_path):
    cards = [card("s1", {"red": 1.0, "round": ErrorClass.MALFORMED}), card("s2", {"red": ErrorClass.TRANSPORT})]
    rows = [("s1", "red", "1"), ("s1", "round", "0"), ("s2", "red", "0")]
    labels = write_labels(tmp_path / "labels.csv", rows)
    out, report = compare(labels, write_parquet(tmp_path / "t.parquet", cards))
    (comparison,) = report["comparisons"]
    assert comparison["left_out_second"] == {"malformed": 1, "transport": 1}
    assert comparison["overall"]["units"] == 1
    assert comparison["overall"]["accuracy"] == {"value": 1, "low": None, "high": None}
    assert comparison["overall"]["kappa"] is None
    assert "2 without a credit from strict (1 malformed, 1 transport)" in out


def test_a_judge_that_failed_throughout_has_no_numbers(compare, tmp_path):
    labels = write_labels(tmp_path / "labels.csv", [("s1", "red", "yes")])
    out, report = compare(labels, write_parquet(tmp_path / "t.parquet", [card("s1", {"red": ErrorClass.REFUSED})]))
    assert report["comparisons"][0]["overall"]["accuracy"] is None
    assert "0 of 1 items in common compared; 1 without a credit from strict (1 refused)" in out


def test_what_only_one_side_has_is_counted(compare, tmp_path):
    labels = write_labels(tmp_path / "labels.csv", [("s1", "red", "yes"), ("s9", "red", "yes"), ("s1", "blue", "no")])
    cards = [card("s1", {"red": 1.0, "round": 1.0})]
    out, report = compare(labels, write_parquet(tmp_path / "t.parquet", cards))
    (comparison,) = report["comparisons"]
    assert (comparison["in_common"], comparison["only_first"], comparison["only_second"]) == (1, 2, 1)
    assert "2 rated by people alone; 1 rated by strict alone" in out


def test_rare_criteria_share_a_row(compare, tmp_path):
    cards = [card(f"s{n}", {"common": n % 2, f"only of sample {n // 2}": n % 2}) for n in range(12)]
    rows = [(card.sample_id, verdict.criterion, verdict.credit) for card in cards for verdict in card.verdicts]
    sources = (write_labels(tmp_path / "labels.csv", rows), write_parquet(tmp_path / "t.parquet", cards))
    out, report = compare(*sources)
    (comparison,) = report["comparisons"]
    assert [row["criteria"] for row in comparison["criteria"]] == [["common"]]
    assert len(comparison["others"]["criteria"]) == 6
    assert comparison["others"]["agreement"]["units"] == 12
    assert (comparison["overall"]["units"], comparison["overall"]["responses"]) == (24, 12)
    assert [line.split()[:4] for line in out.splitlines() if line.startswith("others")] == [
        ["others", "(6", "criteria)", "12"]
    ]
    _, report = compare(*sources, min_count="2")
    assert len(report["comparisons"][0]["criteria"]) == 7
    assert report["comparisons"][0]["others"] is None


def test_labels_name_the_response_where_a_sample_has_several(compare, tell, tmp_path):
    cards = [card("s1", {"red": 1.0}, response="red,\n“round”"), card("s1", {"red": 0.0}, response="blue")]
    table = write_parquet(tmp_path / "t.parquet", cards)
    rows = [("s1", "red", "1", "red,\r\n“round” "), ("s1", "red", "0", "blue")]
    labels = write_labels(tmp_path / "labels.csv", rows, columns=("sample_id", "criterion", "label", "response"))
    _, report = compare(labels, table)
    assert report["comparisons"][0]["overall"]["kappa"]["value"] == 1
    result = tell("agreement", write_labels(labels, [("s1", "red", "1")]), table)
    assert result.code == 2
    assert "line 2: sample 's1' has 2 responses in the scorecards; say which in a column response" in result.err


@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "utf-8-sig"},
        {"lineterminator": "\r\n"},
        {"quoting": csv.QUOTE_ALL, "encoding": "utf-8-sig", "lineterminator": "\n"},
    ],
)
def test_labels_as_spreadsheets_write_them(compare, tmp_path, options):
    title = 'Says "rot", größer'
    rows = [("s1", title, " Yes"), ("s2", title, "FALSE"), ("", "", ""), ("s3", title, "0.5"), ("s4", title, "")]
    cards = [card(f"s{n}", {title: credit}) for n, credit in enumerate((1.0, 0.0, 0.5, 1.0), 1)]
    labels = write_labels(tmp_path / "labels.CSV", rows, columns=("Sample_ID", " criterion", "label"), **options)
    out, report = compare(labels, write_parquet(tmp_path / "t.parquet", cards))
    overall = report["comparisons"][0]["overall"]
    assert (overall["units"], overall["accuracy"]["value"], report["empty_labels"]) == (3, 1, 1)
    assert "empty labels, which say nothing: 1" in out


def test_a_verdict_given_again_counts_once(compare, tmp_path, fifty):
    labels, cards = fifty
    again = [card(graded.sample_id, {"red": 0.0}) for graded in cards[:3]]
    failed = [card("s0", {"red": ErrorClass.TRANSPORT})]
    out, report = compare(labels, write_parquet(tmp_path / "t.parquet", [*failed, *cards, *again]))
    assert report["comparisons"][0]["overall"]["kappa"]["value"] == pytest.approx(0.4)
    judge = report["raters"][1]
    assert (judge["items"], judge["left_out"], judge["repeated"]) == (50, {}, 3)
    assert "3 given again" in out


def test_fields_that_a_later_version_writes_are_read_past(compare, tmp_path):
    value = json.loads(card("s1", {"red": 1.0}).model_dump_json())
    value["verdicts"][0]["of_tomorrow"] = [1, 0]
    pq.write_table(pa.table({"scorecard": [json.dumps(value), None]}), tmp_path / "t.parquet")
    _, report = compare(write_labels(tmp_path / "labels.csv", [("s1", "red", "1")]), tmp_path / "t.parquet")
    assert report["comparisons"][0]["overall"]["units"] == 1


def test_long_titles_and_many_credits_keep_the_table_in_its_width(compare, tmp_path):
    titles = [f"Says that the object at the {place} of the picture is red" for place in ("top left", "bottom right")]
    cards = [card(f"s{n}", {title: n / 32 for title in titles}) for n in range(33)]
    rows = [(card.sample_id, verdict.criterion, 1 - verdict.credit) for card in cards for verdict in card.verdicts]
    out, report = compare(write_labels(tmp_path / "labels.csv", rows), write_parquet(tmp_path / "t.parquet", cards))
    assert "33 different credits" in out
    assert report["comparisons"][0]["overall"]["alpha_interval"]["value"] < -0.9
