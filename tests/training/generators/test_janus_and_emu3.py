"""Transformers' Janus and Emu3 as generators: tiny ones of random weights, beside Transformers' own generation."""

import json
import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_vq_models import save_emu3, save_janus
from training_configs import code_grpo_config

from rubricworks.adapters.image_scores import ImageScoreReward
from rubricworks.data.images import NO_PIXELS
from rubricworks.errors import UserError
from rubricworks.training.generators.image_statistics import IMAGE_STATISTICS
from rubricworks.training.generators.loading import is_code_generator, load_generator
from rubricworks.training.generators.policy import image_responses, train_image_policy

PROMPTS = ["a red circle", "a blue circle a", "a"]
ROWS = [{"sample_id": f"s{at}", "prompt": prompt, "rubric": "{}"} for at, prompt in enumerate(PROMPTS)]


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {
        "janus": save_janus(tmp_path_factory.mktemp("janus")),
        "emu3": save_emu3(tmp_path_factory.mktemp("emu3")),
    }


@pytest.fixture(params=["janus", "emu3"])
def folder(request, folders):
    return folders[request.param]


def rows_of(generator, prompts, codes):
    ids, mask = generator.encode_prompts(prompts)
    return torch.cat([ids, codes + generator.first], dim=1), torch.cat([mask, torch.ones_like(codes)], dim=1)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_of_training_are_those_of_sampling(folder, temperature):
    generator = load_generator(folder)
    sampled = generator.sample(PROMPTS, temperature=temperature, generator=rng())
    generator.model.train()
    logps, entropies = generator.logps(
        generator.model, *rows_of(generator, PROMPTS, sampled.codes_NL), temperature=temperature
    )
    assert torch.allclose(logps, sampled.logps_NL, atol=1e-4)
    assert float(entropies.max()) <= math.log(generator.codec.codes) + 1e-5


def test_log_probabilities_are_over_the_codes_alone(folder):
    generator = load_generator(folder)
    count = generator.codec.codes
    codes = generator.sample(PROMPTS[:1], generator=rng()).codes_NL.repeat(count, 1)
    codes[:, -1] = torch.arange(count)
    logps, _ = generator.logps(generator.model, *rows_of(generator, PROMPTS[:1] * count, codes))
    assert logps[:, -1].exp().sum().item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("guidance", [1.5, 4.0])
