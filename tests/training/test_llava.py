"""LLaVA models: assembled from parts or new, trained in parts, resumed exactly, loaded without this package."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from coloured_squares import PROMPT, squares
from PIL import Image
from safetensors.torch import load_file
from transformers import (
    AutoModelForImageTextToText,
    CLIPVisionConfig,
    CLIPVisionModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from rubricworks.data.manifest import read_manifest
from rubricworks.errors import UserError
from rubricworks.runtime.launch import launch
from rubricworks.training import sft
from rubricworks.training.config import TinyLlavaConfig, VlmConfig
from rubricworks.training.examples import Example, StoredExamples, StoredImages, first_references
from rubricworks.training.generate import generate_captions, load_model, load_model_processor
from rubricworks.training.llava import PROJECTOR, VISION_TOWER
from rubricworks.training.llava.assembly import add_tiles, assemble_llava, build_tiny_llava
from rubricworks.training.module_rates import ModuleRates
from rubricworks.training.sft import CaptionCollator, PlainCollator, train_sft
from rubricworks.training.tiny.student import word_tokenizer

SMALL = TinyLlavaConfig(
    hidden=32, layers=1, heads=2, intermediate=64, vision_hidden=16, vision_heads=2, patch=16, image_side=32
)
_LOAD_PLAIN = """
import io, json, sys
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
folder, picture = sys.argv[1:]
processor = AutoProcessor.from_pretrained(folder)
model = AutoModelForImageTextToText.from_pretrained(folder)
turn = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "describe the image ."}]}]
text = processor.apply_chat_template(turn, add_generation_prompt=True)
inputs = processor(images=[Image.open(picture)], text=[text], return_tensors="pt")
output = model.generate(**inputs, max_new_tokens=8, do_sample=False)
print(json.dumps(processor.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True)))
assert not any(name.split(".")[0] == "rubricworks" for name in sys.modules)
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    images = [image for image, _, _ in squares()]
    return build_tiny_llava(texts, tmp_path_factory.mktemp("llava") / "model", config=SMALL, images=images, seed=1)


