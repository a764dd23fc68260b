"""The canary: fixed responses graded again, quiet while the judge stays and loud when it changes."""

import json
import logging
import zlib
from functools import partial
from types import SimpleNamespace

import pytest
from scripted_server import fail, say
from synthetic_run import write_table

from rubricworks.grading import Cascade, Grader
from rubricworks.llm import ChatClient
from rubricworks.policy.rewards.canary import Canary, CanaryConfig, CanaryRecord
from rubricworks.rubrics import Criterion, Rubric

RUBRIC = Rubric(criteria=tuple(Criterion(criterion=f"word-{at}", weight=1) for at in range(6))).model_dump_json()
NAMES = [f"s{at:02}" for at in range(20)]


class Judge:
    """Finds the words in the caption; a share of all (verdict, seed) pairs flips, and `lenient` credits everything."""

    def __init__(self, flips=0):
        self.flips, self.lenient = flips, False

    def __call__(self, _, body):
        text = body["messages"][1]["content"]
        caption = text.split("<caption>\n")[1]
        scores = []
        for item in json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0]):
            met = self.lenient or item["criterion"] in caption
            question = f"{caption} {item['id']} {body['seed']}"
            flip = self.flips and zlib.crc32(question.encode()) % self.flips == 0
            scores.append({"id": item["id"], "reasoning": "", "score": int(met != bool(flip))})
        return say(json.dumps({"verdicts": scores}))


def grader_of(client):
    judge = client("judge")
    return lambda seed: Grader(judge, seed=seed)


@pytest.fixture
def canary(tmp_path, serve):
    """Makes the canary of one training, again after a restart; returns the judge, the server and the maker."""
    rows = [
        {
            **dict.fromkeys(("model", "revision", "prompt_version", "endpoint"), ""),
            **{"sample_id": name, "captioner": teacher, "seed": 0, "prompt_tokens": 0, "completion_tokens": 0},
            "cost": 0.0,
            "caption": " ".join(f"word-{at}" for at in range(number % 6)) + f" of {name} by {teacher}",
        }
        for number, name in enumerate(NAMES)
        for teacher in "ab"
    ]
    write_table(tmp_path / "captions", "captions", rows)
    job = SimpleNamespace(out=tmp_path, inputs={"captions": tmp_path / "captions"})

    def start(judge, grader_of=grader_of):
        server = serve(judge)
        make = grader_of(partial(ChatClient, server.url, cache=tmp_path / "answers.sqlite"))
        rubrics, config = dict.fromkeys(NAMES, RUBRIC), CanaryConfig(every=10, samples=16)
        return server, lambda: Canary(config, job, make, rubrics)

    return start


def checks(tmp_path):
    return CanaryRecord.model_validate_json((tmp_path / "canary.json").read_text()).checks


def test_a_judge_that_stays_raises_no_alarm_and_is_asked_every_so_many_steps(canary, tmp_path, caplog):
    server, make = canary(Judge())
    watch = make()
    with caplog.at_level(logging.WARNING, "rubricworks"):
        for step in range(1, 31):
            watch.after_step(step)
    assert [check.step for check in checks(tmp_path)] == [0, 10, 20, 30]
    assert {check.verdicts for check in checks(tmp_path)} == {16 * 6}
    assert (watch.alarm, caplog.records) == ("", [])
    assert len(server.chats) == 5 * 16  # the cache answers none of them
    captions = {heard.body["messages"][1]["content"].split(" by ")[1][0] for heard in server.chats}
    assert captions == {"a", "b"}


def test_a_judge_that_becomes_lenient_is_told_with_the_figure(canary, tmp_path, caplog):
    judge = Judge()
    _, make = canary(judge)
    watch = make()
    watch.after_step(10)
    judge.lenient = True
    with caplog.at_level(logging.WARNING, "rubricworks"):
        watch.after_step(20)
    met = sum(min(number % 6, 6) for number in range(16)) / (16 * 6)
    assert f"moved by {1 - met:+.2f}" in watch.alarm
    assert "the judge has changed by step 20" in caplog.text
    assert [bool(check.alarm) for check in checks(tmp_path)] == [False, False, True]


def test_a_fickle_judge_is_no_changed_one(canary, tmp_path):
    _, make = canary(Judge(flips=7))
    watch = make()
    for step in range(10, 101, 10):
        watch.after_step(step)
    assert checks(tmp_path)[0].changed.value > 0.1
    assert watch.alarm == ""


def test_judge_that_fails_at_the_start_is_watched_from_its_first_success(canary, tmp_path, caplog):
    judge, down = Judge(), [True]
    server, make = canary(lambda number, body: fail(400) if down[0] else judge(number, body))
    watch = make()
    assert "the canary of step 0 could not be graded" in caplog.text
    asked = len(server.chats)
    watch.after_step(10)
    watch.after_step(11)
    assert len(server.chats) == asked + 32  # once every so many steps, as when it answers
    down[0] = False
    watch.after_step(20)
    assert [(check.step, check.verdicts) for check in checks(tmp_path)] == [(20, 16 * 6)]
    judge.lenient = True
    watch.after_step(30)
    assert "have moved by" in watch.alarm


def test_a_restart_remembers_the_start_and_repeats_no_check(canary, tmp_path):
    judge = Judge()
    server, make = canary(judge)
    make().after_step(10)
    asked = len(server.chats)
    again = make()
    again.after_step(10)
    assert len(server.chats) == asked
    judge.lenient = True
    again.after_step(20)
    assert again.alarm


class Unsure(Judge):
    """Cheap judge whose draws of the even criteria disagree, and a strong one, `Judge` itself, that decides them."""

    def __call__(self, number, body):
        said = super().__call__(number, body)
        if body["model"] == "strong":
            return said
        text = json.loads(json.loads(said.body)["choices"][0]["message"]["content"])
        for row in text["verdicts"]:
            if row["id"] % 2 == 0:
                row["score"] = body["seed"] % 2
        return say(json.dumps(text))


def cascade_of(client):
    cheap, strong = client("cheap"), client("strong")

    def make(seed):
        unsure = Grader(cheap, confidence="repeats", repeats=2, seed=2 * seed)
        return Cascade(unsure, Grader(strong, seed=seed), below=0.9)

    return make


def test_a_cascade_is_watched_whole_its_strong_judge_too(canary, tmp_path):
    judge = Unsure()
    server, make = canary(judge, cascade_of)
    watch = make()
    watch.after_step(10)
    asked = [heard.body["model"] for heard in server.chats]
    assert (asked.count("cheap"), asked.count("strong")) == (3 * 16 * 2, 3 * 16)
    assert [(check.changed.value, check.alarm) for check in checks(tmp_path)] == [(0, ""), (0, "")]
    judge.lenient = True  # of the even criteria, only the strong judge's verdicts stand
    watch.after_step(20)
    assert "have moved by" in watch.alarm
