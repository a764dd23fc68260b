"""Both arms trained for a few steps by their stages, on a tiny student and with a judge over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audited import write_stage_table
from safetensors.torch import load_file
from scripted_server import ScriptedServer, fail
from small_policy import GROUP, LONGEST, block, judge, make_inputs
from training_configs import policy_json

from rubricworks.data.tables import count_rows, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.policy.algorithms.grpo import AnswerGrpo
from rubricworks.rewards import format_mask, group_rewards
from rubricworks.rubrics import Rubric, Scorecard
from rubricworks.runtime.launch import launch
from rubricworks.training.checkpoints import milestone_dirs
from rubricworks.verifiers.boxed import score_answer

pytest.importorskip("trl")

pytestmark = pytest.mark.slow

SHAPE = {"steps": 4, "prompts_per_step": 4, "group_size": GROUP, "max_new_tokens": LONGEST, "learning_rate": 1e-3}
SHAPE |= {"milestone_every": 2, "save_every": 2}
TRAINED_ON = ("samples", "rubrics", "filtered", "model")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer(judge)
    yield server
    server.close()


def train(stage: str, run: Path, inputs: dict[str, str], *, judge: Any = None, parts: Any = (), **options: Any) -> Path:
    """Train by the checklists that a judge executes, or without one by the answers alone.

    Args:
        parts: further settings of the checklists' reward.
    """
    reward = {"type": "checklist", "judge": judge, **dict(parts)} if judge else {"type": "answer"}
    config = policy_json(reward, AnswerGrpo, **{**SHAPE, **options})
    return Path(launch(stage, config, str(run), {name: inputs[name] for name in TRAINED_ON}))


@pytest.fixture(scope="module")
def rlr3(inputs, server, tmp_path_factory) -> Path:
    endpoint = {"url": server.url, "model": "scorer"}
    return train("train_rlr3", tmp_path_factory.mktemp("rlr3"), inputs, judge=endpoint)


@pytest.fixture(scope="module")
def rlvr(inputs, tmp_path_factory) -> Path:
    return train("train_rlvr", tmp_path_factory.mktemp("rlvr"), inputs)


def groups(out: Path) -> list[tuple[list[dict], list[Scorecard]]]:
    """The rollouts of each group with their scorecards."""
    rollouts, cards = list(read_rows(out / "rollouts")), list(read_rows(out / "scorecards"))
    assert [row["response"] for row in rollouts] == [row["response"] for row in cards]
    assert [row["reward"] for row in rollouts] == [row["reward"] for row in cards]
    parsed = [Scorecard.model_validate_json(row["scorecard"]) for row in cards]
    starts = range(0, len(rollouts), GROUP)
    pairs = [(rollouts[start : start + GROUP], parsed[start : start + GROUP]) for start in starts]
    assert all(len({row["sample_id"] for row in rows}) == 1 for rows, _ in pairs)
    return pairs


def filtered_ids(inputs: dict[str, str]) -> set[str]:
    return {row["sample_id"] for row in read_rows(inputs["filtered"]) if row["kept"]}


def expected(rows: list[dict], cards: list[Scorecard], inputs: dict[str, str], *, mask: bool = True, **parts: bool):
    """The group's rewards from its scorecards, by the rubric table."""
    rubrics = {row["sample_id"]: row["rubric"] for row in read_rows(inputs["rubrics"])}
    questions = {sample.sample_id: sample.question for sample in read_samples(inputs["samples"])}
    name = rows[0]["sample_id"]
    rubric = Rubric.model_validate_json(rubrics[name])
    allowed = [questions[name], *(criterion.reference for criterion in rubric.criteria)]
    valid = [row["tokens"] < LONGEST and (not mask or format_mask(row["response"], allowed=allowed)) for row in rows]
    credits = [card.credits for card in cards]
    return group_rewards(credits, rubric.weights, essential=rubric.essential, valid=valid, **parts)


def test_rewards_in_the_table_are_those_of_the_scorecards_group_by_group(rlr3, inputs):
    pairs = groups(rlr3)
    assert len(pairs) == SHAPE["steps"] * SHAPE["prompts_per_step"]
    for rows, cards in pairs:
        assert [row["reward"] for row in rows] == pytest.approx(expected(rows, cards, inputs))
    rewards = {row["reward"] for rows, _ in pairs for row in rows}
    assert {0.0, 1.0} < rewards  # wrong, right, and something between
    assert any(row["tokens"] == LONGEST and row["reward"] == 0 for rows, _ in pairs for row in rows)
    # Remapping and the gate have something to do here, or the comparison would show little.
    plain = [expected(rows, cards, inputs, remap=False, gate=False) for rows, cards in pairs]
    assert [row["reward"] for rows, _ in pairs for row in rows] != [reward for rewards in plain for reward in rewards]


@pytest.mark.parametrize("arm", ["rlr3", "rlvr"])
def test_only_samples_that_the_filter_kept_are_trained_on(arm, inputs, request):
    sample_ids = {row["sample_id"] for row in read_rows(request.getfixturevalue(arm) / "rollouts")}
    train = {sample.sample_id for sample in read_samples(inputs["samples"], "train")}
    assert sample_ids <= filtered_ids(inputs) < train
    assert len(sample_ids) > len(filtered_ids(inputs)) / 2


