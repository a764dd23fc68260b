"""Score milestones of two trainings by their answers: the tables, the board, the best one, and the gate behind it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from asked_stages import tables
from audited import write_stage_table
from question_rows import write
from scripted_server import Said, fail, say
from small_policy import LONGEST, make_inputs

from rubricworks.data.alarm import Alarm, write_alarm
from rubricworks.data.tables import read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import ModelScores, Scoreboard, read_scoreboard, summarise_scores
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import close_job, open_job, output_digest
from rubricworks.runtime.launch import launch
from rubricworks.training import model_server
from rubricworks.verifiers.boxed import last_boxed, score_answer

pytestmark = pytest.mark.slow

pytest.importorskip("torch")

REFERENCE = "a cat"
"""What the word is on held-out pictures: `cat` means the same, and is not the same word."""
PROGRAM = """
import json, sys
from rubricworks.runtime.launch import launch
launch(*sys.argv[1:4], json.loads(sys.argv[4]))
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    """A base that knows nothing; RLR³ learns late, RLVR early and then nothing more."""
    folder = tmp_path_factory.mktemp("inputs")
    paths = make_inputs(folder)
    rows = list(read_rows(paths["samples"]))
    for row in rows:
        row["answer"] = REFERENCE if row["task"] == "word" and row["split"] == "held_out" else row["answer"]
    nothing, taught = folder / "made" / "untrained", Path(paths["model"]) / "model"
    return {
        "samples": str(write_stage_table(folder / "samples", "samples", rows)),
        "model": trained(folder / "base", "warm_up", {1: nothing}),
        "peer": trained(folder, "train_rlvr", {2: taught, 4: taught}),
        "policy": trained(folder, "train_rlr3", {2: nothing, 4: taught}),
    }


def trained(run: Path, stage: str, milestones: dict[int, Path]) -> str:
    """A training's folder as its stage leaves it."""
    job = open_job(stage, StageConfig(), run, {})
    write_alarm(job.out, Alarm(state="silent"))
    for step, model in milestones.items():
        shutil.copytree(model, job.out / "milestones" / f"step-{step:06d}")
        shutil.copytree(model, job.out / "model", dirs_exist_ok=True)
    close_job(job, 0.0)
    return str(job.out)


def right_if_cat(_: int, body: dict[str, Any]) -> Said:
    """The judge: `cat` is a cat."""
    answer = body["messages"][1]["content"].split("<answer>\n")[1].split("\n</answer>")[0]
    reply = say(json.dumps({"reason": "r", "right": answer == "cat"}))
    reply.delay = 0.2
    return reply


RIGHT = "answers_right"


def settings(url: str | None, **config: Any) -> str:
    judge = {"judge": {"url": url, "model": "answer-judge"}} if url else {}
    models = {
        "type": "answers",
        "policy": "rlr3",
        "peer": "rlvr",
        "select_by": "answers_right",
        "scorers": {"answers": judge},
    }
    return json.dumps({"max_new_tokens": LONGEST, "batch_size": 4, **models, **config})


def score(run: Path, inputs: dict[str, str], url: str | None, **config: Any) -> Path:
    return Path(launch("score", settings(url, **config), str(run), inputs))


def board_of(out: Path) -> Scoreboard:
    board = read_scoreboard(out)
    assert board is not None
    return board


def verdicts(out: Path) -> list[dict[str, Any]]:
    """Rows of the scorer, without the lengths."""
    return [row for row in read_rows(out) if row["scorer"] == "answers"]


def open_questions(inputs: dict[str, str]) -> set[str]:
    return {sample.sample_id for sample in read_samples(inputs["samples"], "held_out") if sample.task == "word"}


def test_every_model_answers_every_held_out_question_by_rules_or_judge(inputs, serve, tmp_path):
    server = serve(right_if_cat)
    out = score(tmp_path, inputs, server.url)
    rows, responses = verdicts(out), list(read_rows(out / "responses"))
    held_out = {sample.sample_id: sample for sample in read_samples(inputs["samples"], "held_out")}
    models = [("base", None), ("rlvr", 2), ("rlvr", 4), ("rlr3", 2), ("rlr3", 4)]
    expected = [(model, step, name) for model, step in models for name in held_out]
    for table in (rows, responses):
        assert [(row["model"], row["step"], row["sample_id"]) for row in table] == expected
    judged = 0
    for row, response in zip(rows, responses, strict=True):
        sample, text = held_out[row["sample_id"]], response["response"]
        assert (row["part"], row["judge"], row["against"]) == ("right", "answer-judge", None)
        if sample.task == "word":
            judged += bool(last_boxed(text))
            assert row["value"] == (last_boxed(text) == "cat")
        else:
            overlap = score_answer(text, sample.answer, options=bool(sample.options))
            assert row["value"] == (overlap >= 0.5)
    assert {row["value"] for row in rows if held_out[row["sample_id"]].task == "word"} == {1, 0}
    # Only open answers that are not the reference's words; what two models answer alike is asked once.
    assert 0 < len(server.chats) <= judged
    assert all("image_url" not in chat.text for chat in server.chats)
    # RLVR's milestones are the same model, which answers the same.
    by_model = {
        model: [row["response"] for row in responses if (row["model"], row["step"]) == model] for model in models
    }
    assert by_model["rlvr", 2] == by_model["rlvr", 4] == by_model["rlr3", 4] != by_model["base", None]
    lengths = {
        (row["model"], row["step"], row["sample_id"]): row["value"]
        for row in read_rows(out)
        if row["scorer"] == "length"
    }
    assert lengths == {(row["model"], row["step"], row["sample_id"]): row["tokens"] for row in responses}