@pytest.fixture
def stored(tmp_path) -> StoredExamples:
    """The twelve squares as a table of samples that a stage has prepared."""
    folder = tmp_path / "images"
    folder.mkdir()
    lines = []
    for number, (image, _, caption) in enumerate(squares()):
        (folder / f"{number:02d}.png").write_bytes(image)
        lines.append(json.dumps({"file_name": f"{number:02d}.png", "text": caption}))
    (folder / "metadata.jsonl").write_text("\n".join(lines))
    config = {"source": str(folder), "prompt": PROMPT, "train_only": True, "shard_size": 5}
    samples = Path(launch("prepare", json.dumps(config), str(tmp_path / "run"), {}))
    return StoredExamples(StoredImages(samples), first_references(samples, "train"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_examples_of_a_table_are_its_images_and_first_references(stored):
    assert sorted((row.image, row.caption) for row in stored) == sorted((i, c) for i, _, c in squares())
    assert [row.caption for row in stored[3:6]] == [stored[number].caption for number in (3, 4, 5)]


def test_stage_one_trains_the_projector_alone_and_later_stages_the_whole_model(tiny, stored, tmp_path):
    config = VlmConfig(steps=3, batch_size=4, optimizer={"learning_rate": 1e-2}, save_every=50)
    aligned = train_sft(tiny, stored, tmp_path / "1", config, modules=ModuleRates((PROJECTOR,)))
    whole = train_sft(aligned, stored, tmp_path / "2", config)
    start, first, second = weights(tiny), weights(aligned), weights(whole)
    changed = {name for name in start if not torch.equal(start[name], first[name])}
    assert changed == {name for name in start if PROJECTOR in name}
    assert len({name for name in start if not torch.equal(first[name], second[name])}) > len(changed)


def test_vision_tower_learns_at_its_own_rate(tiny, stored, tmp_path):
    """Adam's first step moves a weight by its learning rate, whatever the gradient."""
    config = VlmConfig(steps=1, batch_size=12, optimizer={"learning_rate": 1e-3, "warmup": 0}, save_every=50)
    modules = ModuleRates(rates={VISION_TOWER: 1e-5})
    trained = weights(train_sft(tiny, stored, tmp_path, config, modules=modules))
    moved = {name: (trained[name] - tensor).abs().max().item() for name, tensor in weights(tiny).items()}
    tower = max(value for name, value in moved.items() if VISION_TOWER in name)
    rest = max(value for name, value in moved.items() if VISION_TOWER not in name)
    assert tower == pytest.approx(1e-5, rel=0.05)
    assert rest == pytest.approx(1e-3, rel=0.05)


def test_module_that_the_model_has_not_is_refused(tiny, stored, tmp_path):
    with pytest.raises(ValueError, match="no module audio_tower"):
        train_sft(tiny, stored, tmp_path, VlmConfig(steps=1), modules=ModuleRates(("audio_tower",)))


@pytest.mark.slow
def test_workers_that_read_ahead_change_no_weight(tiny, stored, tmp_path, monkeypatch):
    config = VlmConfig(steps=4, batch_size=4, optimizer={"learning_rate": 1e-2, "rows_per_pass": 2}, save_every=50)
    alone = weights(train_sft(tiny, stored, tmp_path / "alone", config))
    monkeypatch.setattr(sft, "CACHED_BYTES", 0)
    ahead = weights(train_sft(tiny, stored, tmp_path / "ahead", config))
    assert all(torch.equal(ahead[name], tensor) for name, tensor in alone.items())


class Killed(Exception):
    pass


@pytest.mark.slow
def test_killed_training_on_stored_images_ends_with_the_same_weights(tiny, stored, tmp_path):
    config = VlmConfig(steps=8, batch_size=5, optimizer={"learning_rate": 1e-2}, save_every=3, log_every=1)
    modules = ModuleRates(rates={VISION_TOWER: 1e-3})

    def kill(line) -> None:
        if line.step == 5:
            raise Killed

    with pytest.raises(Killed):
        train_sft(tiny, stored, tmp_path / "cut", config, on_log=kill, modules=modules)
    resumed = train_sft(tiny, stored, tmp_path / "cut", config, modules=modules)
    alone = train_sft(tiny, stored, tmp_path / "alone", config, modules=modules)
    expected, result = weights(alone), weights(resumed)
    assert all(torch.equal(result[name], tensor) for name, tensor in expected.items())


@pytest.mark.slow
def test_files_name_the_weights_as_the_hubs_llavas_and_are_read_back_whole(tiny):
    """llava-hf/llava-1.5-7b-hf's names, by which vLLM finds them (`tests/vllm_cpu`)."""
    names = set(load_file(tiny / "model.safetensors"))
    assert {
        "vision_tower.vision_model.embeddings.class_embedding",
        "vision_tower.vision_model.encoder.layers.0.self_attn.k_proj.weight",
        "multi_modal_projector.linear_1.weight",
        "language_model.model.layers.0.self_attn.q_proj.weight",
    } <= names
    assert all("vision_tower." not in name or "vision_tower.vision_model." in name for name in names)
    _, report = AutoModelForImageTextToText.from_pretrained(tiny, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))


@pytest.mark.slow
def test_directory_loads_with_transformers_alone_and_says_the_same(tiny, tmp_path):
    image = squares()[0][0]
    (tmp_path / "picture.png").write_bytes(image)
    model, processor = load_model(tiny)
    [(text, _)] = generate_captions(model, processor, [image], [PROMPT], max_new_tokens=8)
    command = [sys.executable, "-c", _LOAD_PLAIN, str(tiny), str(tmp_path / "picture.png")]
    output = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(output.stdout) == text


@pytest.fixture
def parts(tmp_path) -> tuple[str, str]:
    """A CLIP vision tower and a Qwen2 language model as they lie on the Hub, but small."""
    torch.manual_seed(0)
    tower = CLIPVisionModel(
        CLIPVisionConfig(
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=3,
            num_attention_heads=2,
            image_size=28,
            patch_size=14,
        )
    )
    tower.save_pretrained(tmp_path / "tower")
    tokenizer = word_tokenizer(["a red square", "<|im_start|> <|im_end|> user assistant"])
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>"})
    language = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            tie_word_embeddings=False,
        )
    )
    language.save_pretrained(tmp_path / "language")
    tokenizer.save_pretrained(tmp_path / "language")
    return str(tmp_path / "tower"), str(tmp_path / "language")


@pytest.mark.parametrize("any_resolution", [True, False])
def test_assembled_model_has_the_weights_of_its_parts_and_reads_images(parts, tmp_path, any_resolution):
    tower, language = parts
    folder = assemble_llava(tower, language, tmp_path / "out", any_resolution=any_resolution, seed=1)
    model, processor = load_model(folder)
    kind = "LlavaNextForConditionalGeneration" if any_resolution else "LlavaForConditionalGeneration"
    assert type(model).__name__ == kind
    row = model.model.vision_tower.state_dict()
    expected = CLIPVisionModel.from_pretrained(tower).state_dict()
    assert row.keys() == expected.keys()
    assert all(torch.equal(row[name], tensor) for name, tensor in expected.items())
    old = Qwen2ForCausalLM.from_pretrained(language)
    words = old.get_input_embeddings().weight
    assert torch.equal(model.get_input_embeddings().weight[: len(words)], words)
    assert torch.equal(model.lm_head.weight[: len(words)], old.lm_head.weight)
    buffer = io.BytesIO()
    Image.new("RGB", (60, 28), "red").save(buffer, "PNG")
    texts = generate_captions(model, processor, [buffer.getvalue()], ["a red square"], max_new_tokens=3)
    assert len(texts) == 1
    assert AutoModelForImageTextToText.from_pretrained(folder).config.vision_feature_layer == -2


