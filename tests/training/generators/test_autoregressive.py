"""Autoregressive generation: what is sampled is what the log-probabilities say, guidance, prompts that do not fit."""

import math

import numpy as np
import pytest
import torch

from rubricworks.errors import UserError
from rubricworks.training.generators.autoregressive import VocabularyGenerator
from rubricworks.training.generators.loading import is_code_generator

PROMPTS = ["a red circle", "a blue circle", "a circle"]


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def ids_of(generator, prompts, codes):
    ids, mask = generator.encode_prompts(prompts)
    return torch.cat([ids, codes + generator.first], dim=1), torch.cat([mask, torch.ones_like(codes)], dim=1)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_of_sampling_are_those_of_training(generator, temperature):
    sampled = generator.sample(PROMPTS, temperature=temperature, generator=rng())
    logps, _ = generator.logps(generator.model, *ids_of(generator, PROMPTS, sampled.codes_NL), temperature=temperature)
    assert torch.allclose(logps, sampled.logps_NL, atol=1e-5)


def test_log_probabilities_are_over_the_codes_alone_and_do_not_depend_on_padding(generator):
    codes = generator.sample(PROMPTS, generator=rng()).codes_NL
    together, entropies = generator.logps(generator.model, *ids_of(generator, PROMPTS, codes))
    for row, prompt in enumerate(PROMPTS):
        alone, _ = generator.logps(generator.model, *ids_of(generator, [prompt], codes[row : row + 1]))
        assert torch.allclose(alone[0], together[row], atol=1e-5)
    # Over all first codes they sum to one: no word has a share.
    count = generator.codec.codes
    first = codes[:1].repeat(count, 1)
    first[:, 0] = torch.arange(count)
    logps, _ = generator.logps(generator.model, *ids_of(generator, PROMPTS[:1] * count, first))
    assert logps[:, 0].exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert entropies.min() >= 0
    assert entropies.max() <= math.log(count) + 1e-5


def test_sampled_frequencies_are_the_probabilities(generator):
    count = 2_000
    codes = generator.sample(PROMPTS[:1] * count, generator=rng(5)).codes_NL[:, 0]
    first = torch.zeros(generator.codec.codes, generator.codec.length, dtype=torch.long)
    first[:, 0] = torch.arange(generator.codec.codes)
    logps, _ = generator.logps(generator.model, *ids_of(generator, PROMPTS[:1] * len(first), first))
    for code, p in enumerate(logps[:, 0].exp().tolist()):
        spread = 4.5 * math.sqrt(max(p * (1 - p), 1e-9) / count) + 1e-3
        assert abs((codes == code).float().mean().item() - p) < spread


def test_temperature_zero_takes_the_likeliest_code_each_time(generator):
    first, second = (generator.sample(PROMPTS, temperature=0.0, generator=rng(seed)).codes_NL for seed in (1, 2))
    assert torch.equal(first, second)


def test_guidance_mixes_the_logits_of_prompt_and_empty_prompt(generator):
    with torch.no_grad():
        logits = []
        for prompt in (PROMPTS[0], ""):
            ids, mask = generator.encode_prompts([prompt])
            logits.append(generator.code_logits(generator.model(input_ids=ids, attention_mask=mask).logits[0, -1]))
    likeliest = (logits[1] + 3 * (logits[0] - logits[1])).argmax()
    assert generator.sample(PROMPTS[:1], temperature=0.0, guidance=3.0, generator=rng()).codes_NL[0, 0] == likeliest
    plain = generator.sample(PROMPTS, temperature=0.0, guidance=1.0, generator=rng()).codes_NL
    assert torch.equal(plain, generator.sample(PROMPTS, temperature=0.0, generator=rng()).codes_NL)


def test_generated_pictures_follow_their_prompts_and_the_seed(generator):
    prompts = ["a red circle", "a blue circle"] * 12
    images = generator.generate(prompts, seed=3, batch_size=7)
    again = generator.generate(prompts, seed=3, batch_size=7)
    assert all(np.array_equal(image, other) for image, other in zip(images, again, strict=True))
    red = [bool(((image[..., 0] > 200) & (image[..., 2] < 60)).any()) for image in images]
    assert sum(red[::2]) >= 8
    assert sum(red[1::2]) <= 4


def test_a_prompt_that_leaves_no_room_is_refused_and_not_cut(generator):
    with pytest.raises(UserError, match="leave room for the image"):
        generator.encode_prompts(["a red circle " * 10])


def test_a_folder_that_is_no_generator_is_told_apart(pretrained, student, tmp_path):
    assert is_code_generator(pretrained)
    assert not is_code_generator(student)
    assert not is_code_generator(tmp_path)
    with pytest.raises(UserError, match="cannot load the generator"):
        VocabularyGenerator.load(tmp_path)
