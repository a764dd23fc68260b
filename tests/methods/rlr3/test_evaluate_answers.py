"""Milestones of both arms answer held-out questions: the table, its figures, the best one, and the gate behind it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from asked_stages import tables
from audited import write_stage_table
from scripted_server import Said, fail, say
from small_policy import LONGEST, make_inputs

from rubricworks.data.tables import read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.evaluation.answer_summary import AnswerSummary, summarise_answers
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import close_job, open_job, output_digest
from rubricworks.runtime.launch import launch
from rubricworks.verifiers.boxed import last_boxed, score_answer

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
    made = make_inputs(folder)
    rows = list(read_rows(made["samples"]))
    for row in rows:
        row["answer"] = REFERENCE if row["task"] == "word" and row["split"] == "held_out" else row["answer"]
    nothing, taught = folder / "made" / "untrained", Path(made["model"]) / "model"
    return {
        "samples": str(write_stage_table(folder / "samples", "samples", rows)),
        "model": trained(folder / "base", "warm_up", {1: nothing}),
        "rlvr": trained(folder, "train_rlvr", {2: taught, 4: taught}),
        "rlr3": trained(folder, "train_rlr3", {2: nothing, 4: taught}),
    }


def trained(run: Path, stage: str, milestones: dict[int, Path]) -> str:
    """A training's folder as its stage leaves it."""
    job = open_job(stage, StageConfig(), run, {})
    for step, model in milestones.items():
        shutil.copytree(model, job.out / "milestones" / f"step-{step:06d}")
        shutil.copytree(model, job.out / "model", dirs_exist_ok=True)
    close_job(job, 0.0)
    return str(job.out)


def right_if_cat(_: int, body: dict[str, Any]) -> Said:
    """The judge: `cat` is a cat."""
    answer = body["messages"][1]["content"].split("<answer>\n")[1].split("\n</answer>")[0]
    said = say(json.dumps({"reason": "r", "right": answer == "cat"}))
    said.delay = 0.2
    return said


def settings(url: str | None, **config: Any) -> str:
    judge = {"judge": {"url": url, "model": "answer-judge", "attempts": 1}} if url else {}
    return json.dumps({"max_new_tokens": LONGEST, "batch_size": 4, **judge, **config})


def evaluate(run: Path, inputs: dict[str, str], url: str | None, **config: Any) -> Path:
    return Path(launch("evaluate_answers", settings(url, **config), str(run), inputs))


def test_every_model_answers_every_held_out_question_and_right_is_what_rules_or_judge_say(inputs, serve, tmp_path):
    server = serve(right_if_cat)
    out = evaluate(tmp_path, inputs, server.url)
    rows = list(read_rows(out))
    held_out = {one.sample_id: one for one in read_samples(inputs["samples"], "held_out")}
    models = [("base", 0), ("rlvr", 2), ("rlvr", 4), ("rlr3", 2), ("rlr3", 4)]
    assert [(row["arm"], row["step"], row["sample_id"]) for row in rows] == [
        (arm, step, name) for arm, step in models for name in held_out
    ]
    judged = 0
    for row in rows:
        sample = held_out[row["sample_id"]]
        assert row["task"] == sample.task
        if sample.task == "word":
            judged += bool(last_boxed(row["response"]))
            assert row["right"] == (last_boxed(row["response"]) == "cat")
        else:
            score = score_answer(row["response"], sample.answer, options=bool(sample.options))
            assert row["right"] == (score >= 0.5)
    assert {row["right"] for row in rows if row["task"] == "word"} == {True, False}
    # Only open answers that are not the reference's words; what two models answer alike is asked once.
    assert 0 < len(server.chats) <= judged
    assert all("image_url" not in chat.text for chat in server.chats)
    # RLVR's milestones are the same model, which answers the same.
    by_model = {model: [row["response"] for row in rows if (row["arm"], row["step"]) == model] for model in models}
    assert by_model["rlvr", 2] == by_model["rlvr", 4] == by_model["rlr3", 4] != by_model["base", 0]


def test_summary_is_that_of_the_table_and_model_leads_to_the_best_milestone(inputs, serve, tmp_path):
    out = evaluate(tmp_path, inputs, serve(right_if_cat).url)
    summary = AnswerSummary.model_validate_json((out / "answers.json").read_bytes())
    assert summary == summarise_answers(read_rows(out), seed=1)
    assert summary.best == {"rlvr": 2, "rlr3": 4}
    assert (out / "model").resolve() == Path(inputs["rlr3"]) / "milestones" / "step-000004"
    assert (out / "model" / "config.json").is_file()
    assert summary.gains["rlr3"].value > 0 == summary.gains["rlr3 - rlvr"].value


