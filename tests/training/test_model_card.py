"""Prompt and length of a training, in the model's folder."""

import json

import pytest
import yaml
from transformers import GenerationConfig

from rubricworks.errors import UserError
from rubricworks.training.model_card import Usage, card_with_scores, only_prompt, read_usage, write_card

PROMPT = "describe: the image\n--- in detail"


USAGE = Usage(PROMPT, 44)


def write(folder, usage=USAGE, **config):
    write_card(folder, usage, trained_by="train_policy", data={"samples": "ab12"}, config={"seed": 3, **config})


def test_prompt_and_length_are_read_back_also_by_transformers(tmp_path):
    GenerationConfig(eos_token_id=5, do_sample=False).save_pretrained(tmp_path)
    write(tmp_path)
    assert read_usage(tmp_path) == Usage(PROMPT, 44)
    generation = GenerationConfig.from_pretrained(tmp_path)
    assert (generation.max_new_tokens, generation.eos_token_id) == (44, 5)
    card = (tmp_path / "README.md").read_text()
    assert yaml.safe_load(card.split("---\n")[1])["library_name"] == "transformers"
    assert "samples: sha256 ab12" in card
    assert "seed: 3" in card


def test_a_model_of_several_prompts_has_none(tmp_path):
    assert only_prompt(["a", "a"]) == "a"
    assert only_prompt(["a", "b"]) is None
    assert only_prompt([[{"role": "user", "content": "a"}]]) is None
    write(tmp_path, Usage())
    assert read_usage(tmp_path) == Usage()
    assert not (tmp_path / "generation_config.json").exists()


def test_folders_without_a_card_or_with_another_ones_card_say_nothing(tmp_path):
    assert read_usage(tmp_path) == Usage()
    (tmp_path / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Qwen\n")
    (tmp_path / "generation_config.json").write_text(json.dumps({"temperature": 0.7}))
    assert read_usage(tmp_path) == Usage()
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(UserError, match=r"generation_config\.json cannot be read"):
        read_usage(tmp_path)


def test_card_repeats_no_secret(tmp_path):
    write(tmp_path, judge={"url": "https://me:hunter2@judge.example/v1"})
    assert "hunter2" not in (tmp_path / "README.md").read_text()


def test_scores_stand_below_the_card(tmp_path):
    write(tmp_path)
    card = card_with_scores(tmp_path, {"win_rate": {"value": 0.7734, "low": 0.71, "high": None}})
    assert card.startswith((tmp_path / "README.md").read_text().rstrip())
    assert card.endswith("| win_rate | value | 0.7734 |\n| win_rate | low | 0.71 |\n")


def test_the_gates_words_stand_with_the_scores(tmp_path):
    write(tmp_path)
    card = card_with_scores(tmp_path, {"win_rate": {"value": 0.7734}}, ["win_rate 0.773 is above 0.5"])
    assert "## Gate\n\n- win_rate 0.773 is above 0.5\n\n## Scores\n" in card


def test_the_card_of_a_pipeline_names_diffusers_and_leaves_its_folder_as_it_is(tmp_path):
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "FluxPipeline"}))
    write(tmp_path)
    card = (tmp_path / "README.md").read_text()
    metadata = yaml.safe_load(card.split("---\n")[1])
    assert (metadata["library_name"], metadata["pipeline_tag"]) == ("diffusers", "text-to-image")
    assert "samples: sha256 ab12" in card
    assert "seed: 3" in card
    assert {path.name for path in tmp_path.iterdir()} == {"model_index.json", "README.md"}


def test_the_card_of_an_adapter_names_its_base_and_the_digest(tmp_path):
    (tmp_path / "pytorch_lora_weights.safetensors").write_bytes(b"")
    (tmp_path / "base.json").write_text(json.dumps({"model": "FLUX.1-dev", "sha256": "cd34"}))
    write(tmp_path)
    card = (tmp_path / "README.md").read_text()
    metadata = yaml.safe_load(card.split("---\n")[1])
    assert (metadata["base_model"], metadata["base_model_relation"]) == ("FLUX.1-dev", "adapter")
    assert "FLUX.1-dev: sha256 cd34" in card


def test_the_card_of_a_generator_speaks_of_images(tmp_path):
    """The length of answers is not the generator's."""
    GenerationConfig(eos_token_id=5).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "first_image_code": 5}))
    write(tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert "It draws images: codes after the prompt" in card
    assert yaml.safe_load(card.split("---\n")[1])["pipeline_tag"] == "text-to-image"
    assert "answers" not in card
    assert "Ask it with the prompt" not in card
    assert read_usage(tmp_path) == Usage()
    assert GenerationConfig.from_pretrained(tmp_path).max_new_tokens is None


def test_the_card_of_a_flow_generator_speaks_of_its_velocity(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"generator": "pixel_flow", "side": 36}))
    write(tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert "from noise, along a velocity" in card
    assert yaml.safe_load(card.split("---\n")[1])["pipeline_tag"] == "text-to-image"
    assert not (tmp_path / "generation_config.json").exists()
