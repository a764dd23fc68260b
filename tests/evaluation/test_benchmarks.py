"""General benchmarks as scorers: five of the scene world, by question files and by a stand-in of lmms-eval."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from audited import write_stage_table
from cli_fixtures import tell as tell
from lmms_stand_in import write_launcher
from pydantic import ValidationError
from scripted_server import ScriptedServer, say
from synthetic_run import picture, sample

from rubricworks.data.tables import read_rows
from rubricworks.evaluation.scoreboard import read_scoreboard
from rubricworks.evaluation.scorers.scorer_table import AnswerScorers
from rubricworks.evaluation.suites.task_sets import TASK_SETS
from rubricworks.evaluation.suites.vlmeval import VLMEVAL
from rubricworks.metrics import mean_interval
from rubricworks.stages.evaluation.score_config import AnswerEvaluation
from rubricworks.stages.release.promote import gate_figures
from rubricworks.tracking import Gate
from rubricworks.world.scene.benchmarks_export import BENCHMARKS, export_benchmarks

COUNT = 6


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory) -> Path:
    return export_benchmarks(tmp_path_factory.mktemp("world"), seed=1, count=COUNT)


@pytest.fixture
def server(benchmarks):
    """`good` reads the answers from the files; `bad` answers nothing but how many there are."""
    rows = {
        (row["question"], row["image"]): row["answer"]
        for name in BENCHMARKS
        for row in pq.read_table(benchmarks / f"{name}.parquet").to_pylist()
    }

    def reply(_, body):
        from base64 import b64decode

        content = body["messages"][-1]["content"]
        image = next(part["image_url"]["url"] for part in content if part["type"] == "image_url")
        text = " ".join(part["text"] for part in content if part["type"] == "text")
        key = b64decode(image.partition(",")[2])
        answer = next((a for (question, picture), a in rows.items() if question in text and picture == key), "?")
        knows = body["model"] == "good" or "how many" in text
        return say(f"\\boxed{{{answer}}}" if knows else "I do not know")

    server = ScriptedServer(reply)
    yield server
    server.close()


@pytest.fixture
def run(tell, server, benchmarks, tmp_path):
    """Evaluate the two models by one benchmark scorer on two pictures."""
    pictures = [sample(key, picture(colour)) for key, colour in (("a", "red"), ("b", "green"))]
    samples = write_stage_table(tmp_path / "samples", "samples", pictures)

    def evaluate(*scorers: dict):
        path = tmp_path / "scorers.yaml"
        path.write_text(yaml.safe_dump({"scorers": {"benchmarks": list(scorers)}}))
        models = [f"base=good@{server.url}", f"policy=bad@{server.url}"]
        out = tmp_path / "out"
        return tell("evaluate", *models, "--on", samples, "--with", path, "--out", out), out

    return evaluate


QUESTIONS = {"set": "mine", "harness": "questions"}


def test_question_files_give_a_macro_average_and_the_forgetting(run, benchmarks):
    done, out = run({**QUESTIONS, "source": str(benchmarks)})
    assert done.code == 0, done.err
    board = read_scoreboard(out / "score")
    assert board.mean("base", "benchmark_mine").value == 1
    assert board.mean("policy", "benchmark_mine").value == pytest.approx(1 / 5)  # counting alone is left
    assert {task: mean.value for task, mean in board.scores("policy").tasks["benchmark_mine"].items()} == {
        name: float(name == "scene_count") for name in BENCHMARKS
    }
    gain = board.gain("policy", "benchmark_mine")
    strata = [name for name in BENCHMARKS for _ in range(COUNT)]
    expected = mean_interval([float(name == "scene_count") - 1 for name in strata], share=False, strata=strata)
    assert (gain.value, gain.samples) == (pytest.approx(expected.value), 5 * COUNT)
    verdict = Gate(win_rate_low_above=None, forgetting_at_most=0.05).check(gate_figures(board))
    assert not verdict.passed
    assert "general benchmarks, gain over the base, low end: -0.800, must be at least -0.05" in verdict.reasons[0]
    assert (out / "leaderboard.html").is_file()


@pytest.mark.slow
def test_lmms_evals_files_are_read_and_agree_with_the_rules_here(run, benchmarks, tmp_path, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_LMMS_EVAL", str(write_launcher(tmp_path)))
    tasks = ["scene_count", "scene_box"]
    done, out = run({"set": "scene-5", "source": str(benchmarks), "tasks": tasks})
    assert done.code == 0, done.err
    board = read_scoreboard(out / "score")
    assert board.mean("base", "benchmark_scene-5").value == 1
    assert board.mean("policy", "benchmark_scene-5").value == pytest.approx(1 / 2)
    assert board.gain("policy", "benchmark_scene-5").samples == 2 * COUNT
    rows = [row for row in read_rows(out / "score") if row["scorer"] == "benchmark_scene-5"]
    assert {row["sample_id"].partition("/")[0] for row in rows} == {*tasks}
    assert {row["version"] for row in rows} == {"lmms-eval 0.7.3, tasks scene_count+scene_box"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("dies", "lmms-eval wrote no results of scene_count (exit 0): Error during evaluation"),
        ("truncated", f"{COUNT - 1} lines of samples of scene_count, {COUNT} were to be answered"),
    ],
)
def test_a_harness_that_fails_with_exit_code_0_fails_the_evaluation(
    run, benchmarks, tmp_path, monkeypatch, fault, message
):
    monkeypatch.setenv("RUBRICWORKS_LMMS_EVAL", str(write_launcher(tmp_path)))
    (benchmarks / "FAULT").write_text(fault)
    done, _ = run({"set": "scene-5", "source": str(benchmarks), "tasks": ["scene_count"]})
    (benchmarks / "FAULT").unlink()
    assert done.code == 2
    assert message in done.err


@pytest.mark.slow
def test_a_request_that_the_endpoint_did_not_answer_is_missing_not_wrong(run, benchmarks, tmp_path, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_LMMS_EVAL", str(write_launcher(tmp_path)))
    (benchmarks / "FAULT").write_text("unanswered")
    done, out = run({"set": "scene-5", "source": str(benchmarks), "tasks": ["scene_count"]})
    (benchmarks / "FAULT").unlink()
    assert done.code == 0, done.err
    mean = read_scoreboard(out / "score").mean("base", "benchmark_scene-5")
    assert (mean.value, mean.samples, mean.missing) == (1, COUNT - 1, 1)
    assert "the endpoint did not answer" in {row["reason"] for row in read_rows(out / "score")}


def test_what_lmms_eval_lacks_is_measured_by_the_harness_of_the_paper():
    others = {
        name: [benchmark_set.name for benchmark_set in sets if benchmark_set.harness is VLMEVAL]
        for name, sets in TASK_SETS.items()
    }
    assert {name: lacking for name, lacking in others.items() if lacking} == {
        "rubicap-10": ["OCRVQA"],
        "rubicap-9": ["A-OKVQA"],
    }
    assert [len(sets) for sets in TASK_SETS.values()] == [10, 9, 9, 10, 15, 5]
    versions = [
        AnswerScorers.model_validate({"benchmarks": [{"set": name}]}).benchmarks[0].version for name in TASK_SETS
    ]
    assert versions == [*["lmms-eval 0.7.3, ms-vlmeval 0.0.20"] * 2, *["lmms-eval 0.7.3"] * 4]


@pytest.mark.parametrize(
    ("benchmark", "message"),
    [
        ({"set": "rubicap-11"}, "rubicap-11 is no set of benchmarks"),
        ({"set": "mine", "harness": "questions"}, "needs source"),
        ({"set": "rubicap-9", "tasks": ["gqa"]}, "gqa is no task of rubicap-9"),
    ],
)
def test_what_is_wrong_in_a_recipe(benchmark, message):
    with pytest.raises(ValidationError, match=message):
        AnswerScorers.model_validate({"benchmarks": [benchmark]})


def test_a_checkpoint_is_chosen_by_another_set_than_the_reported_one():
    scorers = {"benchmarks": [{"set": "rubicap-9"}, {"set": "pretrain-9"}]}
    with pytest.raises(ValidationError, match="is the set that is reported"):
        AnswerEvaluation.model_validate({"scorers": scorers, "select_by": "benchmark_rubicap-9"})
    assert AnswerEvaluation.model_validate({"scorers": scorers, "select_by": "benchmark_pretrain-9"})
