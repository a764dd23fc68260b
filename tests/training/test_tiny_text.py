"""The text student: a tokenizer that loses nothing, a model of stated size, the same for the same seed."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rubricworks.errors import UserError
from rubricworks.training.generate import generate_captions, load_model
from rubricworks.training.tiny.text_config import TinyTextConfig
from rubricworks.training.tiny.text_student import build_text_student, piece_tokenizer

SCORING = json.dumps(
    {
        "thought": "",
        "essential": [{"criterion": "The answer is right.", "rationale": "", "credit": "expr_verify(predict='3')"}],
        "additional": [{"criterion": "It looks at top-left.", "rationale": "", "credit": 0.5}],
    }
)
REQUEST = (
    "<question>\nhow many ?\n</question>\n\n<response>\nat top-left a star . \\boxed{ [ [ 21 , 3 ] ] }\n</response>"
)
SMALL = TinyTextConfig(hidden=32, layers=1, heads=2, intermediate=64)


@pytest.fixture(scope="module")
def tokenizer():
    return piece_tokenizer([SCORING, REQUEST])


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back_as_it_was(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


@pytest.mark.parametrize("text", [SCORING, REQUEST, "a  b\n\n c", " lead", "\\frac{1}{2} \u2192 \u00fcber", ""])
def test_json_requests_and_foreign_texts_come_back_as_they_were(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_words_of_the_corpus_are_one_token_each_with_their_space_and_hyphen(tokenizer):
    pieces = tokenizer.convert_ids_to_tokens(tokenizer(SCORING)["input_ids"])
    assert {" answer", " top-left", "expr_verify", "rationale"} <= set(pieces)
    assert "".join(pieces) == SCORING
    assert len(pieces) < len(SCORING) / 5


def test_word_that_the_corpus_does_not_have_is_spelled_out(tokenizer):
    ids = tokenizer("zebra")["input_ids"]
    assert len(ids) == 5
    assert tokenizer.decode(ids) == "zebra"


def test_nothing_to_build_a_vocabulary_from_is_refused():
    with pytest.raises(UserError, match="vocabulary"):
        piece_tokenizer(["", ""])


def test_default_student_is_small_and_loads_through_the_auto_classes(tmp_path):
    folder = build_text_student([SCORING, REQUEST], tmp_path / "student")
    model, tokenizer = load_model(folder)
    assert 300_000 < sum(parameter.numel() for parameter in model.parameters()) < 1_000_000
    assert type(AutoModelForCausalLM.from_pretrained(folder)).__name__ == "Qwen3ForCausalLM"
    again = AutoTokenizer.from_pretrained(folder)
    assert again(SCORING)["input_ids"] == tokenizer(SCORING)["input_ids"]
    assert again.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "<|user|>hi"


def test_same_seed_builds_the_same_student_and_another_seed_another_one(tmp_path):
    item, same, other = (
        load_file(build_text_student([SCORING], tmp_path / name, config=SMALL, seed=seed) / "model.safetensors")
        for name, seed in (("one", 3), ("same", 3), ("other", 4))
    )
    assert all(torch.equal(item[name], same[name]) for name in item)
    assert any(not torch.equal(item[name], other[name]) for name in item)


def test_images_for_a_text_model_are_one_clear_error(tmp_path):
    model, tokenizer = load_model(build_text_student([SCORING], tmp_path / "student", config=SMALL))
    with pytest.raises(UserError, match="cannot read images"):
        generate_captions(model, tokenizer, [b"image"], ["what is it ?"])


def test_model_without_a_chat_template_is_one_clear_error(tmp_path):
    folder = build_text_student([SCORING], tmp_path / "student", config=SMALL)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match="chat template"):
        load_model(folder)


def test_shape_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="heads"):
        TinyTextConfig(hidden=100, heads=8)