def test_board_is_that_of_the_table_and_model_leads_to_the_best_milestone(inputs, serve, tmp_path):
    out = score(tmp_path, inputs, serve(right_if_cat).url)
    board = board_of(out)
    tasks = {sample.sample_id: sample.task for sample in read_samples(inputs["samples"], "held_out")}
    again = summarise_scores(
        read_rows(out), policy=board.candidate, tasks=tasks, by_task=(RIGHT,), select_by=RIGHT, seed=1
    )
    assert board.model_copy(update={"titles": {}}) == again.model_copy(update={"titles": {}})
    assert board.best == {"rlvr": 2, "rlr3": 4}
    for scores in board.models:
        assert scores.means[RIGHT].value == pytest.approx(macro_by_hand(out, tasks, scores))
    assert (out / "model").resolve() == Path(inputs["policy"]) / "milestones" / "step-000004"
    assert (out / "model" / "config.json").is_file()
    assert board.gain("rlr3", RIGHT).value > 0 == board.differences["rlr3 - rlvr"].value


def macro_by_hand(out: Path, tasks: dict[str, str], scores: ModelScores) -> float:
    values = defaultdict(list)
    for row in verdicts(out):
        if (row["model"], row["step"]) == (scores.model, scores.step):
            values[tasks[row["sample_id"]]].append(row["value"])
    return mean(map(mean, values.values()))


def test_without_a_judge_words_must_be_those_of_the_reference(inputs, tmp_path):
    out = score(tmp_path, {name: inputs[name] for name in ("samples", "model", "peer")}, None)
    words = open_questions(inputs)
    assert {row["value"] for row in verdicts(out) if row["sample_id"] in words} == {0}
    assert (out / "model").resolve() == Path(inputs["peer"]) / "milestones" / "step-000002"


def test_answer_whose_judge_fails_is_missing_not_wrong(inputs, serve, tmp_path):
    out = score(tmp_path, inputs, serve([fail(400, "no")]).url)
    failures = [row for row in verdicts(out) if row["value"] is None]
    assert failures
    assert {row["sample_id"] for row in failures} <= open_questions(inputs)
    assert all(row["reason"] for row in failures)
    letters = list(read_rows(out / "dead_letters"))
    assert Counter(letter["sample_id"] for letter in letters) == Counter(row["sample_id"] for row in failures)
    assert {(letter["stage"], letter["reason"]) for letter in letters} == {("score", row["reason"]) for row in failures}
    assert sum(model.means[RIGHT].missing for model in board_of(out).models) == len(failures)


def test_when_nothing_could_be_judged_it_says_so_and_begins_anew_the_next_time(inputs, serve, tmp_path):
    words = [row for row in read_rows(inputs["samples"]) if row["task"] == "word"]
    taught = trained(tmp_path / "taught", "train_rlr3", {4: Path(inputs["policy"]) / "model"})
    some = {"samples": str(write_stage_table(tmp_path / "words", "samples", words)), "model": taught, "policy": taught}
    answers = [fail(400, "no")]
    server = serve(lambda number, body: answers[0] or right_if_cat(number, body))
    with pytest.raises(UserError, match=r"answers could judge no response .*; see .*dead_letters"):
        score(tmp_path / "run", some, server.url)
    answers[0] = None
    assert {row["value"] for row in verdicts(score(tmp_path / "run", some, server.url))} <= {1, 0}


def test_reference_that_cannot_be_read_is_missing_with_a_dead_letter(inputs, tmp_path):
    rows = list(read_rows(inputs["samples"]))
    first = next(row for row in rows if row["task"] == "box" and row["split"] == "held_out")
    first["answer"] = "[[1, 2, 3]]"
    samples = str(write_stage_table(tmp_path / "samples", "samples", rows))
    out = score(tmp_path, {"samples": samples, "model": inputs["policy"]}, None, select_by=None)
    failures = {row["sample_id"]: (row["value"], row["reason"]) for row in verdicts(out) if row["reason"]}
    assert failures == {first["sample_id"]: (None, "unverifiable")}
    letters = [(row["sample_id"], row["reason"]) for row in read_rows(out / "dead_letters")]
    assert letters == [(first["sample_id"], "unverifiable")]