def test_judge_is_called_once_a_response_without_image_or_target(rlr3, server):
    chats = [chat for chat in server.chats if chat.body["model"] == "scorer"]
    responses = {(row["sample_id"], row["response"]) for row in read_rows(rlr3 / "rollouts")}
    assert len(chats) == len({chat.text for chat in chats}) <= len(responses)  # the cache answers repetitions
    for chat in chats:
        assert "image_url" not in chat.text
        assert "target" not in chat.text
        references = [item["reference"] for part in json.loads(block(chat.body, "checklist")).values() for item in part]
        assert set(references) <= {"expr_verify", "bbox_verify", "cat", "left"}


def test_leaving_out_parts_of_the_reward_gives_the_weighted_share(inputs, server, tmp_path):
    endpoint = {"url": server.url, "model": "scorer"}
    parts = {"remap": False, "gate": False, "mask": False}
    out = train("train_rlr3", tmp_path, inputs, judge=endpoint, steps=2, parts=parts)
    for rows, cards in groups(out):
        for row, card in zip(rows, cards, strict=True):
            answer, looks = card.credits
            share = (3 * answer + 1 * looks) / 4
            assert row["reward"] == pytest.approx(share if row["tokens"] < LONGEST else 0)


@pytest.mark.usefixtures("quick_retries")
def test_unjudged_response_has_no_reward_and_leaves_dead_letters(inputs, serve, tmp_path):
    def script(number: int, body: dict[str, Any]):
        return fail(400, "no") if "cats" in block(body, "response") else judge(number, body)

    endpoint = {"url": serve(script).url, "model": "scorer"}
    out = train("train_rlr3", tmp_path, inputs, judge=endpoint, steps=2)
    rows = list(read_rows(out / "rollouts"))
    failures = {row["response"] for row in rows if row["reward"] is None}
    assert failures == {row["response"] for row in rows if "cats" in row["response"]} != set()
    assert {row["advantage"] for row in rows if row["reward"] is None} == {0.0}
    letters = list(read_rows(out / "dead_letters"))
    assert {letter["response"] for letter in letters} == failures
    assert {letter["stage"] for letter in letters} == {"train_rlr3"}


def test_rlvr_asks_nobody_and_rewards_the_score_of_the_last_box_itself(rlvr, inputs):
    assert not list(rlvr.parent.glob("*.sqlite*"))
    samples = {sample.sample_id: sample for sample in read_samples(inputs["samples"])}
    scores = {}
    for row in read_rows(rlvr / "rollouts"):
        sample = samples[row["sample_id"]]
        score = score_answer(row["response"], sample.answer, options=bool(sample.options))
        assert row["reward"] == pytest.approx(score if row["tokens"] < LONGEST else 0)
        scores[sample.task, row["response"]] = row["reward"]
    # The overlap of the boxes, neither remapped nor gated.
    assert {round(reward, 3) for (task, _), reward in scores.items() if task == "box"} >= {0.3, 0.8}
    words = {response: reward for (task, response), reward in scores.items() if task == "word"}
    assert {reward for response, reward in words.items() if "{ cats }" in response} == {0}  # it is another word
    assert {reward for response, reward in words.items() if response.endswith("{ cat }")} == {1}
    assert count_rows(rlvr / "dead_letters") == 0


def test_samples_without_a_reference_answer_are_left_out_by_rlvr_and_counted(rlvr, inputs, tmp_path):
    assert ledger(rlvr)["without_an_answer"] == 0
    seconds = ledger(rlvr)["step_seconds"]
    assert sorted(part for part, value in seconds.items() if value > 0) == ["judge", "sampler", "trainer"]
    missing = sorted(filtered_ids(inputs))[::2]
    rows = list(read_rows(inputs["samples"]))
    for row in rows:
        row["answer"] = None if row["sample_id"] in missing else row["answer"]
    samples = str(write_stage_table(tmp_path / "samples", "samples", rows))
    out = train("train_rlvr", tmp_path / "run", inputs | {"samples": samples}, steps=2)
    assert ledger(out)["without_an_answer"] == len(missing)
    assert not {row["sample_id"] for row in read_rows(out / "rollouts")} & set(missing)


def ledger(out: Path) -> dict[str, Any]:
    (line,) = map(json.loads, (out.parent / "ledger.jsonl").read_text().splitlines())
    assert line["stage"] == out.name
    return line


@pytest.mark.parametrize("arm", ["rlr3", "rlvr"])
def test_milestones_stand_beside_the_model_and_the_last_is_the_model(arm, request, inputs):
    out = request.getfixturevalue(arm)
    folders = milestone_dirs(out)
    assert list(folders) == [2, 4]
    weights = [load_file(folder / "model.safetensors") for folder in (folders[2], folders[4], out / "model")]
    assert all(weights[1][name].equal(weights[2][name]) for name in weights[2])
    assert not all(weights[0][name].equal(weights[2][name]) for name in weights[2])
    assert json.loads((out / "alarm.json").read_text())["state"] == "too_short"
    assert {(folder / "README.md").read_text() for folder in folders.values()} == {
        (out / "model" / "README.md").read_text()
    }


def test_trained_on_nothing_is_refused_in_one_line(inputs, tmp_path, server):
    rows = [{**row, "kept": False} for row in read_rows(inputs["filtered"])]
    nothing = str(write_stage_table(tmp_path / "filtered", "filtered", rows))
    with pytest.raises(UserError, match="none of the samples to train on has a rubric"):
        train("train_rlvr", tmp_path / "run", inputs | {"filtered": nothing})
