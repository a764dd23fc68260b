"""The caption policy trained for a few steps by its stage, on a tiny student and with judges over HTTP."""

import json
import math
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
from audited import write_stage_table
from caption_judge import GROUP, OUTAGE, SHAPE, TRUTH, judge, make_inputs, rewards_by_hand, shown_in, train, words
from safetensors.torch import load_file
from scripted_server import ScriptedServer, say
from training_configs import policy_json

from rubricworks.data.tables import read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.grading import GradedCaption
from rubricworks.policy.algorithms.sft import Sft
from rubricworks.policy.rewards.caption_scores import CaptionScoresReward
from rubricworks.rl import decoupled_advantages, group_advantages
from rubricworks.runtime.launch import launch

pytestmark = pytest.mark.slow

pytest.importorskip("trl")

WEIGHTS = (0.1, 0.3, 0.3)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer(judge)
    yield server
    server.close()


@pytest.fixture(scope="module")
def balanced(inputs, server, tmp_path_factory) -> Path:
    return train(tmp_path_factory.mktemp("balanced"), inputs, server)


def graded_steps(out: Path) -> list[list[dict[str, Any]]]:
    return [list(rows) for _, rows in groupby(read_rows(out / "caption_grades"), key=lambda row: row["step"])]


def row_rewards(row: dict[str, Any]) -> tuple[float, ...]:
    """The three rewards as the policy was paid; NaN where it could not be judged."""
    if row["precision"] is None:
        return (math.nan,) * 3
    return row["precision"], row["recall"], 0.0 if row["gated"] else row["linguistic"]


def test_grades_are_those_of_the_judge_gated_by_the_lengths_beside_them(balanced, inputs):
    samples = {sample.sample_id: sample for sample in read_samples(inputs["samples"])}
    rows = list(read_rows(balanced / "caption_grades"))
    assert len(rows) == SHAPE["steps"] * SHAPE["prompts_per_step"] * GROUP
    for row in rows:
        sample = samples[row["sample_id"]]
        graded = GradedCaption.model_validate_json(row["graded"])
        assert (graded.caption, graded.reference) == (row["response"], sample.references[0])
        rewards = (row["precision"], row["recall"], row["linguistic"])
        by_hand = rewards_by_hand(row["response"], sample.references[0], TRUTH[sample.image])
        assert rewards == ((None,) * 3 if by_hand is None else pytest.approx(by_hand))
        assert row["tokens"] == len(row["response"].split())
        assert row["reference_tokens"] == len(sample.references[0].split())
        assert row["gated"] == (not 0.5 <= row["tokens"] / row["reference_tokens"] <= 2.0)
    assert {row["gated"] for row in rows} == {True, False}
    assert {row["precision"] is None for row in rows} == {True, False}


def test_advantages_in_the_table_are_those_of_the_rewards_in_it_step_by_step(balanced):
    steps = graded_steps(balanced)
    assert len(steps) == SHAPE["steps"]
    for rows in steps:
        expected = decoupled_advantages(torch.tensor([row_rewards(row) for row in rows]), WEIGHTS, GROUP).tolist()
        assert [row["advantage"] for row in rows] == pytest.approx(expected, abs=1e-5)
        assert {row["advantage"] for row in rows if row["precision"] is None} <= {0.0}
        assert max(abs(row["advantage"]) for row in rows) > 0.5


def test_rollouts_stand_beside_with_the_weighted_sum_as_their_reward(balanced):
    grades, rollouts = (list(read_rows(balanced / name)) for name in ("caption_grades", "rollouts"))
    for name in ("step", "sample_id", "response", "advantage"):
        assert [row[name] for row in grades] == [row[name] for row in rollouts]
    for row, grade in zip(rollouts, grades, strict=True):
        expected = sum(weight * reward for weight, reward in zip(WEIGHTS, row_rewards(grade), strict=True))
        assert row["reward"] == (None if math.isnan(expected) else pytest.approx(expected))


def test_what_could_not_be_judged_is_a_dead_letter_and_nothing_else_is(balanced):
    failures = {row["response"] for row in read_rows(balanced / "caption_grades") if row["precision"] is None}
    letters = list(read_rows(balanced / "dead_letters"))
    assert {letter["response"] for letter in letters} == failures
    assert failures
    assert all(OUTAGE in response.split() for response in failures)
    assert {letter["stage"] for letter in letters} == {"train_balcaprl"}


def test_the_judge_sees_each_samples_own_image_and_first_caption(balanced, inputs, server):
    pairs = {
        (sample.image, sample.references[0]) for sample in read_samples(inputs["samples"], "train") if sample.references
    }
    requests = [shown_in(chat.body) for chat in server.chats]
    assert {(image, text.split("<reference>\n")[1].split("\n</reference>")[0]) for image, text in requests} <= pairs


def test_only_training_samples_with_a_reference_are_trained_on(balanced):
    sample_ids = {row["sample_id"] for row in read_rows(balanced / "rollouts")}
    assert sample_ids <= {f"s{number}" for number in range(12)} - {"s3", "s7", "s5"}
    (line,) = map(json.loads, (balanced.parent / "ledger.jsonl").read_text().splitlines())
    assert (line["without_reference"], line["steps"], line["alarm"]) == (1, 3, None)
    assert json.loads((balanced / "alarm.json").read_text())["state"] == "too_short"


