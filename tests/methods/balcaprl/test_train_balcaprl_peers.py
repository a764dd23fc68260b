"""The peers of BalCapRL on the same samples: SFT on the references, CapRL's reward and RubiCap's."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from audited import write_stage_table
from caption_judge import GROUP, OUTAGE, SHAPE, judge, make_inputs, train, words
from scripted_server import fail, say
from training_configs import policy_json

from rubricworks.data.tables import count_rows, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.caption_prompts import CANNOT_ANSWER, Exam
from rubricworks.policy.algorithms.sft import Sft
from rubricworks.rl import group_advantages
from rubricworks.rubrics import Criterion, Rubric, Scorecard
from rubricworks.runtime.launch import launch

pytestmark = pytest.mark.slow

pytest.importorskip("trl")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


def test_sft_trains_on_the_references_of_the_same_samples_and_asks_nobody(inputs, serve, tmp_path):
    from rubricworks.training.generate import generate_captions, load_model

    server = serve(judge)
    config = policy_json(None, Sft, steps=120, batch_size=9, learning_rate=5e-3)
    out = Path(launch("train_balcaprl", config, str(tmp_path), inputs))
    assert not server.chats
    samples = [sample for sample in read_samples(inputs["samples"], "train") if sample.references]
    captions = generate_captions(
        *load_model(out / "model"),
        [sample.image for sample in samples],
        [sample.prompt for sample in samples],
        max_new_tokens=12,
    )
    right = [caption == sample.references[0] for (caption, _), sample in zip(captions, samples, strict=True)]
    assert sum(right) >= 8
    assert [count_rows(out / name) for name in ("rollouts", "scorecards", "dead_letters")] == [0, 0, 0]
    (line,) = map(json.loads, (out.parent / "ledger.jsonl").read_text().splitlines())
    assert (line["examples"], line["without_reference"], line["steps"]) == (9, 1, 120)


def question(kind: str, options: list[str], answer: str) -> dict[str, Any]:
    return {"question": f"Which {kind}?", "options": options, "answer": answer}


COLOUR = question("colour", ["red", "green", "blue"], "A")
PLACE, FORM = question("place", ["at", "bottom"], "A"), question("form", ["square", "disc"], "A")
EXAM = Exam.model_validate({"questions": [COLOUR, PLACE, FORM, COLOUR]})


def take_exam(_: int, body: dict[str, Any]):
    """Chooses the option that the caption names; breaks down where the judge does too."""
    content = body["messages"][1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    caption, options = (text.split(f"<{tag}>\n")[1].split(f"\n</{tag}>")[0] for tag in ("caption", "options"))
    if OUTAGE in caption.split():
        return fail(400, "no")
    lettered = dict(line.split(". ", 1) for line in options.splitlines())
    letters = [letter for letter, option in lettered.items() if option in caption.split()]
    return say((letters or [letter for letter, option in lettered.items() if option == CANNOT_ANSWER])[0])


def test_questions_reward_is_the_share_of_right_answers_from_the_caption_alone(inputs, serve, tmp_path):
    writer, taker = serve(lambda at, body: say(EXAM.model_dump_json())), serve(take_exam)
    endpoint = {"model": "x"}
    reward = {"type": "exam", "writer": endpoint | {"url": writer.url}, "taker": endpoint | {"url": taker.url}}
    out = Path(launch("train_balcaprl", policy_json(reward, **{**SHAPE, "steps": 2}), str(tmp_path), inputs))
    rows = list(read_rows(out / "rollouts"))
    assert len(writer.chats) == 10  # the training samples alone
    for row in rows:
        caption_words = row["response"].split()
        right = (2 * ("red" in caption_words) + ("at" in caption_words) + ("square" in caption_words)) / 4
        assert row["reward"] == (
            None if OUTAGE in caption_words else pytest.approx(right if words(row["response"]) else 0)
        )
    assert len({row["reward"] for row in rows}) > 2
    check_advantages(rows)
    assert all("image_url" not in chat.text for chat in taker.chats)
    assert count_rows(out / "scorecards") == 0
    failures = {row["response"] for row in rows if row["reward"] is None}
    assert {letter["response"] for letter in read_rows(out / "dead_letters")} == failures


def check_advantages(rows: list[dict[str, Any]]) -> None:
    """Check the advantages of a single reward within its group, step by step."""
    for step in (1, 2):
        of_step = [row for row in rows if row["step"] == step]
        rewards = torch.tensor([math.nan if row["reward"] is None else row["reward"] for row in of_step])
        assert [row["advantage"] for row in of_step] == pytest.approx(
            group_advantages(rewards, GROUP).tolist(), abs=1e-4
        )


WEIGHTS = {"red": 3, "at": 2, "square": 1}


def rubrics_table(folder: Path, names: list[str]) -> str:
    criteria = [
        Criterion(criterion=word, evaluation_rule=f"passes if it says {word}", weight=weight)
        for word, weight in WEIGHTS.items()
    ]
    row = {"rubric": Rubric(criteria=tuple(criteria)).model_dump_json(), "writer": "w", "prompt_version": "1"}
    calls = {"coverage": "full", "candidates": 5, "prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0}
    return str(
        write_stage_table(folder / "rubrics", "rubrics", [{"sample_id": name, **row, **calls} for name in names])
    )


def grade_by_words(_: int, body: dict[str, Any]):
    """A criterion is met where the caption says its word."""
    content = body["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    asked = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    caption_words = text.split("<caption>\n")[1].split("\n</caption>")[0].split()
    if OUTAGE in caption_words:
        return fail(400, "no")
    verdicts = [
        {"id": request["id"], "reasoning": "r", "score": int(request["criterion"] in caption_words)}
        for request in asked
    ]
    return say(json.dumps({"verdicts": verdicts}))


@pytest.mark.parametrize("call_per", ["response", "criterion"])
def test_rubrics_reward_is_the_weight_of_the_criteria_that_a_caption_meets(inputs, serve, tmp_path, call_per):
    names = [f"s{number}" for number in (0, 1, 2, 3, 5, 8)]
    judge = serve(grade_by_words)
    with_rubrics = inputs | {"rubrics": rubrics_table(tmp_path, names)}
    reward = {"type": "rubric", "call_per": call_per}
    out = train(tmp_path / "run", with_rubrics, judge, reward=reward, advantages="group", steps=2)
    asked = {chat.text.count('\\"evaluation_rule\\":') for chat in judge.chats}
    assert asked == ({1} if call_per == "criterion" else {len(WEIGHTS)})
    rows = list(read_rows(out / "rollouts"))
    assert {row["sample_id"] for row in rows} <= set(names) - {"s3"}  # held out
    for row in rows:
        caption_words = row["response"].split()
        met = sum(weight for word, weight in WEIGHTS.items() if word in caption_words) / 6
        assert row["reward"] == (None if OUTAGE in caption_words else pytest.approx(met))
    assert len({row["reward"] for row in rows}) > 2
    check_advantages(rows)
    assert all("image_url" not in chat.text for chat in judge.chats)
    cards = [Scorecard.model_validate_json(row["scorecard"]) for row in read_rows(out / "scorecards")]
    assert [card.response for card in cards] == [row["response"] for row in rows]
    failures = {row["response"] for row in rows if row["reward"] is None}
    assert {letter["response"] for letter in read_rows(out / "dead_letters")} == failures


def test_without_rubrics_it_is_refused_in_one_line(inputs, serve, tmp_path):
    server = serve(grade_by_words)
    for paths in (inputs, inputs | {"rubrics": rubrics_table(tmp_path, [])}):
        with pytest.raises(UserError, match=r"no rubrics to train on|none of the samples to train on has a rubric"):
            train(tmp_path / "run", paths, server, reward={"type": "rubric"})
    assert not server.chats
