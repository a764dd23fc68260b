"""Conversations as training batches: which tokens are learned, and what a batch without images costs."""

import json

import pytest
import torch
from coloured_squares import square

from rubricworks.training.config import TinyLlavaConfig
from rubricworks.training.conversation_collator import ConversationCollator
from rubricworks.training.examples import Conversation
from rubricworks.training.generate import load_model
from rubricworks.training.llava.assembly import build_tiny_llava

SHAPE = TinyLlavaConfig(hidden=16, layers=1, heads=2, intermediate=32, vision_hidden=16, vision_heads=2)
WORDS = "which colour is it ? A red B blue are you sure yes first second name a Be brief ."
IMAGE = {"type": "image"}


def turn(role: str, *parts: str | dict) -> dict:
    return {
        "role": role,
        "content": [part if isinstance(part, dict) else {"type": "text", "text": part} for part in parts],
    }


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llava") / "model"
    build_tiny_llava([WORDS], folder, config=SHAPE, images=[square("top-left", "red")], seed=1)
    return load_model(folder, on_device=False)


def words(processor, ids: torch.Tensor) -> list[str]:
    """Tokens, with the many of an image as one."""
    names = processor.tokenizer.convert_ids_to_tokens(ids.tolist())
    return [name for at, name in enumerate(names) if name != processor.image_token or names[at - 1] != name]


def test_loss_is_on_the_assistants_turns_and_their_ends_only(llava):
    _, processor = llava
    image = processor.image_token
    rows = [
        Conversation(
            [square("top-left", "red")],
            [
                turn("user", IMAGE, "which colour is it ? A red B blue"), turn("assistant", "A"),
                turn("user", "are you sure ?"), turn("assistant", "yes A"),
            ],
        ),
        Conversation([], [turn("user", "name a colour"), turn("assistant", "red")]),
        Conversation(
            [square("top-left", "red"), square("top-left", "blue")],
            [turn("user", "first", IMAGE, "second", IMAGE, "which is blue ?"), turn("assistant", "second")],
        ),
    ]  # fmt: skip
    batch = ConversationCollator(processor)(rows)
    tokens = [
        words(processor, ids[mask.bool()])
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]
    question = ["which", "colour", "is", "it", "?", "A", "red", "B", "blue"]
    assert tokens == [
        ["<|user|>", image, *question, "<|assistant|>", "A", "<|end|>",
         "<|user|>", "are", "you", "sure", "?", "<|assistant|>", "yes", "A", "<|end|>"],
        ["<|user|>", "name", "a", "colour", "<|assistant|>", "red", "<|end|>"],
        ["<|user|>", "first", image, "second", image, "which", "is", "blue", "?", "<|assistant|>", "second", "<|end|>"],
    ]  # fmt: skip
    learned = [["A", "<|end|>", "yes", "A", "<|end|>"], ["red", "<|end|>"], ["second", "<|end|>"]]
    assert [words(processor, labels[labels != -100]) for labels in batch["labels"]] == learned
    hidden = batch["labels"] == -100
    assert torch.equal(batch["labels"][~hidden], batch["input_ids"][~hidden])
    side = SHAPE.image_side // SHAPE.patch
    assert (batch["input_ids"] == processor.image_token_id).sum(dim=1).tolist() == [side**2, 0, 2 * side**2]
    assert len(batch["pixel_values"]) == 3


def test_text_only_batch_runs_the_vision_tower_and_gives_it_no_gradient(llava):
    model, processor = llava
    texts = [
        Conversation([], [turn("user", "name a colour"), turn("assistant", "red")]),
        Conversation([], [turn("user", "are you sure ?"), turn("assistant", "yes")]),
    ]
    batch = ConversationCollator(processor)(texts)
    assert batch["input_ids"].shape[0] == 3
    assert (batch["labels"][2] == -100).all()
    loss = model(**batch).loss
    alone = {name: batch[name][:2] for name in ("input_ids", "attention_mask", "labels")}
    torch.testing.assert_close(loss, model(**alone).loss)
    model.zero_grad()
    loss.backward()
    tower = {name: part for name, part in model.named_parameters() if "vision_tower" in name and part.requires_grad}
    assert tower
    assert not [name for name, part in tower.items() if part.grad is None], "FSDP waits for their gradients"
    assert not [name for name, part in tower.items() if part.grad.any()]


def test_system_turn_of_a_row_takes_the_place_of_the_templates_own(llava):
    _, processor = llava
    row = Conversation([], [turn("system", "Be brief ."), turn("user", "name a colour"), turn("assistant", "red")])
    batch = ConversationCollator(processor)([row])
    assert words(processor, batch["labels"][0][batch["labels"][0] != -100]) == ["red", "<|end|>"]
    assert words(processor, batch["input_ids"][0])[1:4] == ["Be", "brief", "."]


def test_messages_are_read_as_they_were_written(llava, tmp_path):
    from rubricworks.data.manifest import read_manifest
    from rubricworks.training.examples import StoredConversations

    messages = [turn("user", IMAGE, "which colour is it ?"), turn("assistant", "red")]
    table = _table(tmp_path, [([square("top-left", "red")], messages), ([], messages[1:])])
    stored = StoredConversations(table)
    assert stored[:] == [Conversation([square("top-left", "red")], messages), Conversation([], messages[1:])]
    assert stored.digest == read_manifest(table).digest
    assert len(stored) == 2


def _table(folder, rows):
    import asyncio

    from rubricworks.data.tables import build_table

    async def make(chunk):
        return [
            {"sample_id": f"i{at}", "images": images, "messages": json.dumps(messages), "source": "s"}
            for at, (images, messages) in chunk
        ]

    made_by = {"stage": "tune_vlm", "config": "c", "inputs": {}, "version": "1"}
    asyncio.run(build_table(folder / "table", "instructions", enumerate(rows), make, made_by=made_by, shard_size=8))
    return folder / "table"