@pytest.mark.parametrize("any_resolution", [True, False])
def test_trainings_freeze_the_weights_that_get_no_gradient_and_no_others(parts, tmp_path, any_resolution):
    folder = assemble_llava(*parts, tmp_path / "out", any_resolution=any_resolution)
    model, processor = load_model(folder, on_device=False)
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    model.requires_grad_(True)
    model(**CaptionCollator(processor)([Example(squares()[0][0], "a", "red square")])).loss.backward()
    assert frozen == {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert set(model._no_split_modules) <= {type(module).__name__ for module in model.modules()}


@pytest.mark.parametrize("any_resolution", [True, False])
def test_stage_one_reads_image_and_caption_alone_and_learns_the_caption(parts, tmp_path, any_resolution):
    _, processor = load_model(assemble_llava(*parts, tmp_path / "out", any_resolution=any_resolution))
    image = squares()[0][0]
    batch = PlainCollator(processor)([Example(image, "a prompt", "a red square"), Example(image, "a prompt", "red")])
    for ids, labels, caption in zip(batch["input_ids"], batch["labels"], ("a red square", "red"), strict=True):
        expected = processor.tokenizer(f"{caption}\n", add_special_tokens=False).input_ids
        assert labels[labels != -100].tolist() == expected
        text = [token for token in ids.tolist() if token != processor.image_token_id]
        assert text[: len(expected)] == expected
        assert ids[0] == processor.image_token_id


def test_tiles_are_added_to_an_aligned_model_without_changing_its_weights(parts, tmp_path):
    aligned = assemble_llava(*parts, tmp_path / "aligned", any_resolution=False, seed=1)
    before = weights(aligned)
    whole = assemble_llava(*parts, tmp_path / "whole", any_resolution=True, seed=1)
    tiled = add_tiles(aligned)
    after = weights(tiled)
    assert after.keys() - before.keys() == {name for name in after if "image_newline" in name}
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    for name in ("config.json", "chat_template.jinja", "generation_config.json"):
        assert (tiled / name).read_text() == (whole / name).read_text(), name
    pair = [load_model_processor(folder) for folder in (tiled, whole)]
    assert pair[0].to_dict() == pair[1].to_dict()
    stamp = (tiled / "config.json").stat().st_ino
    assert add_tiles(tiled) == tiled
    assert (tiled / "config.json").stat().st_ino == stamp


def test_stage_one_ends_in_a_model_of_tiles_and_trains_on_one(parts, stored, tmp_path):
    samples = stored.images.samples
    tower, language = parts
    config = {"vision_tower": tower, "language_model": language, "splits": ["train"]}
    config |= {"sft": {"steps": 1, "batch_size": 4, "optimizer": {"learning_rate": 1e-2}}}
    out = Path(launch("align_projector", json.dumps(config), str(tmp_path / "run"), {"samples": str(samples)}))
    untrained = json.loads(next((tmp_path / "run" / "scratch").rglob("config.json")).read_text())
    assert untrained["model_type"] == "llava"
    assert json.loads((out / "model" / "config.json").read_text())["model_type"] == "llava_next"
    assert (out / "model" / "README.md").is_file()


def test_chatml_begins_with_the_system_turn_of_the_reference_unless_there_is_one(parts, tmp_path):
    _, processor = load_model(assemble_llava(*parts, tmp_path / "out"))
    user = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "red"}]}
    asked = "<|im_start|>user\n<image>\nred<|im_end|>\n<|im_start|>assistant\n"
    text = processor.apply_chat_template([user], add_generation_prompt=True)
    assert text == f"<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{asked}"
    own = processor.apply_chat_template([{"role": "system", "content": "a"}, user], add_generation_prompt=True)
    assert own == f"<|im_start|>system\na<|im_end|>\n{asked}"


def test_language_model_without_chatml_is_refused(parts, tmp_path):
    tower, _ = parts
    tokenizer = word_tokenizer(["a red square"])
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    config = Qwen2Config(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    Qwen2ForCausalLM(config).save_pretrained(tmp_path / "plain")
    tokenizer.save_pretrained(tmp_path / "plain")
    with pytest.raises(UserError, match="speaks ChatML"):
        assemble_llava(tower, str(tmp_path / "plain"), tmp_path / "out")


def test_digest_of_stored_examples_changes_with_a_caption_and_with_the_table(stored):
    rows = list(first_references(stored.images.samples, "train"))
    other = [*rows[:-1], (rows[-1][0], rows[-1][1], "another caption")]
    assert StoredExamples(stored.images, rows).digest == stored.digest
    assert StoredExamples(stored.images, other).digest != stored.digest
    manifest = read_manifest(stored.images.samples)
    assert sum(pq.read_metadata(stored.images.samples / shard.name).num_rows for shard in manifest.shards) == len(rows)