def test_janus_draws_what_transformers_draws(folders, guidance):
    generator = load_generator(folders["janus"])
    ids, mask = generator.encode_prompts(PROMPTS)
    model = generator.model
    model.generation_config.update(pad_token_id=0, bos_token_id=1)
    model.generation_config.generation_kwargs = {"boi_token_id": ids[0, -1].item()}
    theirs = model.generate(
        ids, attention_mask=mask, generation_mode="image", do_sample=False, guidance_scale=guidance, use_cache=True
    )
    ours = generator.sample(PROMPTS, temperature=0.0, guidance=guidance, generator=rng()).codes_NL
    assert torch.equal(ours, theirs)
    pixels = model.decode_image_tokens(theirs)[0]
    expected = ((pixels.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).numpy()
    assert np.array_equal(generator.codec.decode(ours)[0], expected)


def test_emu3_draws_what_transformers_draws(folders):
    """Its documentation generates with the allowed tokens of each place: codes, and the end of a row after each row."""
    generator = load_generator(folders["emu3"])
    model, vocabulary = generator.model, generator.model.vocabulary_mapping
    ids, mask = generator.encode_prompts(PROMPTS)
    tokens = ids.shape[1]

    def allowed(_, written):
        place = len(written) - tokens
        return [vocabulary.eol_token_id] if place % 3 == 2 else vocabulary.image_tokens

    theirs = model.generate(
        ids, attention_mask=mask, do_sample=False, max_new_tokens=6, prefix_allowed_tokens_fn=allowed, pad_token_id=0
    )[:, tokens:]
    ours = generator.sample(PROMPTS, temperature=0.0, generator=rng()).codes_NL
    assert torch.equal(ours, vocabulary.convert_bpe2img(theirs.view(3, 2, 3)).view(3, 4).long())


@pytest.mark.slow
def test_one_step_of_grpo_moves_the_weights_but_not_the_decoder(folder, tmp_path):
    async def some_of_each(prompts, completions, **columns):
        return [float(at % 2) for at, _ in enumerate(completions)]

    steps = []
    config = code_grpo_config(steps=1, group_size=4, prompts_per_step=2, learning_rate=1e-3)
    result = train_image_policy(
        folder, ROWS, [some_of_each], tmp_path, config, statistics=IMAGE_STATISTICS, on_step=steps.append
    )
    before, after = load_file(folder / "model.safetensors"), load_file(result.model_dir / "model.safetensors")
    moved = {name for name in before if name in after and not before[name].equal(after[name])}
    assert any("layers.0" in name for name in moved)
    assert not any("vqmodel" in name or "vision_model" in name for name in moved)
    assert len(steps[0].responses) == 8
    assert is_code_generator(result.model_dir)
    assert load_generator(result.model_dir).generate(["a"], seed=1)[0].shape[2] == 3


@pytest.mark.slow
def test_a_rollout_of_which_the_decoder_makes_no_pixels_has_no_reward(folder, tmp_path, monkeypatch):
    generator = load_generator(folder)
    drawn = generator.sample(PROMPTS * 20, generator=rng()).codes_NL
    holds = [(drawn == code).any(dim=1).float().mean().item() for code in range(generator.codec.codes)]
    broken = min(range(len(holds)), key=lambda code: abs(holds[code] - 0.4))  # some images have it, and some have not
    kind = type(generator.codec)
    decode = kind.decode

    def with_a_hole(self, codes_NL):
        embedding = self._vq.quantize.embedding.weight
        saved = embedding[broken].clone()
        with torch.no_grad():
            embedding[broken] = torch.nan
            images = decode(self, codes_NL)
            embedding[broken] = saved
        assert [image is None for image in images] == [broken in row for row in codes_NL.tolist()]
        return images

    class PassesAll:
        """Endpoint of a scorer that every image pleases."""

        endpoint = SimpleNamespace(model="passes-all")

        def note_prompt(self, version):
            pass

        async def chat(self, messages, response):
            return SimpleNamespace(value=SimpleNamespace(score=1.0))

    monkeypatch.setattr(kind, "decode", with_a_hole)
    steps, failures = [], []
    reward = ImageScoreReward([(PassesAll(), 1.0)], on_error=failures.append)
    config = code_grpo_config(steps=2, group_size=4, prompts_per_step=2)
    train_image_policy(folder, ROWS, [reward], tmp_path, config, statistics=IMAGE_STATISTICS, on_step=steps.append)
    rollouts = [pair for step in steps for pair in zip(step.responses, step.rewards, strict=True)]
    assert any(response.image == NO_PIXELS for response, _ in rollouts)
    assert all((reward is None) == (response.image == NO_PIXELS) for response, reward in rollouts)
    assert len(failures) == sum(reward is None for _, reward in rollouts)
    assert "no readable image" in str(failures[0].error)


def test_images_of_two_sizes_are_refused():
    with pytest.raises(UserError, match="images are of 4x4 and 8x4 pixels; a generator has one size"):
        image_responses([np.zeros((4, 4, 3), np.uint8), None, np.zeros((4, 8, 3), np.uint8)])


def test_a_checkpoint_that_writes_no_images_is_told(folders, tmp_path):
    folder = shutil.copytree(folders["janus"], tmp_path / "janus")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config = {name: value for name, value in config.items() if name not in ("boi_token", "extra_special_tokens")}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="has no boi_token"):
        load_generator(folder)
    folder = shutil.copytree(folders["emu3"], tmp_path / "emu3")
    config = json.loads((folder / "config.json").read_text())
    del config["vocabulary_map"]["<|extra_200|>"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"no <\|extra_200\|>"):
        load_generator(folder)