def test_without_a_judge_words_must_be_those_of_the_reference(inputs, tmp_path):
    out = evaluate(tmp_path, {name: inputs[name] for name in ("samples", "model", "rlvr")}, None)
    assert {row["right"] for row in read_rows(out) if row["task"] == "word"} == {False}
    assert (out / "model").resolve() == Path(inputs["rlvr"]) / "milestones" / "step-000002"


def test_answer_whose_judge_fails_is_missing_not_wrong(inputs, serve, tmp_path):
    out = evaluate(tmp_path, inputs, serve([fail(400, "no")]).url)
    lost = [row for row in read_rows(out) if row["right"] is None]
    assert lost
    assert {row["task"] for row in lost} == {"word"}
    letters = list(read_rows(out / "dead_letters"))
    assert Counter(letter["sample_id"] for letter in letters) == Counter(row["sample_id"] for row in lost)
    summary = AnswerSummary.model_validate_json((out / "answers.json").read_bytes())
    assert sum(one.macro.missing for one in (summary.base, *summary.arms["rlr3"], *summary.arms["rlvr"])) == len(lost)


def test_when_nothing_could_be_judged_it_says_so_and_begins_anew_the_next_time(inputs, serve, tmp_path):
    words = [row for row in read_rows(inputs["samples"]) if row["task"] == "word"]
    taught = inputs["rlr3"]
    some = {"samples": str(write_stage_table(tmp_path / "words", "samples", words)), "model": taught, "rlr3": taught}
    answers = [fail(400, "no")]
    server = serve(lambda number, body: answers[0] or right_if_cat(number, body))
    with pytest.raises(UserError, match=r"no answer could be judged; see .*dead_letters"):
        evaluate(tmp_path / "run", some, server.url)
    answers[0] = None
    assert {row["right"] for row in read_rows(evaluate(tmp_path / "run", some, server.url))} <= {True, False}


def test_arm_without_milestones_is_refused_with_what_to_set(inputs, tmp_path):
    bare = trained(tmp_path / "other", "train_rlr3", {})
    with pytest.raises(UserError, match=r"kept no milestones; set policy\.milestone_every"):
        evaluate(tmp_path / "run", inputs | {"rlr3": bare}, None)


def test_other_milestones_of_the_same_model_are_another_training(inputs, tmp_path):
    taught = Path(inputs["rlr3"]) / "model"
    digests = {
        output_digest(Path(trained(tmp_path / str(number), "train_rlr3", dict.fromkeys(steps, taught))))
        for number, steps in enumerate([(2, 4), (2, 4), (4,)])
    }
    assert len(digests) == 2


def test_killed_half_way_and_run_again_it_ends_with_the_same_bytes(inputs, serve, tmp_path):
    server = serve(right_if_cat)
    whole = evaluate(tmp_path / "whole", inputs, server.url)
    before = len(server.chats)
    run = tmp_path / "cut"
    arguments = ["evaluate_answers", settings(server.url), str(run), json.dumps(inputs)]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stderr=subprocess.DEVNULL)
    while not (run / "evaluate_answers" / "part-00005.parquet").exists():
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (run / "evaluate_answers" / "done.json").exists()
    cut = evaluate(run, inputs, server.url)
    assert tables(cut) == tables(whole)
    assert (cut / "answers.json").read_bytes() == (whole / "answers.json").read_bytes()
    assert (cut / "model").resolve() == (whole / "model").resolve()
    assert len(server.chats) <= 2 * before + 4  # at most the batch in flight is asked again


@pytest.mark.parametrize(("above", "passes"), [(-0.5, True), (0.99, False)])
def test_promotion_holds_the_gain_of_the_best_milestone_against_the_gate(inputs, tmp_path, above, passes):
    out = evaluate(tmp_path, inputs, None)
    gate = {"win_rate_low_above": None, "accuracy_gain_low_above": above}
    read = {"evaluations": str(out), "policy": str(out), "samples": inputs["samples"]}
    config = json.dumps({"model_name": "answerer", "gate": gate})
    promotion = json.loads((Path(launch("promote", config, str(tmp_path), read)) / "promotion.json").read_text())
    low = AnswerSummary.model_validate_json((out / "answers.json").read_bytes()).gains["rlr3"].low
    assert promotion["passed"] is passes
    said = "is" if passes else "must be"
    assert promotion["reasons"] == [f"accuracy gain, low end: {low:.3f}, {said} above {above:g}"]
