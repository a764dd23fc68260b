"""A study within one model compares people with the reward that trained it, not with the rubric's for every run."""

import json

import pytest
import yaml
from image_judge import images_in, main_colour, plain_image
from scripted_server import ScriptedServer, fail, say

from rubricworks.errors import UserError
from rubricworks.evaluation.studies.preference_study import Candidate, PreferenceTask
from rubricworks.policy.own_rewards import with_own_rewards

RED, BLUE = plain_image("red"), plain_image("blue")
ALGORITHM = {"type": "grpo", "steps": 1, "rollouts": {"group_size": 2, "prompts_per_step": 1}}


def write_run(folder, policy):
    folder.mkdir()
    (folder / "recipe.yaml").write_text(yaml.safe_dump({"pipeline": "rubricrl", "policy": policy}))
    return folder


def task(model, number):
    """The evaluation's rubric prefers the red image."""
    images = Candidate(model, "red", RED, 0.9), Candidate(model, "blue", BLUE, 0.1)
    return PreferenceTask(f"task-{number}", f"prompt of {model}", images)


def hps(_, body):
    return say(json.dumps({"score": 0.27 if main_colour(images_in(body)[-1]) == "blue" else 0.25}))


def test_each_run_is_compared_by_its_own_reward(tmp_path):
    server = ScriptedServer(hps)
    endpoints = {"type": "endpoints", "endpoints": [{"url": server.url, "model": "hpsv2"}]}
    rubric = {"type": "rubric", "judge": {"url": "http://127.0.0.1:9/v1", "model": "unasked"}}
    runs = {
        "hps": write_run(tmp_path / "hps", {"reward": endpoints, "algorithm": ALGORITHM}),
        "rubric": write_run(tmp_path / "rubric", {"reward": rubric, "algorithm": ALGORITHM}),
        "sft": write_run(tmp_path / "sft", {"algorithm": {"type": "sft"}}),
    }
    result = with_own_rewards([task(name, at) for at, name in enumerate(runs)], runs)
    server.close()
    assert [[image.reward for image in task.images] for task in result.tasks] == [[0.25, 0.27], [0.9, 0.1], [None] * 2]
    assert result.unknown == ["sft"]
    assert len(server.chats) == 2


def test_a_reward_that_does_not_answer_is_one_line(tmp_path):
    server = ScriptedServer(lambda *_: fail(400, "gone"))
    endpoints = {"type": "endpoints", "endpoints": [{"url": server.url, "model": "hpsv2"}]}
    run = write_run(tmp_path / "hps", {"reward": endpoints, "algorithm": ALGORITHM})
    with pytest.raises(UserError, match="hps: its reward, hpsv2, scored none of 2 images; is it running"):
        with_own_rewards([task("hps", 1)], {"hps": run})
    server.close()
