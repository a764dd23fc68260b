"""The leaderboard: what stands in one column, what is compared, and what the board says of what it leaves out."""

import csv
import io
import json
from typing import Any

import pytest
from audited import write_stage_table
from cli_fixtures import tell as tell

from rubricworks.evaluation.leaderboard import Source, leaderboard
from rubricworks.evaluation.scoreboard import summarise_scores
from rubricworks.metrics import holm, mean_interval, paired_p_value
from rubricworks.reports.leaderboard import (
    board_parts,
    build_board,
    leaderboard_csv,
    leaderboard_markdown,
    leaderboard_page,
)

SAMPLES = 30


def score(model: str, number: int, value: float | None, **fields: Any) -> dict[str, Any]:
    reason = None if value is not None else "malformed"
    row = {"sample_id": f"s{number}", "model": model, "revision": f"{model}-1", "step": None, "decoding": "greedy"}
    row |= {"against": None, "scorer": "likert", "version": "1", "judge": "gpt", "part": "rating"}
    return {**row, "value": value, "reason": reason, "evidence": None, **fields}


def scores(model: str, level: float, **fields: Any) -> list[dict[str, Any]]:
    return [score(model, number, level + 0.01 * (number % 5), **fields) for number in range(SAMPLES)]


def test_differences_are_paired_and_corrected_for_all_comparisons():
    rows = scores("base", 0.5) + scores("better", 0.6)
    rows += [score("even", number, 0.5 + 0.04 * (number % 2)) for number in range(SAMPLES)]
    board = leaderboard([Source("a", rows)])
    assert (board.against, board.comparisons) == ("base", 2)
    base = {row["sample_id"]: row["value"] for row in scores("base", 0.5)}
    raw = {
        model: paired_p_value([row["value"] - base[row["sample_id"]] for row in rows if row["model"] == model])
        for model in ("better", "even")
    }
    cells = {row.model: row.cells[0] for row in board.rows}
    for model, p in holm(raw).items():
        assert cells[model].p == pytest.approx(p)
    assert cells["better"].difference.value == pytest.approx(0.1)
    assert cells["better"].mean == mean_interval([row["value"] for row in scores("better", 0.6)])
    assert [cells[model].mark for model in ("base", "better", "even")] == ["", "+", ""]


@pytest.mark.parametrize("apart", [{"judge": "qwen"}, {"version": "2"}])
def test_two_judges_or_versions_are_two_columns_and_the_board_says_so(apart):
    first = Source("a", scores("base", 0.5) + scores("mine", 0.6))
    second = Source("b", scores("theirs", 0.9, **apart))
    board = leaderboard([first, second])
    assert len(board.columns) == 2
    theirs = next(row for row in board.rows if row.model == "theirs")
    assert list(theirs.cells) == [1]
    assert theirs.cells[1].difference is None  # the base has no score by this instrument
    assert any("separate columns, and no difference is taken between them" in note for note in board.notes)
    assert next(iter(apart.values())) in board.columns[1].title


def test_two_revisions_of_a_name_are_two_models():
    sources = [Source("a", scores("policy", 0.5)), Source("b", scores("policy", 0.7, revision="policy-2"))]
    board = leaderboard(sources)
    assert [row.model for row in board.rows] == ["policy (policy-1)", "policy (policy-2)"]
    assert [row.evaluations for row in board.rows] == [("a",), ("b",)]


def test_each_run_is_compared_with_its_own_base_and_one_without_with_the_first():
    first = Source("a", scores("base", 0.5) + scores("mine", 0.6), base="base")
    second = Source("b", scores("base", 0.8, revision="base-2") + scores("yours", 0.85), base="base")
    third = Source("c", scores("theirs", 0.7))
    board = leaderboard([first, second, third])
    gains = {row.model: row.cells[0].difference.value for row in board.rows if row.cells[0].difference}
    assert gains == {"mine": pytest.approx(0.1), "yours": pytest.approx(0.05), "theirs": pytest.approx(0.2)}


def test_the_page_says_which_evaluation_scored_each_model_if_they_differ():
    sources = [
        Source("monday", scores("base", 0.4) + scores("policy", 0.5)),
        Source("tuesday", scores("base", 0.4) + scores("policy", 0.7, revision="policy-2")),
    ]
    page = leaderboard_page(leaderboard(sources), title="T")
    assert "<strong>base</strong><small>monday, tuesday</small>" in page
    assert "<strong>policy (policy-2)</strong><small>tuesday</small>" in page
    assert "<small>monday" not in leaderboard_page(leaderboard(sources[:1]), title="T")


def test_missing_scores_and_other_samples_are_reported():
    mine = [score("mine", number, None if number < 3 else 0.8) for number in range(SAMPLES - 5)]
    board = leaderboard([Source("a", scores("base", 0.5) + mine)])
    told = " ".join(board.notes)
    assert "mine has no score on 3 samples (3 x malformed)" in told
    assert f"scored on different samples, {SAMPLES - 5} of them in common" in told
    assert board.rows[1].cells[0].difference.samples == SAMPLES - 5 - 3