def test_training_without_milestones_is_refused_with_what_to_set(inputs, tmp_path):
    bare = trained(tmp_path / "other", "train_rlr3", {})
    with pytest.raises(UserError, match=r"kept no milestones; set policy\.algorithm\.milestone_every"):
        score(tmp_path / "run", inputs | {"policy": bare}, None)


def test_other_milestones_of_the_same_model_are_another_training(inputs, tmp_path):
    taught = Path(inputs["policy"]) / "model"
    digests = {
        output_digest(Path(trained(tmp_path / str(number), "train_rlr3", dict.fromkeys(steps, taught))))
        for number, steps in enumerate([(2, 4), (2, 4), (4,)])
    }
    assert len(digests) == 2


@pytest.mark.long
def test_killed_half_way_and_run_again_it_ends_with_the_same_bytes(inputs, serve, tmp_path):
    server = serve(right_if_cat)
    whole = score(tmp_path / "whole", inputs, server.url)
    before = len(server.chats)
    run = tmp_path / "cut"
    arguments = ["score", settings(server.url), str(run), json.dumps(inputs)]
    for part in ("responses/responses/part-00005.parquet", "scores/part-00005.parquet"):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stderr=subprocess.DEVNULL)
        while not (run / "score" / part).exists():
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not (run / "score" / "done.json").exists()
    cut = score(run, inputs, server.url)
    assert tables(cut) == tables(whole)
    assert (cut / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()
    assert (cut / "model").resolve() == (whole / "model").resolve()
    assert len(server.chats) <= 2 * before + 4  # at most the batch in flight is asked again


@pytest.mark.parametrize(("above", "passes"), [(-0.5, True), (0.99, False)])
def test_promotion_holds_the_gain_of_the_best_milestone_against_the_gate(inputs, tmp_path, above, passes):
    out = score(tmp_path, inputs, None)
    gate = {"win_rate_low_above": None, "accuracy_gain_low_above": above, "samples_at_least": 1, "no_alarm": True}
    read = {"scores": str(out), "policy": str(out), "samples": inputs["samples"]}
    config = json.dumps({"model_name": "answerer", "gate": gate})
    promotion = json.loads((Path(launch("promote", config, str(tmp_path), read)) / "promotion.json").read_text())
    low = board_of(out).gain("rlr3", RIGHT).low
    assert promotion["passed"] is passes
    text = "is" if passes else "must be"
    assert promotion["reasons"] == [
        f"accuracy gain, low end: {low:.3f}, {text} above {above:g}",
        "alarm of reward hacking: has not fired",  # of the training whose milestone it is
    ]


def test_model_that_writes_text_is_no_model_of_images(inputs, tmp_path):
    config = {"type": "images", "scorers": {"geneval": {"url": "http://127.0.0.1:9/detect"}}}
    with pytest.raises(
        UserError, match=r"writes text, and the scorers are of other responses; change evaluation\.type"
    ):
        launch("score", json.dumps(config), str(tmp_path), {"samples": inputs["samples"], "model": inputs["policy"]})


def test_benchmarks_of_all_milestones_share_one_start_of_the_engine(inputs, tmp_path, monkeypatch):
    starts = []
    served_model = model_server.served_model

    def noted(folder, *arguments, **options):
        starts.append(folder)
        return served_model(folder, *arguments, **options)

    monkeypatch.setattr(model_server, "served_model", noted)
    held_out = [sample for sample in read_samples(inputs["samples"], "held_out") if sample.task == "word"]
    rows = [{"image": sample.image, "question": sample.question, "answer": "cat"} for sample in held_out]
    source = write(tmp_path / "questions", rows)
    sets = [  # different limits, so that no set is answered by the cache of the other
        {"set": name, "harness": "questions", "source": source, "max_new_tokens": limit}
        for name, limit in (("one", 8), ("two", 9))
    ]
    out = score(tmp_path, inputs, None, scorers={"answers": {}, "benchmarks": sets})
    given = defaultdict(list)
    for row in read_rows(out):
        if row["scorer"].startswith("benchmark_"):
            given[row["model"], row["step"]].append((row["scorer"], row["sample_id"], row["value"], row["reason"]))
    assert {len(rows) for rows in given.values()} == {2 * len(held_out)}
    untrained, taught = given["base", None], given["rlvr", 2]
    assert taught != untrained
    assert given == {
        ("base", None): untrained,
        ("rlvr", 2): taught,
        ("rlvr", 4): taught,
        ("rlr3", 2): untrained,
        ("rlr3", 4): taught,
    }
    assert len(starts) == 1
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    [speeds] = [line["benchmark_speeds"] for line in lines if line["stage"] == "score"]
    assert [(name, answers) for name, answers, _, _ in speeds] == [(name, len(held_out)) for name in ("one", "two")] * 5
    assert min(seconds for _, _, _, seconds in speeds) > 0
