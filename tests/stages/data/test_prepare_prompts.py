"""Prompts of the samples: the recipe's, or those that the images came with."""

import json

import pytest
from synthetic_run import picture

from rubricworks.data.tables import read_rows
from rubricworks.runtime.launch import launch


@pytest.mark.parametrize(
    ("own_prompts", "expected"),
    [(False, {"describe": 3}), (True, {"What do you see?": 1, "describe": 2})],
)
def test_own_prompts_go_before_the_recipes_only_where_the_recipe_says_so(tmp_path, own_prompts, expected):
    for side in (8, 9, 10):
        (tmp_path / f"{side}.png").write_bytes(picture("red", side))
    line = {"file_name": "8.png", "prompt": "What do you see?"}
    (tmp_path / "metadata.jsonl").write_text(json.dumps(line))
    config = {"source": str(tmp_path), "held_out": 1, "prompt": "describe", "own_prompts": own_prompts}
    rows = list(read_rows(launch("prepare", json.dumps(config), str(tmp_path / "run"), {})))
    prompts = [row["prompt"] for row in rows]
    assert {prompt: prompts.count(prompt) for prompt in prompts} == expected
    assert len({row["sample_id"] for row in rows}) == 3
