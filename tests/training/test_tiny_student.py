import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from coloured_squares import PROMPT, SMALL, square, squares
from safetensors.torch import load_file
from transformers import AutoTokenizer

from rubricworks.errors import UserError
from rubricworks.training.config import TinyConfig
from rubricworks.training.generate import generate_captions, load_model
from rubricworks.training.tiny.student import background_colour, build_student, word_tokenizer


def test_default_student_has_about_700000_parameters_and_9_image_tokens(tmp_path):
    import PIL.Image

    from rubricworks.training.processing import encode_prompts

    model, processor = load_model(build_student([PROMPT], tmp_path / "s"))
    assert 600_000 < sum(parameter.numel() for parameter in model.parameters()) < 750_000
    inputs = encode_prompts(processor, [PIL.Image.new("RGB", (96, 96))], [PROMPT])
    image_token = model.config.image_token_id
    assert (inputs["input_ids"] == image_token).sum() == 9
    assert torch.equal(inputs["mm_token_type_ids"][0] == 1, inputs["input_ids"][0] == image_token)


def test_student_directory_names_qwen3_vls_processor_with_all_that_it_reads(student):
    """tests/vllm_cpu/test_plain_student.py loads the folder without this package, where torchvision is."""
    fields = json.loads((student / "processor_config.json").read_text())
    tokenizer_fields = json.loads((student / "tokenizer_config.json").read_text())
    config = json.loads((student / "config.json").read_text())
    assert fields["processor_class"] == tokenizer_fields["processor_class"] == "Qwen3VLProcessor"
    assert fields["video_processor"]["video_processor_type"] == "Qwen3VLVideoProcessor"
    for name in ("patch_size", "merge_size", "temporal_patch_size", "image_mean", "image_std", "size"):
        assert fields["video_processor"][name] == fields["image_processor"][name], name
    tokenizer = AutoTokenizer.from_pretrained(student)
    assert tokenizer.convert_tokens_to_ids("<|video_pad|>") == config["video_token_id"]
    assert config["video_token_id"] >= config["text_config"]["vocab_size"]


@pytest.mark.slow
def test_student_directory_loads_in_a_fresh_process_without_torchvision(student):
    code = (
        "import sys\n"
        "from transformers import AutoModelForImageTextToText\n"
        "from rubricworks.training.processing import load_processor\n"
        "processor = load_processor(sys.argv[1])\n"
        "model = AutoModelForImageTextToText.from_pretrained(sys.argv[1])\n"
        "print(type(processor).__name__, type(model).__name__, processor.tokenizer('a red square .')['input_ids'])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(student)], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    _, processor = load_model(student)
    ids = processor.tokenizer("a red square .")["input_ids"]
    assert out.strip() == f"TinyVLProcessor Qwen3VLForConditionalGeneration {ids}"


def test_training_package_and_its_config_import_without_torch():
    code = "import sys, rubricworks.training, rubricworks.training.config; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_tokens_are_whole_words_and_decode_to_the_same_text():
    tokenizer = word_tokenizer(["at top-left a big red circle .", "a small blue square ."])
    text = "at top-left a small red square ."
    ids = tokenizer(text)["input_ids"]
    assert len(ids) == 7
    assert tokenizer.decode(ids) == text
    assert tokenizer("zebra")["input_ids"] == [tokenizer.unk_token_id]


def test_texts_without_a_word_are_refused():
    with pytest.raises(UserError, match="vocabulary"):
        word_tokenizer(["", "  "])


def test_background_of_the_training_images_becomes_zero(student):
    images = [image for image, _, _ in squares()]
    assert background_colour(images) == pytest.approx([240 / 255, 235 / 255, 225 / 255])
    _, processor = load_model(student)
    from rubricworks.training.generate import decode_image

    patches = processor.image_processor([decode_image(square("top-left", "red"))], return_tensors="np")["pixel_values"]
    assert np.abs(patches[-4:]).max() < 0.01  # the bottom-right quarter is background
    assert np.abs(patches[:4]).max() > 0.5


def test_cached_patches_equal_fresh_ones_and_differ_between_images(student):
    from rubricworks.training.generate import decode_image
    from rubricworks.training.processing import encode_prompts

    _, processor = load_model(student)
    images = [decode_image(square("top-left", "red")), decode_image(square("top-right", "blue"))]
    first = encode_prompts(processor, images, [PROMPT] * 2)["pixel_values"]
    again = encode_prompts(processor, images[::-1], [PROMPT] * 2)["pixel_values"]
    direct = processor.image_processor(images, return_tensors="pt")["pixel_values"]
    assert torch.equal(first, direct)
    assert torch.equal(again, direct.reshape(2, -1, direct.shape[1]).flip(0).reshape(direct.shape))


def test_same_seed_builds_the_same_student_and_another_seed_another_one(tmp_path):
    item, same, other = (
        load_file(build_student([PROMPT], tmp_path / name, config=SMALL, seed=seed) / "model.safetensors")
        for name, seed in (("one", 3), ("same", 3), ("other", 4))
    )
    name = "model.visual.pos_embed.weight"
    assert torch.equal(item[name], same[name])
    assert not torch.equal(item[name], other[name])
    assert item[name].std() == pytest.approx(1.0, abs=0.15)


def test_shape_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="image_side"):
        TinyConfig(image_side=100)


def test_sampling_follows_its_seed_and_leaves_the_global_random_state_alone(student):
    model, processor = load_model(student)
    images = [square("top-left", "red")] * 4
    before = torch.random.get_rng_state()
    first, same, other = (
        generate_captions(
            model, processor, images, [PROMPT] * 4, max_new_tokens=8, temperature=1.0, seed=seed, batch_size=2
        )
        for seed in (5, 5, 6)
    )
    assert first == same != other
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(1 <= tokens <= 8 for _, tokens in first)


def test_folder_without_a_model_is_one_clear_error(tmp_path):
    with pytest.raises(UserError, match=r"config\.json"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_hidden_layers", 3, "weights that the folder does not hold, such as model.language_model.layers."),
        ("intermediate_size", 48, "cannot load the model"),
    ],
)
def test_weights_of_another_architecture_are_refused_and_not_drawn_at_random(student, tmp_path, field, value, message):
    folder = shutil.copytree(student, tmp_path / "student")
    config = json.loads((folder / "config.json").read_text())
    config["text_config"] |= {field: value}
    config["text_config"].pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=message):
        load_model(folder)
