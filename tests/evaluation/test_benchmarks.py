"""General benchmarks as scorers: five of the scene world, by question files and by a stand-in of lmms-eval."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from audited import write_stage_table
from cli_fixtures import tell as tell
from lmms_stand_in import write_launcher
from pydantic import ValidationError
from scripted_server import ScriptedServer, fail, say
from synthetic_run import picture, sample

from rubricworks.data.tables import read_rows
from rubricworks.evaluation.scoreboard import read_scoreboard
from rubricworks.evaluation.scorers.benchmark import BenchmarkScorer
from rubricworks.evaluation.scorers.scorer import Workload
from rubricworks.evaluation.scorers.scorer_table import AnswerScorers
from rubricworks.evaluation.suites.task_sets import TASK_SETS, Benchmark
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


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "which? A. red B. green", "answer": "F"}, "q.jsonl:2: the answer 'F' is none of its 2 options"),
        ({"prompt_text": "which?", "solved": "red"}, "q.jsonl:2: no column of the question"),
        ({"question": "which?", "answer": "red", "image": "gone.png"}, "q.jsonl:2: cannot be read: No such file"),
    ],
)
def test_a_row_of_another_shape_ends_the_measurement_in_one_line(run, tmp_path, row, message):
    (tmp_path / "a.png").write_bytes(picture("red"))
    good = {"image": "a.png", "question": "which? A. red B. green", "answer": "A"}
    (tmp_path / "q.jsonl").write_text("\n".join(json.dumps(line) for line in (good, {"image": "a.png", **row})))
    done, _ = run({**QUESTIONS, "source": str(tmp_path / "q.jsonl")})
    assert done.code == 2
    assert message in done.err
    assert "mend or remove the row" in done.err
    assert "Traceback" not in done.err


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
def test_a_task_with_a_request_that_was_not_answered_has_no_mean(run, benchmarks, tmp_path, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_LMMS_EVAL", str(write_launcher(tmp_path)))
    (benchmarks / "FAULT").write_text("unanswered")
    tasks = ["scene_count", "scene_box"]
    done, out = run({"set": "scene-5", "source": str(benchmarks), "tasks": tasks})
    (benchmarks / "FAULT").unlink()
    assert done.code == 0, done.err
    scores = read_scoreboard(out / "score").scores("base")
    assert "benchmark_scene-5" not in scores.means
    assert scores.tasks["benchmark_scene-5"] == {}
    reason = f"1 of {COUNT} samples have no score (the endpoint did not answer)"
    assert scores.incomplete == {"benchmark_scene-5": dict.fromkeys(sorted(tasks), reason)}
    assert f"base: Benchmarks scene-5 has no mean: scene_count: {reason}" in done.err
    rows = [row for row in read_rows(out / "score") if row["scorer"] == "benchmark_scene-5" and row["model"] == "base"]
    assert [row["value"] for row in rows].count(None) == 2  # the others keep their scores
    assert "so it has no mean" in (out / "leaderboard.md").read_text()


@pytest.fixture
def judged_task(benchmarks, tmp_path, monkeypatch):
    """The stand-in, with a set of one task that asks a judge and one that does not."""
    monkeypatch.setenv("RUBRICWORKS_LMMS_EVAL", str(write_launcher(tmp_path)))
    judged = Benchmark("Count", "scene_count", "right", judge="verdict")
    monkeypatch.setitem(TASK_SETS, "scene-5", (judged, Benchmark("Box", "scene_box", "right")))
    return {"set": "scene-5", "source": str(benchmarks)}


@pytest.mark.slow
def test_a_task_that_needs_a_judge_asks_the_recipes_and_is_refused_without(run, judged_task, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "the-users")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # the judge is asked past any proxy
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    done, out = run(judged_task)
    assert done.code == 0, done.err
    scores = read_scoreboard(out / "score").scores("base")
    reason = "its answers need a judge: give evaluation.scorers.benchmarks.judge"
    assert scores.incomplete == {"benchmark_scene-5": {"scene_count": reason}}
    assert list(scores.tasks["benchmark_scene-5"]) == ["scene_box"]
    assert "benchmark_scene-5" not in scores.means
    given = json.loads((Path(judged_task["source"]) / "keys.json").read_text())
    assert given == {"OPENAI_API_KEY": "the-users", "api_key": "none", "gen_kwargs": None}

    judge = ScriptedServer(lambda _, body: say("0" if "7" in body["messages"][-1]["content"] else "1"))
    out = out.rename(tmp_path / "refused") and out
    endpoint = {"url": judge.url, "model": "verdicts"}
    done, out = run({**judged_task, "judge": endpoint, "max_new_tokens": 77})
    judge.close()
    assert done.code == 0, done.err
    board = read_scoreboard(out / "score")
    assert board.scores("base").incomplete == {}
    assert board.scores("policy").tasks["benchmark_scene-5"]["scene_count"].samples == COUNT
    asked = {chat.body["messages"][-1]["content"] for chat in judge.chats}
    assert asked
    assert all(text.startswith("right? ") for text in asked)
    rows = [row for row in read_rows(out / "score") if row["scorer"] == "benchmark_scene-5"]
    assert {row["judge"] for row in rows} == {"verdicts"}
    given = json.loads((Path(judged_task["source"]) / "keys.json").read_text())
    assert given == {"OPENAI_API_KEY": "the-users", "api_key": "none", "gen_kwargs": "max_new_tokens=77"}


@pytest.mark.slow
@pytest.mark.parametrize(("said", "reason"), [(fail(400, "no"), "transport"), (say("I think it is 1"), "malformed")])
def test_a_judge_that_fails_or_is_misread_gives_no_number(run, judged_task, said, reason):
    judge = ScriptedServer(lambda *_: said)
    done, out = run({**judged_task, "judge": {"url": judge.url, "model": "verdicts"}})
    judge.close()
    assert done.code == 0, done.err
    scores = read_scoreboard(out / "score").scores("base")
    assert scores.incomplete["benchmark_scene-5"]["scene_count"].startswith(f"its judge failed ({reason})")
    assert list(scores.tasks["benchmark_scene-5"]) == ["scene_box"]
    assert "benchmark_scene-5" not in scores.means
    assert not list((out / "score").glob("**/scene_count/results"))  # the program's own 0 is not found again


@pytest.mark.slow
def test_a_judge_without_access_ends_the_evaluation_in_one_line(run, judged_task):
    judge = ScriptedServer(lambda *_: fail(401, "wrong key"))
    done, _ = run({**judged_task, "judge": {"url": judge.url, "model": "verdicts"}})
    judge.close()
    assert done.code == 2
    assert "401" in done.err
    assert "api_key_env" in done.err
    assert "Traceback" not in done.err


def test_answers_that_the_engine_has_no_room_for_are_refused_before_the_run():
    scorers = {"benchmarks": [{"set": "rlr3-15"}]}
    engine = {"kind": "vllm", "max_model_length": 10240}
    with pytest.raises(ValidationError, match=r"10,240, and rlr3-15 asks for answers of up to 49,152 tokens"):
        AnswerEvaluation.model_validate({"scorers": scorers, "engine": engine})
    scorers["benchmarks"][0]["max_new_tokens"] = 8192
    assert AnswerEvaluation.model_validate({"scorers": scorers, "engine": engine})


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


def test_the_plan_has_the_judges_calls_of_all_models_and_milestones():
    judge = {"url": "http://127.0.0.1:9/v1", "model": "judge"}
    work = Workload(responses=0, compared=0, models=11)
    [calls] = BenchmarkScorer.model_validate({"set": "pretrain-9", "judge": judge}).plan(work)
    assert (calls.purpose, calls.count) == ("benchmark_judge", 11 * (3 * 1000 + 433 + 218))
    [few] = BenchmarkScorer.model_validate({"set": "rlr3-15", "judge": judge, "limit": 10}).plan(work)
    assert few.count == 11 * 12 * 5  # twelve of the 15 ask a judge of about half of their answers
    boxed = {"set": "rlr3-15", "judge": judge, "limit": 10, "harness": "answers", "source": "data"}
    assert next(BenchmarkScorer.model_validate(boxed).plan(work)).count == 11 * 15 * 3
    assert list(BenchmarkScorer(set="pretrain-9").plan(work)) == []


def test_a_checkpoint_is_chosen_by_another_set_than_the_reported_one():
    scorers = {"benchmarks": [{"set": "rubicap-9"}, {"set": "pretrain-9"}]}
    with pytest.raises(ValidationError, match="is the set that is reported"):
        AnswerEvaluation.model_validate({"scorers": scorers, "select_by": "benchmark_rubicap-9"})
    assert AnswerEvaluation.model_validate({"scorers": scorers, "select_by": "benchmark_pretrain-9"})
    same = {"scorers": scorers, "select_by": "benchmark_rubicap-9", "select_by_reported": True}
    assert AnswerEvaluation.model_validate(same).selects_by_reported


@pytest.mark.slow
def test_choosing_by_the_reported_set_warns(tell, server, benchmarks, tmp_path):
    samples = write_stage_table(tmp_path / "samples", "samples", [sample("a", picture("red"))])
    settings = {"scorers": {"benchmarks": [{**QUESTIONS, "source": str(benchmarks)}]}, "select_by": "benchmark_mine"}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({**settings, "select_by_reported": True}))
    done = tell(
        "evaluate", f"a=good@{server.url}", "--on", samples, "--with", tmp_path / "s.yaml", "--out", tmp_path / "o"
    )
    assert done.code == 0, done.err
    assert "warning: the checkpoint is chosen by benchmark_mine, which is reported too" in done.err
