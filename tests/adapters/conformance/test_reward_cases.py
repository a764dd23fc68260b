"""Reward functions under a failing judge: a careful one, a careless one, and some that do not fit the suite."""

import json
import os
import urllib.request
from http.client import HTTPException

import pytest

from rubricworks.adapters.conformance import Outcome
from rubricworks.adapters.conformance.bad_judge import Fault, serve_bad_judge
from rubricworks.adapters.conformance.reward import check_reward
from rubricworks.adapters.trl import RubricReward
from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rubrics import Criterion, Rubric

ANSWER = json.dumps({"score": 0.5})


def ask(text, timeout=5.0):
    """Score of the judge at OPENAI_BASE_URL, by a client without any care."""
    body = json.dumps({"model": "judge", "messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.loads(json.load(answer)["choices"][0]["message"]["content"])["score"]


def careful(prompts, completions, **columns):
    def score(text):
        try:
            return ask(text, timeout=0.2)
        except (OSError, HTTPException, ValueError):
            return None

    return [score(text) for text in completions]


def careless(prompts, completions, **columns):
    return [0.0 if value is None else value for value in careful(prompts, completions)]


def crashing(prompts, completions, **columns):
    return [ask(text, timeout=0.2) for text in completions]


def patient(prompts, completions, **columns):
    return [ask(text, timeout=60) for text in completions]


def indifferent(prompts, completions, **columns):
    return [1.0] * len(completions)


@pytest.fixture
def judge(monkeypatch):
    with serve_bad_judge(ANSWER) as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.url)
        yield judge


def outcomes(function, judge, **options):
    return {finding.case: finding for finding in check_reward(function, judge, {}, **options)}


def test_a_careful_reward_leaves_only_the_failed_rollout_out(judge):
    by_fault = outcomes(careful, judge)
    assert set(by_fault) == set(Fault)
    assert {outcome.outcome for outcome in by_fault.values()} == {Outcome.UNJUDGED}
    assert {outcome.seen for outcome in by_fault.values()} == {"0.5 [-] 0.5 0.5"}


def test_a_careless_reward_is_caught_in_every_case(judge):
    by_fault = outcomes(careless, judge)
    assert {(outcome.outcome, outcome.seen) for outcome in by_fault.values()} == {(Outcome.NUMBER, "0.5 [0] 0.5 0.5")}


def test_a_reward_that_raises_stops_the_training_and_is_no_number(judge):
    by_fault = outcomes(crashing, judge)
    assert {outcome.outcome for outcome in by_fault.values()} == {Outcome.STOPPED}
    assert "HTTPError" in by_fault["error"].seen
    assert "Timeout" in by_fault["silent"].seen


def test_a_reward_that_waits_for_ever_is_found_and_let_go(judge):
    by_fault = outcomes(patient, judge, wait_s=0.3)
    assert by_fault["silent"].outcome is Outcome.WAITS
    assert not Outcome.WAITS.keeps


def test_without_an_answer_every_rollout_meets_the_fault(judge):
    judge.answer = None
    by_fault = outcomes(careful, judge)
    assert set(by_fault) == set(Fault) - {Fault.CUT}
    assert {outcome.seen for outcome in by_fault.values()} == {"[-] [-] [-] [-]"}


def test_a_reward_that_asks_no_judge_shows_nothing(judge):
    with pytest.raises(UserError, match="did not ask its judge; name by --judge-env"):
        outcomes(indifferent, judge)


def test_an_answer_that_the_reward_cannot_read_is_the_suites_mistake(judge):
    judge.answer = "yes"
    with pytest.raises(UserError, match="gave - - - - where the judge answered; give by --answer"):
        outcomes(careful, judge)


@pytest.mark.parametrize("values", [None, [1.0], ["good"] * 4, 1.0])
def test_what_is_no_list_of_rewards_is_refused(judge, values):
    with pytest.raises(UserError, match="for 4 completions; one number or None each"):
        outcomes(lambda **columns: values, judge)


def test_our_own_reward_passes_with_a_conversation_and_a_rubric(judge):
    judge.answer = json.dumps({"verdicts": [{"id": 1, "reasoning": "looked", "score": 1}]})
    endpoint = Endpoint(url=judge.url, model="judge", timeout_s=0.5)
    rubric = Rubric(criteria=(Criterion(criterion="names the circle", evaluation_rule="named", weight=1),))
    row = {"prompt": [{"role": "user", "content": "Describe it."}], "rubric": rubric.model_dump_json()}
    reward = RubricReward(Grader(ChatClient(endpoint, attempts=1)))
    findings = check_reward(reward, judge, row)
    assert {finding.outcome for finding in findings} == {Outcome.UNJUDGED}, findings
    assert {finding.seen for finding in findings} == {"1 [-] 1 1"}