def test_words_of_a_response_and_every_form_of_the_board():
    responses = [{**score("base", number, 0.5), "response": "a cat <b>", "response_type": None} for number in range(4)]
    board = leaderboard([Source("a", scores("base", 0.5) + scores("a|b", 0.7), responses)])
    assert board.rows[0].words.value == 3
    lines = list(csv.DictReader(io.StringIO(leaderboard_csv(board))))
    assert [(line["model"], line["mark"]) for line in lines] == [("base", ""), ("a|b", "+")]
    assert float(lines[1]["value"]) == board.rows[1].cells[0].mean.value
    assert leaderboard_markdown(board).splitlines()[3].startswith("| a/b | 0.720")
    assert "significantly better than base" in leaderboard_page(board, title="T")


def test_a_model_over_training_has_a_trajectory():
    rows = scores("base", 0.5)
    for step in (100, 200, 300):
        rows += scores("policy", 0.5 + step / 1000, step=step)
    page = leaderboard_page(leaderboard([Source("a", rows)]), title="T")
    assert "Over training" in page
    assert page.count('class="marker m0') == 3


def test_the_command_compares_rankings_with_people(tell, tmp_path):
    rows = scores("base", 0.5) + scores("mine", 0.6) + scores("best", 0.7)
    write_stage_table(tmp_path / "scored" / "score", "scores", rows)
    (tmp_path / "people.csv").write_text("model,rank\nbest,1\nmine,2\nbase,3\n")
    done = tell("leaderboard", "scored", "--ranking", "people.csv", "--out", "board")
    assert done.code == 0, done.err
    assert "agreement with the ranking 1.00" in done.out
    assert json.loads((tmp_path / "board" / "leaderboard.json").read_text())["comparisons"] == 2
    assert {path.suffix for path in (tmp_path / "board").iterdir()} == {".html", ".md", ".csv", ".json"}


def test_ranks_of_a_blind_ranking_are_counted_and_drawn():
    fields = {"scorer": "blind_ranking", "part": "rank"}
    rows = [score("base", number, 1.0 + number % 2, **fields) for number in range(6)]
    rows += [score("mine", number, 2.0 - number % 2, **fields) for number in range(5)]
    rows += [score("last", number, 3.0, **fields) for number in range(6)]
    board = leaderboard([Source("a", rows)])
    [ranks] = board.ranks
    assert ranks.counts == {"base": {1: 3, 2: 3}, "mine": {1: 2, 2: 3}, "last": {3: 6}}
    assert list(ranks.counts) == ["base", "mine", "last"]
    page = leaderboard_page(board, title="T")
    assert 'aria-label="mine: rank 1 40' in page
    assert 'style="width:60.00%" title="rank 2: 3 of 5"' in page


def test_where_less_is_better_a_rise_is_marked_as_worse_everywhere(tell, tmp_path):
    fields = {"scorer": "painted_order", "part": "rise"}
    rows = scores("base", 0.2, **fields) + scores("swayed", 0.4, **fields) + scores("firm", 0.1, **fields)
    rows += scores("base", 0.5) + scores("swayed", 0.4) + scores("firm", 0.6)
    rows += [row | {"scorer": "oracle", "part": "f1"} for row in rows if row["scorer"] == "likert"]
    folder = tmp_path / "scored" / "score"
    write_stage_table(folder, "scores", rows)
    summary = summarise_scores(rows, lower_is_better=["painted_order_rise"])
    (folder / "scores.json").write_text(summary.model_dump_json())
    board = build_board([tmp_path / "scored"])
    marks = {row.model: row.cells[0].mark for row in board.rows}
    assert marks == {"base": "", "swayed": "-", "firm": "+"}
    radar = board_parts(board)["radar"]
    assert "from the worst to the best" in radar.note
    done = tell("leaderboard", "scored", "--ranking", "painted_order_rise")
    assert "agreement with the ranking 1.00" in done.out  # the Likert judge agrees: what is firm is good


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scored", "--against", "nobody"], "no model is called nobody"),
        (["."], "no finished scores; give a run"),
        (["scored", "--ranking", "people.csv"], "line 2: give the columns model, and standing or rank"),
        (["scored", "--ranking", "nothing"], "no such file, and no figure of the board (likert_rating)"),
    ],
)
def test_what_is_wrong_is_one_line(tell, tmp_path, arguments, message):
    write_stage_table(tmp_path / "scored" / "score", "scores", scores("base", 0.5))
    (tmp_path / "people.csv").write_text("model,place\nbase,1\n")
    done = tell("leaderboard", *arguments)
    assert (done.code, message in done.err) == (2, True), done.err
