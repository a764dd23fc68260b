"""`rubricworks conformance`: the table, the exit code, and mistakes."""

import json

import pytest

REWARDS = """
import json, os, urllib.request

def ask(text):
    body = json.dumps({"model": "judge", "messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(os.environ["MY_JUDGE"] + "/chat/completions", body)
    with urllib.request.urlopen(request, timeout=0.2) as answer:
        return json.loads(json.load(answer)["choices"][0]["message"]["content"])["score"]

def careful(prompts, completions, pattern, **columns):
    assert pattern == ["short"] * 4, pattern
    return [graded(text, None) for text in completions]

def careless(prompts, completions, **columns):
    return [graded(text, 0.0) for text in completions]

def graded(text, otherwise):
    try:
        return ask(text)
    except Exception:
        return otherwise

class Rewards: ...
"""
ANSWER = '{"score": 0.5}'
TRAINER = """
from rubricworks.adapters.conformance import Outcome
from rubricworks.adapters.conformance.cases import number

class Sums:
    package, left_out = "pytest", Outcome.MASKED

    def advantages(self, batch):
        sums = [sum(number(cell) or 0 for cell in row) for row in batch.rewards_NK]
        return [value - sum(sums) / len(sums) for value in sums]

    def line(self, batch):
        return "sums.py:1"
"""


@pytest.fixture
def check(tell, tmp_path, monkeypatch):
    for name in ("MY_JUDGE", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "unset")  # restored afterwards
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_rewards.py").write_text(REWARDS)
    (tmp_path / "my_trainer.py").write_text(TRAINER)
    (tmp_path / "row.json").write_text(json.dumps({"prompt": "Describe it.", "pattern": "short"}))
    return lambda *arguments: tell("conformance", *arguments)


def test_a_careful_reward_passes(check):
    done = check("my_rewards:careful", "--row", "row.json", "--answer", ANSWER, "--judge-env", "MY_JUDGE")
    assert done.code == 0, done
    lines = done.out.splitlines()
    assert lines[0] == "my_rewards:careful"
    assert lines[1].split() == ["ok", "error", "unjudged", "0.5", "[-]", "0.5", "0.5"]
    assert lines[2].strip() == "the judge answers HTTP 500"
    assert lines[-1] == "6 of 6 cases: no failure becomes a number"


def test_a_careless_reward_fails_with_exit_code_1(check):
    done = check("my_rewards:careless", "--answer", ANSWER, "--judge-env", "MY_JUDGE")
    assert done.code == 1
    assert done.out.count("FAIL ") == 6
    assert done.out.splitlines()[1].split() == ["FAIL", "error", "a", "number", "0.5", "[0]", "0.5", "0.5"]
    assert "0 of 6 cases" in done.out


def test_a_trainer_of_ones_own_is_checked_and_printed_as_markdown(check):
    done = check("my_trainer:Sums", "--trainer", "--markdown")
    assert done.code == 1
    assert done.out.splitlines()[0].startswith(f"| pytest {pytest.__version__} | case | outcome |")
    assert "| FAIL | equals | counted as 0 | `0.22 0.22 [-0.68] 0.22` | `sums.py:1` |" in done.out
    assert "| ok | raises | stopped | `RuntimeError: the judge answered HTTP 500` |  |" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["my_rewards"], "write it as module:name"),
        (["my_rewards:kind"], "has no kind"),
        (["my_rewards:Rewards"], "is a class"),
        (["my_rewards:ask"], "it must take (prompts, completions, **columns)"),
        (["my_rewards:careful", "--row", "my_rewards.py"], "it must be one JSON object"),
    ],
)
def test_mistakes_are_told_in_one_line(check, arguments, message):
    done = check(*arguments)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
