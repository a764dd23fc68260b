"""RubiCap's policy training with the options that look at a group: the tables show what they did."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from report_page import text_of, write_report
from rubric_squares import make_inputs
from scripted_server import Said, say
from synthetic_run import write_recipe
from training_configs import policy_json

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.policy.rewards.canary import CanaryRecord
from rubricworks.runtime.launch import launch

pytest.importorskip("trl")
pytestmark = pytest.mark.slow

RL = {"steps": 2, "prompts_per_step": 2, "group_size": 4, "max_new_tokens": 8, "learning_rate": 1e-4}
WEIGHTS = (3, 1)
"""Of the two criteria of each rubric: its colour, and that there is a square."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


def grade(_: int, body: dict[str, Any]):
    """The first criterion is met by captions with an even number of letters, the second by those with an "e"."""
    text = body["messages"][1]["content"]
    caption = text.split("<caption>\n")[1].split("\n</caption>")[0]
    scores = [int(len(caption) % 2 == 0), int("e" in caption)]
    verdicts = [{"id": at, "reasoning": "r", "score": score} for at, score in enumerate(scores, start=1)]
    return say(json.dumps({"verdicts": verdicts}))


def train(run: Path, inputs: dict[str, str], judge: dict[str, Any] | str, *, reward: Any = (), **options: Any) -> Path:
    """Train by a rubric reward.

    Args:
        judge: the judge, or the address of one.
        reward: further settings of the reward.
    """
    if isinstance(judge, str):
        judge = {"url": judge, "model": "judge"}
    config = policy_json({"type": "rubric", "judge": judge, **dict(reward)}, **{**RL, **options})
    return Path(launch("train_policy", config, str(run), inputs))


def fours(rows: Sequence[Any]) -> list[Sequence[Any]]:
    return [rows[at : at + 4] for at in range(0, len(rows), 4)]


def groups_of(out: Path) -> list[tuple[list[float], list[list[float]]]]:
    """Rewards and credits of each group."""
    rewards = [row["reward"] for row in read_rows(out / "rollouts")]
    credits = [
        [verdict["credit"] for verdict in json.loads(row["scorecard"])["verdicts"]]
        for row in read_rows(out / "scorecards")
    ]
    return list(zip(fours(rewards), fours(credits), strict=True))


def test_refill_draws_other_captions_where_all_pass_or_fail_a_criterion(inputs, serve, tmp_path):
    out = train(tmp_path, inputs, serve(grade).url, refill={"rounds": 3, "criterion": "square"})
    advantages = [row["advantage"] for row in read_rows(out / "rollouts")]
    trained = dropped = 0
    for (_, credits), group in zip(groups_of(out), fours(advantages), strict=True):
        with_signal = len({row[1] for row in credits}) == 2
        assert all(item is None for item in group) or with_signal
        trained += with_signal
        dropped += not with_signal
    assert trained
    assert dropped


def test_canary_of_a_cascade_sees_the_strong_judge_change(inputs, serve, tmp_path):
    """The cheap judge's draws disagree on the second criterion, which the strong one decides; after 40 calls, as 1."""
    strong_calls = 0

    def answer(_, body):
        nonlocal strong_calls
        strong = body["model"] == "strong"
        strong_calls += strong
        scores = [int(strong_calls > 40)] if strong else [1, body["seed"] % 2]
        rows = [{"id": at, "reasoning": "r", "score": score} for at, score in enumerate(scores, start=1)]
        return say(json.dumps({"verdicts": rows}))

    server = serve(answer)
    cheap, strong = ({"url": server.url, "model": model} for model in ("judge", "strong"))
    judge = {"type": "cascade", "cheap": cheap, "strong": strong, "repeats": 2}
    out = train(tmp_path, inputs, judge, reward={"canary": {"every": 4, "samples": 8}}, steps=8)
    record = CanaryRecord.model_validate_json((out / "canary.json").read_text())
    assert [check.step for check in record.checks] == [0, 4, 8]
    assert record.checks[0].changed.value == 0
    assert "have moved by +0.50" in record.checks[-1].alarm
    on_teachers = [chat.body for chat in server.chats if "none of it" in str(chat.body) or "a square" in str(chat.body)]
    asked = Counter((teacher["model"], teacher["seed"], teacher["messages"][1]["content"]) for teacher in on_teachers)
    assert set(asked.values()) == {1}
    seeds = {teacher["seed"] for teacher in on_teachers if teacher["model"] == "judge"}
    assert seeds >= {0, 1, 2, 3}


