"""Models of text alone learn by the same functions: SFT, GRPO, generation, also exactly after a kill."""

import pytest
import torch
from safetensors.torch import load_file
from training_configs import grpo_config, sft_config

from rubricworks.errors import UserError
from rubricworks.training.config import LoraOptions
from rubricworks.training.generate import generate_captions, load_model
from rubricworks.training.length_groups import LengthGroups
from rubricworks.training.policy.grpo import train_policy
from rubricworks.training.processing import encode_prompts
from rubricworks.training.sft import CaptionCollator, Example, train_sft
from rubricworks.training.tiny.text_config import TinyTextConfig
from rubricworks.training.tiny.text_student import build_text_student

WORDS = ("red", "green", "blue", "black", "white")
EXAMPLES = [(None, f"say {word} , then {other} .", f'{{"said": "{word}"}}') for word in WORDS for other in WORDS]
ROWS = [
    {"sample_id": str(number), "prompt": prompt, "rubric": answer, "label": answer}
    for number, (_, prompt, answer) in enumerate(EXAMPLES)
]
FEW = {"group_size": 4, "prompts_per_step": 2, "max_new_tokens": 8, "log_every": 1}


class Killed(Exception):
    pass


@pytest.fixture(scope="module")
def text_student(tmp_path_factory):
    texts = [text for _, prompt, answer in EXAMPLES for text in (prompt, answer)]
    shape = TinyTextConfig(hidden=32, layers=1, heads=2, intermediate=64)
    return build_text_student(texts, tmp_path_factory.mktemp("text"), config=shape, seed=1)


@pytest.fixture(scope="module")
def taught(text_student, tmp_path_factory):
    config = sft_config(steps=60, batch_size=10, learning_rate=1e-2, save_every=1000)
    return train_sft(text_student, EXAMPLES, tmp_path_factory.mktemp("taught"), config)


def weights(folder):
    return load_file(folder / "model.safetensors")


async def says_blue(prompts, completions, label, **columns):
    return [float("blue" in completion[0]["content"]) for completion in completions]


def test_sft_teaches_text_without_images(taught):
    model, tokenizer = load_model(taught)
    prompts = [prompt for _, prompt, _ in EXAMPLES]
    captions = generate_captions(model, tokenizer, [None] * len(prompts), prompts, max_new_tokens=8)
    right = sum(text == answer for (text, _), (_, _, answer) in zip(captions, EXAMPLES, strict=True))
    assert right >= 20  # of 25; one answer for all would be right 5 times


def test_labels_cover_the_answer_and_its_end_token_only(text_student):
    _, tokenizer = load_model(text_student)
    batch = CaptionCollator(tokenizer)([Example(*EXAMPLES[0]), Example(None, "say blue , then red . red", "blue")])
    learnt = [row[row != -100].tolist() for row in batch["labels"]]
    assert [tokenizer.decode(ids) for ids in learnt] == [EXAMPLES[0][2] + "<|end|>", "blue<|end|>"]
    assert set(batch) == {"input_ids", "attention_mask", "labels"}


def test_conversation_may_stand_for_a_prompt_and_its_parts_become_plain_text(text_student):
    _, tokenizer = load_model(text_student)
    turns = [
        {"role": "system", "content": "say red"},
        {"role": "user", "content": [{"type": "text", "text": " , then"}]},
    ]
    ids = encode_prompts(tokenizer, [None], [turns])["input_ids"][0]
    assert tokenizer.decode(ids) == "<|user|>say red<|user|> , then<|assistant|>"


def test_prompts_are_padded_on_the_left(text_student):
    _, tokenizer = load_model(text_student)
    inputs = encode_prompts(tokenizer, [None, None], ["say red", "say red , then blue ."])
    assert inputs["attention_mask"][:, -1].tolist() == [1, 1]
    assert inputs["attention_mask"][0, 0] == 0


