"""The field's caption metrics as scorers: three captioners of the scene world, by the command `evaluate`."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from caption_suite import captions, world, write_responses, write_scorers
from cli_fixtures import run_cli

from rubricworks.data.tables import read_rows
from rubricworks.evaluation.scoreboard import Scoreboard, read_scoreboard
from rubricworks.metrics import caparena_auto, coco_scores, elo_mle
from rubricworks.metrics.caparena import BASELINES

pytestmark = pytest.mark.slow

COUNT = 12


class Suite:
    """A finished evaluation."""

    def __init__(self, out: Path, texts: dict[str, list[str]], names: list[str], done: Any) -> None:
        self.out, self.texts, self.names, self.done = out, texts, names, done
        board = read_scoreboard(out / "score")
        assert board is not None, done.err
        self.board: Scoreboard = board
        self.samples = list(read_rows(out / "prepare", columns=["sample_id", "source", "references"]))
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in read_rows(out / "score"):
            self.rows[row["scorer"]].append(row)

    def values(self, scorer: str, model: str, part: str) -> dict[str, float]:
        rows = (row for row in self.rows[scorer] if (row["model"], row["part"]) == (model, part))
        return {row["sample_id"]: row["value"] for row in rows}


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Suite:
    folder = tmp_path_factory.mktemp("suite")
    with world(folder / "world", COUNT) as url:
        images = folder / "world" / "images"
        names = sorted(path.name for path in images.glob("*.png"))
        texts = captions(COUNT)
        keys = list(BASELINES.values())
        baselines = {
            name: {"ref_model": keys[number % 3], "captions": {keys[number % 3]: texts["noisy"][number]}}
            for number, name in enumerate(names)
        }
        (folder / "caparena_auto_600.json").write_text(json.dumps(baselines))
        judge = {"url": f"{url}/v1", "model": "arena-judge"}
        scorers = write_scorers(
            folder / "scorers.yaml",
            url,
            coco={},
            capture={"judge": {"url": f"{url}/v1", "model": "graph-parser"}, "encoder": None, "synonyms": False},
            arena={"judge": judge, "against": ["models"], "baselines": str(folder / "caparena_auto_600.json")},
            blind_ranking="ranking-judge",
            specs={"encoder": str(folder / "no-such-model")},
        )
        files = write_responses(folder, names, texts)
        done = run_cli("evaluate", *files, "--on", images, "--with", scorers, "--out", folder / "out")
    return Suite(folder / "out", texts, names, done)


def test_coco_figures_are_those_of_the_reference_code(suite):
    references = {row["sample_id"]: row["references"] for row in suite.samples}
    responses = {row["sample_id"]: row["response"] for row in read_rows(suite.out / "score" / "responses")
                 if row["model"] == "noisy"}  # fmt: skip
    expected = coco_scores(responses, references)
    means = suite.board.scores("noisy").means
    assert means["coco_corpus_bleu_4"].value == pytest.approx(expected["Bleu_4"])
    assert means["coco_corpus_meteor"].value == pytest.approx(expected["METEOR"])
    assert means["coco_rouge_l"].value == pytest.approx(expected["ROUGE_L"])
    assert means["coco_cider"].value == pytest.approx(expected["CIDEr"])
    assert means["coco_rouge_l"].bounds is not None
    assert means["coco_corpus_bleu_4"].bounds is None


def test_capture_falls_with_what_a_caption_leaves_out(suite):
    means = {model.model: model.means for model in suite.board.models}
    assert means["whole"]["capture"].value > means["short"]["capture"].value
    assert means["short"]["capture_objects_recall"].value < means["whole"]["capture_objects_recall"].value
    assert "chat parser" in suite.rows["capture"][0]["version"]


def test_elo_ratings_are_those_of_all_judgments(suite):
    battles = []
    for row in suite.rows["tournament"]:
        for judgment in json.loads(row["evidence"])["judgments"]:
            pair = (row["model"], row["against"]) if judgment["first"] else (row["against"], row["model"])
            verdict = {"A": "Caption 1 is better.", "B": "Caption 2 is better.", "Tie": "Tie."}[judgment["judgment"]]
            battles.append({"source1": pair[0], "source2": pair[1], "judge": verdict})
    assert len(battles) == 2 * 3 * COUNT  # both orders of every pair of three models
    exact = elo_mle(battles)
    means = {model.model: model.means for model in suite.board.models}
    for model, rating in exact.items():
        # The order of battles moves the solver's stop by about 0.1.
        assert means[model]["tournament_elo"].value == pytest.approx(rating, abs=0.5)
        assert means[model]["tournament_elo"].low < rating < means[model]["tournament_elo"].high
    assert means["whole"]["tournament_elo"].value > means["short"]["tournament_elo"].value
    assert 0 <= suite.board.position_bias["tournament"].value <= 1
    assert "prefer the caption that stands first" in suite.done.err


def test_caparena_auto_counts_wins_against_each_images_baseline(suite):
    sources = {row["sample_id"]: Path(row["source"]).name for row in suite.samples}
    verdicts = {1.0: "Caption 1 is better.", 0.0: "Caption 2 is better.", 0.5: "Tie."}
    battles = {
        model: [
            {
                **{"source1": model, "source2": row["against"], "ref_model": row["against"]},
                **{"caption1": suite.texts[model][suite.names.index(sources[row["sample_id"]])], "caption2": ""},
                "judge": verdicts[row["value"]],
            }
            for row in suite.rows["caparena"]
            if row["model"] == model
        ]
        for model in suite.texts
    }
    for model, expected in caparena_auto(battles).items():
        means = suite.board.scores(model).means
        assert means["caparena_auto"].value == pytest.approx(expected["avg"], abs=0.005)
        assert means["caparena_cog"].value == pytest.approx(expected["cog"])


def test_blind_ranks_follow_from_totals_that_the_code_computes(suite):
    models = list(suite.texts)
    for sample in suite.samples:
        sample_id = sample["sample_id"]
        parts = {
            model: {
                part: suite.values("blind_ranking", model, part)[sample_id]
                for part in ("total", "rank", "accuracy", "completeness", "clarity", "hallucination", "first")
            }
            for model in models
        }
        for part in parts.values():
            total = (part["accuracy"] + part["completeness"] + part["clarity"]) / 3 - 1.5 * part["hallucination"]
            assert part["total"] == pytest.approx(total)
            assert part["rank"] == 1 + sum(other["total"] > part["total"] for other in parts.values())
            assert part["first"] == float(part["rank"] == 1)
    means = {model.model: model.means for model in suite.board.models}
    assert means["whole"]["blind_ranking_rank"].value < means["short"]["blind_ranking_rank"].value
    places = {json.loads(row["evidence"])["place"] for row in suite.rows["blind_ranking"]
              if row["evidence"] and row["model"] == "whole"}  # fmt: skip
    assert places == {1, 2, 3}  # shuffled anew for every image


def test_a_scorer_without_its_model_is_skipped_with_the_reason(suite):
    assert suite.done.code == 0
    assert {row["value"] for row in suite.rows["specs"]} == {None}
    assert all("no such model directory" in row["reason"] for row in suite.rows["specs"])
    assert "specs was skipped" in suite.done.err


def test_the_board_of_an_evaluation_is_logged_to_mlflow(suite, tmp_path):
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    options = ["--experiment", "boards", "--mlflow", uri, "--title", "Captioners", "--out", tmp_path / "board"]
    done = run_cli("leaderboard", suite.out, *options)
    assert done.code == 0, done.err
    client = MlflowClient(uri)
    [run] = client.search_runs([client.get_experiment_by_name("boards").experiment_id])
    assert run.data.metrics["whole/ROUGE-L"] == suite.board.scores("whole").means["coco_rouge_l"].value
    assert run.data.tags["mlflow.runName"] == "Captioners"
    files = {artifact.path for artifact in client.list_artifacts(run.info.run_id)}
    assert {"leaderboard.html", "leaderboard.csv", "instruments.json"} <= files
