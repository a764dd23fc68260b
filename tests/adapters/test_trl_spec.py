"""RubricSpec: a set in another project's format becomes TRL's dataset and reward in one line."""

import asyncio
import json
from pathlib import Path

import pytest
from scripted_server import say

from rubricworks.adapters.trl_spec import RubricSpec
from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient

FILES = Path(__file__).parents[1] / "data" / "rubric_files"


def first_only(_, body):
    """Meets the first criterion and no other."""
    text = body["messages"][1]["content"]
    criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    return say(
        json.dumps({"verdicts": [{"id": c["id"], "reasoning": "", "score": int(c["id"] == 1)} for c in criteria]})
    )


def test_healthbench_is_a_dataset_with_its_conversations_and_a_reward_for_them(serve):
    grader = Grader(ChatClient(serve(first_only).url, "j"), subject="answer")
    spec = RubricSpec(FILES / "healthbench.jsonl", grader)
    rows = spec.train_dataset
    assert rows.column_names == ["prompt", "rubric", "sample_id", "answer"]
    source = [json.loads(line) for line in (FILES / "healthbench.jsonl").read_text().splitlines()]
    assert [[turn["content"] for turn in row["prompt"]] for row in rows] == [
        [turn["content"] for turn in row["prompt"]] for row in source
    ]
    (reward,) = spec.reward_funcs
    columns = {name: rows[name] for name in ("rubric", "sample_id")}
    completions = [[{"role": "assistant", "content": "call for help"}]] * 2
    # 9 of 9 + 7 points, and 5 of 5 + 2.
    expected = [pytest.approx(9 / 16), pytest.approx(5 / 7)]
    assert asyncio.run(reward(prompts=rows["prompt"], completions=completions, **columns)) == expected


def test_a_system_message_and_a_question_stay_two_messages(serve, tmp_path):
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
    row = {"prompt_id": "s1", "prompt": turns, "rubrics": [{"criterion": "c", "points": 1}]}
    (tmp_path / "set.jsonl").write_text(json.dumps(row))
    spec = RubricSpec(tmp_path / "set.jsonl", Grader(ChatClient(serve(first_only).url, "j"), subject="answer"))
    assert spec.train_dataset[0]["prompt"] == turns


def test_a_turn_of_parts_or_without_content_is_its_text(serve, tmp_path):
    turns = [{"role": "user", "content": [{"type": "text", "text": "Who?"}]}, {"role": "assistant", "content": None}]
    row = {"prompt_id": "s1", "prompt": [*turns, turns[0]], "rubrics": [{"criterion": "c", "points": 1}]}
    (tmp_path / "set.jsonl").write_text(json.dumps(row))
    spec = RubricSpec(tmp_path / "set.jsonl", Grader(ChatClient(serve(first_only).url, "j"), subject="answer"))
    assert [turn["content"] for turn in spec.train_dataset[0]["prompt"]] == ["Who?", "", "Who?"]


def test_turns_without_a_role_are_one_prompt(serve, tmp_path):
    turns = [{"role": "user", "content": "a"}, {"content": "b"}]
    row = {"prompt_id": "s1", "prompt": turns, "rubrics": [{"criterion": "c", "points": 1}]}
    (tmp_path / "set.jsonl").write_text(json.dumps(row))
    spec = RubricSpec(tmp_path / "set.jsonl", Grader(ChatClient(serve(first_only).url, "j"), subject="answer"))
    assert spec.train_dataset[0]["prompt"] == [{"role": "user", "content": "user: a\n\nNone: b"}]


def test_prompts_may_be_text_and_rows_few(serve):
    grader = Grader(ChatClient(serve(first_only).url, "j"), subject="answer")
    spec = RubricSpec(FILES / "healthbench.jsonl", grader, limit=1, conversational=False)
    assert len(spec.train_dataset) == 1
    assert spec.train_dataset[0]["prompt"].startswith("My neighbour lies")
    with pytest.raises(UserError, match="sample 's1' has no prompt"):
        _ = RubricSpec(FILES / "people.csv", grader).train_dataset


def test_a_judge_of_captions_is_refused_since_it_sees_no_prompt(serve):
    with pytest.raises(UserError, match=r'make it Grader\(judge, subject="answer"\)'):
        RubricSpec(FILES / "healthbench.jsonl", Grader(ChatClient(serve(first_only).url, "j")))
