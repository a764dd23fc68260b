"""Judge calls that start while the last rollouts of their step are still being sampled."""

import asyncio
import json
import threading
from types import SimpleNamespace

import pytest
import torch
from coloured_squares import policy_rows
from safetensors.torch import load_file
from scripted_server import say
from training_configs import grpo_config

from rubricworks.adapters.trl import GroupReward, RubricReward
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.training.policy import grpo
from rubricworks.training.policy.ended_rows import ended_rows_of_generate

RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="red", evaluation_rule="passes if red is named", weight=3, essential=True),
        Criterion(criterion="square", evaluation_rule="passes if a square is named", weight=1),
    )
)
CALLED_WITHIN = 60


def word_judge(_, body):
    """Meets a criterion when the caption names it."""
    text = body["messages"][1]["content"]
    text = text if isinstance(text, str) else text[-1]["text"]
    caption, criteria = text.split("<caption>\n")[1], text.split("<criteria>\n")[1].split("\n</criteria>")[0]
    verdicts = [
        {"id": criterion["id"], "reasoning": "looked", "score": int(criterion["criterion"] in caption)}
        for criterion in json.loads(criteria)
    ]
    return say(json.dumps({"verdicts": verdicts}))


def rows():
    return [row | {"rubric": RUBRIC.model_dump_json()} for row in policy_rows()]


def config(**options):
    sizes = {"group_size": 4, "prompts_per_step": 2, "max_new_tokens": 24, "log_every": 1}
    return grpo_config(**sizes, learning_rate=1e-3, **options)


def trained(student, folder, url, *, early, kind=RubricReward, options=None, **reward_options):
    """Steps, scorecards and weights of a training, with calls that start early or not."""
    steps, cards = [], []
    client = ChatClient(Endpoint(url=url, model="j"), attempts=1)
    reward = kind(Grader(client), sink=cards.extend, **reward_options)
    start = reward.start if early else None
    settings = config(**(options or {"steps": 2}))
    result = grpo.train_policy(student, rows(), reward, folder, settings, start=start, on_step=steps.append)
    asyncio.run(client.close())
    return steps, cards, load_file(result.model_dir / "model.safetensors")


def test_a_rollout_that_has_ended_is_judged_while_the_others_are_sampled(student, serve, tmp_path, monkeypatch):
    """Sampling goes on after the first rollout's end only once the judge has got a request."""
    called, waited = threading.Event(), []

    def judge(number, body):
        called.set()
        return word_judge(number, body)

    def wait_for_judge(model, arguments, inputs):
        tokens = inputs["input_ids"]
        if not waited and tokens.shape[1] == 1 and (tokens == pad).any():
            waited.append(called.wait(CALLED_WITHIN))

    load_model = grpo.load_model

    def load_watched(*arguments, **options):
        nonlocal pad
        model, processor = load_model(*arguments, **options)
        pad = processor.tokenizer.pad_token_id
        model.register_forward_pre_hook(wait_for_judge, with_kwargs=True)
        return model, processor

    pad = None
    monkeypatch.setattr(grpo, "load_model", load_watched)
    trained(student, tmp_path, serve(judge).url, early=True, options={"steps": 1})
    assert waited == [True]


@pytest.mark.parametrize(
    ("kind", "reward_options", "options"),
    [
        (RubricReward, {}, None),
        (GroupReward, {"group_size": 4, "max_tokens": 24}, None),
        (RubricReward, {}, {"steps": 2, "refill": {"rounds": 2}}),
        (RubricReward, {}, {"steps": 2, "steps_per_generation": 2, "num_iterations": 2}),
    ],
    ids=["rubric", "group", "refill", "reused rollouts"],
)
def test_rollouts_rewards_and_weights_are_those_without(student, serve, tmp_path, kind, reward_options, options):
    server = serve(word_judge)
    without = trained(student, tmp_path / "a", server.url, early=False, kind=kind, options=options, **reward_options)
    calls = len(server.heard)
    early = trained(student, tmp_path / "b", server.url, early=True, kind=kind, options=options, **reward_options)
    assert early[0] == without[0]
    assert early[1] == without[1]
    assert len(server.heard) == 2 * calls
    differing = [name for name, weight in without[2].items() if not torch.equal(weight, early[2][name])]
    assert differing == []


def test_the_model_keeps_the_generate_of_its_own_that_sharding_gave_it():
    model = SimpleNamespace(generate=lambda **options: options)
    own = model.generate
    with ended_rows_of_generate(model, [0], print):
        assert model.generate is not own
        assert set(model.generate()) == {"streamer"}
    assert model.generate is own