def test_a_judge_that_answers_as_another_model_in_mid_training_ends_it(inputs, serve, tmp_path):
    def answer(number, body):
        said = grade(number, body)
        model = "judge-2026-01" if number < 12 else "judge-2026-06"
        return Said(json.dumps(json.loads(said.body) | {"model": model}).encode())

    server = serve(answer)
    endpoint = {"url": server.url, "model": "judge", "on_change": "refuse", "concurrency": 1}
    with pytest.raises(UserError, match="answered as judge-2026-01 before, and now as judge-2026-06"):
        train(tmp_path, inputs, endpoint, steps=20)
    assert not (tmp_path / "train_policy" / "done.json").exists()
    assert len(server.chats) < 20


@pytest.mark.parametrize("kind", ["logprob", "cascade"])
def test_a_judge_without_log_probabilities_is_refused_before_training(inputs, serve, tmp_path, kind):
    server = serve(grade)
    endpoint = {"url": server.url, "model": "judge"}
    judges = {"logprob": {"judge": endpoint}, "cascade": {"cheap": endpoint, "strong": endpoint | {"model": "strong"}}}
    with pytest.raises(UserError, match="gives no log-probabilities, which credits and confidences of them need"):
        train(tmp_path, inputs, {"type": kind, **judges[kind]})
    assert len(server.chats) == 1


def measured_agreement(folder: Path, identity: tuple[str, str]) -> Path:
    """What `agreement --json` writes of a judge that credits 20 % of what is not met and misses 10 % of what is."""

    def rate(value: float) -> dict[str, Any]:
        return {"value": value, "low": None, "high": None}

    errors = {"judge": "judge", "labelled": 50, "unlabelled": 0, "judged_met": 0.5, "truly_met": rate(0.5)}
    entry = {"identity": identity, "prompts": ["judge-2"]}
    report = {
        **{"raters": [], "empty_labels": 0, "groups": [], "comparisons": []},
        "errors": [errors | {"false_positive": rate(0.2), "false_negative": rate(0.1)}],
        "identities": [{"rater": "judge", "judge": "judge", "entries": [entry]}],
    }
    (folder / "agreement.json").write_text(json.dumps(report))
    return folder / "agreement.json"


def test_rewards_are_corrected_by_the_rates_that_the_report_names(inputs, serve, tmp_path):
    file = measured_agreement(tmp_path, ("m", ""))
    out = train(tmp_path, inputs, serve(grade).url, reward={"noise_correction": {"agreement": str(file)}})
    for rewards, credits in groups_of(out):
        expected = [sum(w * (y - 0.2) / 0.7 for w, y in zip(WEIGHTS, row, strict=True)) / 4 for row in credits]
        assert rewards == pytest.approx(expected)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert json.loads((out / "made_from.json").read_text())["versions"]["noise_rates"] == digest
    judge = {"url": "http://gpu/v1", "model": "judge"}
    reward = {"type": "rubric", "judge": judge, "noise_correction": {"agreement": str(file)}}
    write_recipe(tmp_path, {"policy": {"reward": reward, "algorithm": {"type": "grpo"}}})
    file.unlink()
    page = text_of(write_report(tmp_path)[0]).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "of all criteria, it credits 20 % of what is not met" in page
    assert "judge answers as m, prompt judge-2" in page
    assert "misses 10 %" in page


def test_judge_other_than_the_measured_one_ends_the_training(inputs, serve, tmp_path):
    file = measured_agreement(tmp_path, ("m-of-last-year", ""))
    server = serve(grade)
    with pytest.raises(UserError, match=r"answers as m, and \S*agreement\.json measured it as m-of-last-year"):
        train(tmp_path, inputs, server.url, reward={"noise_correction": {"agreement": str(file)}})
    assert not (tmp_path / "train_policy" / "done.json").exists()
