"""The papers' tables from any runs: each cell is a figure with its interval, or says what is missing."""

import json
import os

import pytest
import yaml
from cli_fixtures import tell as tell
from synthetic_run import write_table

from rubricworks.claims.paper_table_forms import markdown, page, text
from rubricworks.claims.paper_tables import fill_table, newest_runs, paper_table, paper_tables
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import SCORES_FILE, ModelScores, Scoreboard
from rubricworks.metrics import Interval, dpg_categories

TABLES = [(paper, number) for paper, of in paper_tables().items() for number in of.tables]


def write_scores(folder, *models, base="base", policy="policy", arm=None, pipeline="rubicap", run=True, world=False):
    (folder / "score").mkdir(parents=True)
    board = Scoreboard(base=base, policy=policy, models=models)
    (folder / "score" / SCORES_FILE).write_text(board.model_dump_json())
    if run:
        recipe = {"pipeline": pipeline, **({"arm": arm} if arm else {}), **({"world": {"scenes": 8}} if world else {})}
        (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return folder


def scores(model, means, gains=(), **more):
    intervals = {name: Interval(value=value, low=value - 0.1, high=value + 0.1) for name, value in means.items()}
    gained = {name: Interval(value=value, low=value - 0.2, high=value + 0.2) for name, value in dict(gains).items()}
    return ModelScores(model=model, decoding="greedy", means=intervals, gains=gained, **more)


def cells(table, section, key):
    [found_section] = [filled for filled in table.sections if filled.name == section]
    [row] = [row for row in found_section.rows if row.key == key]
    return dict(zip((column.title for column in table.columns), row.cells, strict=True))


FIGURES = {"capture": 0.5, "specs": 0.6, "coco_rouge_l": 0.2, "coco_corpus_meteor": 0.1, "coco_corpus_bleu_4": 0.05}


@pytest.fixture
def runs(tmp_path):
    base, policy = scores("base", FIGURES), scores("policy", {**FIGURES, "arena_win": 0.7}, {"capture": 0.02})
    own = write_scores(tmp_path / "own", base, policy, world=True)
    arm = write_scores(tmp_path / "rouge", base, scores("policy", {"arena_win": 0.6}), arm="rouge_l")
    experts = scores("reference", {}), scores("policy", {"arena_win": 0.4}), scores("base", {"arena_win": 0.3})
    scored = write_scores(tmp_path / "scored", *experts, base="reference", policy=None, run=False)
    return own, arm, scored


def test_runs_and_evaluations_fill_their_rows_beside_the_papers_figures(runs):
    own, arm, scored = runs
    named = [("", own, ""), ("", arm, ""), ("own", scored, "policy"), ("base", scored, "base")]
    table = fill_table("rubicap", "2", named)
    mine = cells(table, "pixmo", "own")
    assert (mine["Arena vs base"].ours.value, mine["Arena vs base"].paper) == (pytest.approx(70), 70.8)
    assert mine["Arena vs base"].ours.bounds == (pytest.approx(60), pytest.approx(80))
    assert mine["Arena vs reference"].ours.value == pytest.approx(40)  # from the evaluation against those captions
    assert mine["Average"].ours.value == pytest.approx(sum((70, 40, 50, 60, 20, 10, 5)) / 7)
    start = cells(table, "pixmo", "base")
    assert (start["Arena vs base"].ours.value, start["Arena vs reference"].ours.value) == (50, pytest.approx(30))
    gain = cells(table, "pixmo", "gain")
    assert gain["CAPTURE"].ours.bounds == (pytest.approx(-18), pytest.approx(22))  # paired, not of two intervals
    assert gain["Arena vs base"].ours.value == pytest.approx(20)
    assert gain["ROUGE-L"].ours == Interval(value=0)
    rouge = cells(table, "pixmo", "rouge_l")
    assert rouge["Arena vs base"].ours.value == pytest.approx(60)
    assert rouge["CAPTURE"].missing == "evaluation.scorers.capture"
    assert rouge["Average"].missing == "6 of the 7 columns before it"
    assert cells(table, "pixmo", "direct_likert")["SPECS"].missing == "no run of direct_likert"
    assert cells(table, "densefusion", "own")["SPECS"].missing == "a run of its own: name it densefusion=FOLDER"
    assert table.simulated
    other = fill_table("rubicap", "2", [("densefusion", own, ""), ("pixmo.rouge_l", arm, "")])
    assert cells(other, "densefusion", "own")["SPECS"].ours.value == pytest.approx(60)
    assert cells(other, "pixmo", "rouge_l")["Arena vs base"].ours.value == pytest.approx(60)


@pytest.mark.parametrize(("paper", "number"), TABLES)
def test_every_cell_of_every_table_holds_a_figure_or_the_name_of_what_is_missing(paper, number, tmp_path):
    models, pipeline = (scores("base", FIGURES), scores("policy", FIGURES)), paper_table(paper, number).pipelines[0]
    run = write_scores(tmp_path / "run", *models, pipeline=pipeline, world=True)
    table = fill_table(paper, number, [("", run, "")])
    shown = [cell for section in table.sections for row in section.rows for cell in row.cells]
    assert shown
    assert all((cell.ours is None) == bool(cell.missing) for cell in shown)
    assert any(cell.paper is not None for cell in shown) or number == "fig4"  # no number of it is printed
    for form in (text(table), markdown(table), page(table)):
        assert all(section.title.replace("'", "&#39;") in form or section.title in form for section in table.sections)
        assert not table.simulated or "scene world" in form


def test_a_figure_of_bars_is_filled_like_a_table_and_called_a_figure(tell, tmp_path):
    ranked = {"blind_ranking_first": 0.25, "blind_ranking_hallucination": 2.5}
    boards = [
        scores(name, {**ranked, "blind_ranking_first": first}) for name, first in (("base", 0.25), ("policy", 0.5))
    ]
    write_scores(tmp_path / "own", *boards, scores("qwen_72b", ranked))
    done = tell("table", "rubicap", "fig4", "--runs", tmp_path, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert done.out.startswith("rubicap, Figure 4: Blind ranking of RubiCap-7B")
    table = fill_table("rubicap", "fig4", [("", tmp_path / "own", "")])
    assert cells(table, "", "own")["Rank 1"].ours == Interval(value=50, low=40, high=60)
    assert cells(table, "", "qwen_72b")["Hallucination"].ours.value == 2.5
    assert cells(table, "", "qwen_32b")["Rank 1"].missing == "no run of qwen_32b"
    assert cells(table, "", "own")["Clarity"].missing == "evaluation.scorers.blind_ranking"
    assert (tmp_path / "out" / "rubicap-figure-4.html").is_file()


def test_a_task_that_was_not_measured_whole_is_named(tmp_path):
    tasks = {"benchmark_rlr3-15": {"simplevqa": Interval(value=0.5, low=0.4, high=0.6)}}
    why = {"benchmark_rlr3-15": {"mmmu_pro_reasoning": "3 of 10 samples have no score (the endpoint did not answer)"}}
    model = scores("rlr3", {}, tasks=tasks, incomplete=why)
    run = write_scores(tmp_path / "run", scores("base", {}), scores("rlvr", {}), model, policy="rlr3", pipeline="rlr3")
    mine = cells(fill_table("rlr3", "2", [("", run, "")]), "virl", "own")
    assert mine["SimpleVQA"].ours.value == 50
    assert mine["MMMU-Pro"].missing.startswith("3 of 10 samples have no score")
    assert mine["Macro average"].ours is None
    assert mine["We-Math"].missing


def test_files_of_stages_and_categories_of_dpg_bench_fill_columns(tmp_path):
    run = write_scores(tmp_path / "run", scores("base", {}), scores("rlr3", {}), policy="rlr3", pipeline="rlr3")
    (run / "train_genrm").mkdir()
    report = {"sft": {"schema_accuracy": {"value": 0.9, "low": 0.8, "high": 0.95}, "criterion": None}}
    (run / "train_genrm" / "genrm.json").write_text(json.dumps(report))
    genrm = cells(fill_table("rlr3", "4", [("", run, "")]), "", "sft")
    assert genrm["Schema"].ours.bounds == (pytest.approx(80), pytest.approx(95))
    assert genrm["Criterion"].missing == "sft.criterion in train_genrm/genrm.json"

    propositions = [
        {"entity - whole (dog)": "yes", "attribute - color (dog, red)": "no"},
        {"entity - whole (cat)": "no", "attribute - size (cat, big)": "yes", "attribute - color (cat, red)": "yes"},
    ]
    dpg = write_scores(tmp_path / "dpg", scores("base", {}), scores("policy", {"dpg": 0.5}), pipeline="rubricrl")
    row = {"model": "policy", "revision": "", "step": None, "decoding": "greedy", "scorer": "dpg", "version": "1",
           "judge": "", "part": "score", "value": 0.5, "against": None, "reason": None}  # fmt: skip
    rows = [{**row, "sample_id": f"s{at}", "evidence": json.dumps(asked)} for at, asked in enumerate(propositions)]
    write_table(dpg / "score", "scores", rows)
    asked = [(dict(enumerate(answers)), [list(answers.values())]) for answers in propositions]
    expected = dpg_categories(asked)["l1"]
    mine = cells(fill_table("rubricrl", "2", [("", dpg, "")]), "phi3", "own")
    assert mine["Attribute"].ours.value == pytest.approx(100 * expected["attribute"]) == pytest.approx(200 / 3)
    assert mine["Entity"].ours.value == pytest.approx(100 * expected["entity"])
    assert mine["Relation"].missing == "evaluation.scorers.dpg"


def test_the_newest_runs_are_those_of_the_tables_recipes(tmp_path):
    for at, name in enumerate(("rubricrl-ar", "rubricrl-diffusion")):
        run = write_scores(tmp_path / name, scores("base", {}), scores("policy", {}), pipeline="rubricrl")
        (run / "recipe.yaml").write_text(yaml.safe_dump({"pipeline": "rubricrl", "name": f"{name}-laptop"}))
        os.utime(run / "recipe.yaml", (at, at))
    assert newest_runs(tmp_path, "rubricrl", "1") == [tmp_path / "rubricrl-ar"]
    assert newest_runs(tmp_path, "rubricrl", "3") == [tmp_path / "rubricrl-diffusion"]
    [cell] = cells(fill_table("balcaprl", "5", []), "", "dc_score").values()
    assert cell.missing.startswith("a ranking by people")


@pytest.mark.parametrize(
    ("paper", "number", "message"),
    [
        ("rubicon", "1", "rubicon: no such paper; there are rubicap, balcaprl"),
        ("rlr3", "6", "rlr3 has no table 6 of results; it has 1, 2, 3"),
    ],
)
def test_a_table_that_is_none_is_one_line(paper, number, message):
    with pytest.raises(UserError, match=message):
        fill_table(paper, number, [])


def test_two_runs_of_one_row_and_unknown_names_are_refused(runs, tmp_path):
    own, arm, _ = runs
    with pytest.raises(UserError, match="are both the row rouge_l; leave one out"):
        fill_table("rubicap", "2", [("", arm, ""), ("rouge_l", own, "")])
    with pytest.raises(UserError, match=r"no row or section bleu; rows are base, rouge_l.*sections pixmo, densefusion"):
        fill_table("rubicap", "2", [("bleu", own, "")])
    (tmp_path / "empty").mkdir()
    other = write_scores(tmp_path / "other", scores("base", {}), pipeline="rlr3")
    with pytest.raises(UserError, match="other: a run of rlr3, and the table rubicap 2 is of rubicap; name the row"):
        fill_table("rubicap", "2", [("", other, "")])
    with pytest.raises(UserError, match="empty: neither a run nor an evaluation"):
        fill_table("rubicap", "2", [("", tmp_path / "empty", "")])


def test_the_command_prints_the_newest_runs_and_writes_the_page(tell, runs, tmp_path):
    done = tell("table", "rubicap", "2", "--runs", tmp_path, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "70.0 [60.0 to 80.0]" in done.out
    assert "missing: evaluation.scorers.capture" in done.out
    written = json.loads((tmp_path / "out" / "rubicap-table-2.json").read_text())
    assert sorted(written["sources"]) == [str(tmp_path / "own"), str(tmp_path / "rouge")]
    assert "paper 70.8" in (tmp_path / "out" / "rubicap-table-2.html").read_text()
    done = tell("table", "rubicap", "2", "own=nowhere")
    assert done.code == 2
    assert "there is no folder nowhere" in done.err