def test_training_that_dies_and_resumes_leaves_the_same_model_and_tables(
    balanced, inputs, server, tmp_path, monkeypatch
):
    from rubricworks.policy.step_tables import StepTables

    add = StepTables.add

    def dies(self, step, *rows):
        if step.step == 3:
            raise KeyboardInterrupt
        add(self, step, *rows)

    with monkeypatch.context() as patch:
        patch.setattr(StepTables, "add", dies)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, inputs, server)
    out = train(tmp_path, inputs, server)
    # Not the dead letters: a judge's failure is not in the cache, so a step that is drawn again asks again, once more
    # for rollouts that were alike.
    for name in ("caption_grades", "rollouts"):
        assert list(read_rows(out / name)) == list(read_rows(balanced / name))
    whole, resumed = (load_file(folder / "model" / "model.safetensors") for folder in (balanced, out))
    assert all(whole[name].equal(tensor) for name, tensor in resumed.items())


def test_linear_penalty_lowers_the_advantage_and_leaves_the_gate_open(inputs, server, tmp_path):
    length = {"type": "linear", "lower": 0.9, "upper": 1.1, "scale": 0.5}
    out = train(tmp_path, inputs, server, reward={"length": length}, steps=2)
    penalties = []
    for rows in graded_steps(out):
        normalised = decoupled_advantages(torch.tensor([row_rewards(row) for row in rows]), WEIGHTS, GROUP).tolist()
        for row, advantage in zip(rows, normalised, strict=True):
            ratio = row["tokens"] / row["reference_tokens"]
            distance = max(ratio - 1.1, 0) + max(0.9 - ratio, 0)
            penalties.append(0.5 * distance if row["precision"] is not None else 0.0)
            assert row["advantage"] == pytest.approx(advantage - penalties[-1], abs=1e-5)
            assert not row["gated"]
    assert max(penalties) > 0.1


def test_without_decoupling_and_precision_the_rest_is_added_and_then_normalised(inputs, server, tmp_path):
    weights = {"precision": 0, "recall": 0.3, "linguistic": 0.3}
    reward = {"weights": weights, "length": None}
    out = train(tmp_path, inputs, server, reward=reward, advantages="group", steps=2)
    for rows in graded_steps(out):
        sums = torch.tensor([0.3 * recall + 0.3 * linguistic for _, recall, linguistic in map(row_rewards, rows)])
        expected = group_advantages(sums, GROUP).tolist()
        assert [row["advantage"] for row in rows] == pytest.approx(expected, abs=1e-4)
        assert not any(row["gated"] for row in rows)


def test_a_verifier_looks_at_the_image_and_the_judge_reads_alone(inputs, serve, tmp_path):
    def by_half(number: int, body: dict[str, Any]):
        content = body["messages"][1]["content"]
        if body["model"] == "eye":
            image, text = shown_in(body)
            listed = json.loads(text.split("<assertions>\n")[1].split("\n</assertions>")[0])
            marks = [{**item, "is_verified": item["text"] in TRUTH[image]} for item in listed]
            return say(json.dumps({"assertions": marks}))
        assert isinstance(content, str)
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
        TRUTH.setdefault(b"", [])
        both = [{}, {"content": [picture, {"type": "text", "text": content}]}]
        caption_words = judge(number, {"messages": both})
        if caption_words.status != 200:
            return caption_words
        answer = json.loads(json.loads(caption_words.body)["choices"][0]["message"]["content"])
        for assertion in answer["synthetic_features"]["atomic_assertions"]:
            del assertion["is_verified"]
        return say(json.dumps(answer))

    halves = serve(by_half)
    out = train(tmp_path, inputs, halves, reward={"verifier": {"url": halves.url, "model": "eye"}}, steps=1)
    images = {sample.sample_id: sample.image for sample in read_samples(inputs["samples"])}
    rows = [row for row in read_rows(out / "caption_grades") if row["precision"] is not None]
    assert rows
    for row in rows:
        caption_words = words(row["response"])
        held = sum(word in TRUTH[images[row["sample_id"]]] for word in caption_words)
        assert row["precision"] == pytest.approx(held / len(caption_words) if caption_words else 0)
        assert row["judge"] == "looker + eye"


def test_what_cannot_be_trained_on_is_refused_in_one_line(inputs, server, tmp_path):
    rows = [{**row, "references": ["…"]} for row in read_rows(inputs["samples"])]
    bare = inputs | {"samples": str(write_stage_table(tmp_path / "samples", "samples", rows))}
    refusal = "none of the 10 samples to train on has a reference caption"
    with pytest.raises(UserError, match=refusal):
        train(tmp_path / "grpo", bare, server)
    with pytest.raises(UserError, match=refusal):
        launch("train_balcaprl", policy_json(None, Sft), str(tmp_path / "sft"), bare)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": {"precision": 0, "recall": 0, "linguistic": 0}}, "all three weights are 0"),
        ({"weights": {"precision": -1}}, "precision"),
        ({"length": {"type": "gate", "lower": 3}}, "lower is 3.0 and upper 2.0"),
        ({"length": {"type": "band"}}, "gate"),
        ({"pointability": "loose"}, "strict"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_when_it_is_read(options, message):
    judge = {"url": "http://127.0.0.1:1/v1", "model": "m"}
    with pytest.raises(ValueError, match=message):
        CaptionScoresReward.model_validate({"type": "caption_scores", "judge": judge, **options})


def test_the_defaults_are_the_papers():
    judge = {"url": "http://127.0.0.1:1/v1", "model": "m"}
    reward = CaptionScoresReward.model_validate({"type": "caption_scores", "judge": judge})
    assert reward.weights.in_order == WEIGHTS
    assert reward.length.model_dump() == {"type": "gate", "lower": 0.5, "upper": 2.0}
    assert reward.pointability == "strict"