@pytest.mark.slow
def test_killed_and_resumed_sft_ends_with_the_same_weights(text_student, tmp_path):
    config = sft_config(steps=9, batch_size=6, save_every=3, log_every=1)  # 25 examples: batches of three epochs

    def kill(log):
        if log.step == 8:
            raise Killed

    whole = train_sft(text_student, EXAMPLES, tmp_path / "whole", config)
    with pytest.raises(Killed):
        train_sft(text_student, EXAMPLES, tmp_path / "cut", config, on_log=kill)
    calls = []
    resumed = train_sft(text_student, EXAMPLES, tmp_path / "cut", config, on_log=lambda log: calls.append(log.step))
    assert calls[0] == 7
    expected, actual = weights(whole), weights(resumed)
    assert all(torch.equal(expected[name], actual[name]) for name in expected)


@pytest.mark.slow
def test_policy_learns_from_rewards_of_text_alone(taught, tmp_path):
    config = grpo_config(steps=25, learning_rate=5e-3, save_every=1000, **{**FEW, "group_size": 8})
    result = train_policy(taught, ROWS, says_blue, tmp_path, config)
    start, end = (sum(stats.reward for stats in part) / 5 for part in (result.history[:5], result.history[-5:]))
    assert end > start + 0.3
    model, tokenizer = load_model(result.model_dir)
    captions = generate_captions(model, tokenizer, [None] * 5, [row["prompt"] for row in ROWS[:5]], max_new_tokens=8)
    assert sum("blue" in text for text, _ in captions) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, LoraOptions(rank=2)])
def test_killed_and_resumed_policy_ends_with_the_same_weights(taught, tmp_path, lora):
    config = grpo_config(steps=5, save_every=2, learning_rate=1e-3, lora=lora, **FEW)

    def kill(step):
        if step.step == 4:
            raise Killed

    whole = train_policy(taught, ROWS, says_blue, tmp_path / "whole", config)
    with pytest.raises(Killed):
        train_policy(taught, ROWS, says_blue, tmp_path / "cut", config, on_step=kill)
    resumed = train_policy(taught, ROWS, says_blue, tmp_path / "cut", config)
    expected, actual = weights(whole.model_dir), weights(resumed.model_dir)
    assert all(torch.equal(expected[name], actual[name]) for name in expected)


def test_other_labels_are_another_training(taught, tmp_path):
    config = grpo_config(steps=2, save_every=1, **FEW)
    train_policy(taught, ROWS, says_blue, tmp_path, config)
    steps = []
    changed = [{**row, "label": "other"} for row in ROWS]
    train_policy(taught, changed, says_blue, tmp_path, config, on_step=lambda step: steps.append(step.step))
    assert steps == [1, 2]


def test_images_for_a_text_model_are_one_clear_error(text_student, tmp_path):
    with pytest.raises(UserError, match="cannot read images"):
        train_sft(text_student, [(b"image", "say red", "red")], tmp_path / "sft", sft_config(batch_size=1))
    rows = [{**row, "image": b"image"} for row in ROWS]
    with pytest.raises(UserError, match="cannot read images"):
        train_policy(text_student, rows, says_blue, tmp_path / "policy", grpo_config(**FEW))


def test_vision_language_model_learns_from_text_too(student, tmp_path):
    prompts = [("describe the image .", "a red square ."), ("at top-left", "a blue square .")]
    config = sft_config(steps=30, batch_size=2, learning_rate=1e-2, save_every=1000)
    folder = train_sft(student, [(None, *pair) for pair in prompts], tmp_path, config)
    model, processor = load_model(folder)
    captions = generate_captions(model, processor, [None] * 2, [prompt for prompt, _ in prompts], max_new_tokens=6)
    assert [text for text, _ in captions] == [answer for _, answer in prompts]


def test_epochs_hold_every_row_once_in_batches_of_like_length():
    lengths = [number % 40 for number in range(200)]
    groups = LengthGroups(lengths, 8, seed=1)
    orders = []
    for epoch in (0, 1, 0):
        groups.set_epoch(epoch)
        orders.append(list(groups))
    assert all(sorted(order) == list(range(200)) for order in orders)
    assert orders[0] == orders[2] != orders[1]
    spreads = []
    for start in range(0, 200, 8):
        batch = [lengths[row] for row in orders[0][start : start + 8]]
        spreads.append(max(batch) - min(batch))
    assert sum(spreads) / len(spreads) < 6  # drawn at random it would be about 31
