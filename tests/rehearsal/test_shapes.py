"""Shapes of named models: those of the table are the published ones, and a cut one keeps what code depends on."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from rubricworks.rehearsal.shapes import LAYERS, cut_shape, published_shape

PARAMETERS = {
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen2.5-VL-72B-Instruct": 73_410_777_344,
    "Qwen/Qwen2-VL-2B-Instruct": 2_208_985_600,
    "Qwen/Qwen3-VL-8B-Instruct": 8_767_123_696,
    "Qwen/Qwen3-VL-4B-Instruct": 4_437_815_808,
    "Qwen/Qwen3-VL-30B-A3B-Instruct": 31_070_754_032,
    "Qwen/Qwen2-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen3-8B": 8_190_735_360,
}
"""Parameters by the models' pages on the Hub."""


def built(shape):
    config = AutoConfig.for_model(**shape)
    is_vision = type(config) in AutoModelForImageTextToText._model_mapping
    with FakeTensorMode():
        kind = AutoModelForImageTextToText if is_vision else AutoModelForCausalLM
        return kind.from_config(config, dtype=torch.bfloat16)


@pytest.mark.parametrize("model", PARAMETERS)
def test_published_shapes_have_the_parameters_of_the_models_pages(model):
    parameters = built(published_shape(f"{model}@{'0' * 40}")).parameters()
    assert sum(parameter.numel() for parameter in parameters) == PARAMETERS[model]


@pytest.mark.parametrize("model", PARAMETERS)
def test_a_miniature_has_its_models_class_and_the_grouping_of_its_heads(model):
    shape = published_shape(model)
    small = cut_shape(shape, vocabulary=600)
    whole, cut = built(shape), built(small)
    assert type(whole) is type(cut)
    assert {name.partition(".")[0] for name, _ in cut.named_parameters()} == {
        name.partition(".")[0] for name, _ in whole.named_parameters()
    }
    of_whole, of_cut = whole.config.get_text_config(), cut.config.get_text_config()
    assert of_cut.num_hidden_layers == LAYERS
    groups = of_whole.num_attention_heads // of_whole.num_key_value_heads
    assert of_cut.num_attention_heads == groups * of_cut.num_key_value_heads
    assert of_cut.vocab_size > 600, "embeddings have rows beyond the tokenizer's"
    assert whole.config.tie_word_embeddings == cut.config.tie_word_embeddings
    assert sum(parameter.numel() for parameter in cut.parameters()) < 20_000_000


def test_experts_of_a_miniature_are_no_squares():
    text = cut_shape(published_shape("Qwen/Qwen3-VL-30B-A3B-Instruct"), vocabulary=600)["text_config"]
    ratio = text["hidden_size"] / (2 * text["moe_intermediate_size"])
    assert ratio == pytest.approx(2048 / (2 * 768), rel=0.05)
    assert text["num_experts_per_tok"] < text["num_experts"]
    assert text["hidden_size"] != text["head_dim"] * text["num_attention_heads"]


@pytest.mark.parametrize(("head", "small"), [(128, 32), (256, 32), (80, 80), (63, 63), (24, 24)])
def test_sizes_of_heads_stay_odd_where_they_are(head, small):
    text = {"hidden_size": 8 * head, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": head}
    text |= {"num_hidden_layers": 30, "vocab_size": 1000, "intermediate_size": 16 * head}
    cut = cut_shape({"model_type": "qwen3", **text}, vocabulary=100)
    assert cut["head_dim"] == small
    assert cut["hidden_size"] == cut["num_attention_heads"] * small


def test_a_models_own_tokenizer_keeps_all_its_embeddings():
    shape = published_shape("Qwen/Qwen2-7B-Instruct")
    assert cut_shape(shape, vocabulary=0, own_vocabulary=True)["vocab_size"] == 152_064


def test_a_model_that_is_not_in_the_table_has_no_shape():
    assert published_shape("someone/something") is None
