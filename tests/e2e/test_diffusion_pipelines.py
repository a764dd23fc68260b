"""FLUX and Qwen-Image pipelines of diffusers as generators: sampled, replayed, trained and saved as they are."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline
from safetensors.torch import load_file
from tiny_pipelines import save_flux, save_qwen_image
from training_configs import nft_config

from rubricworks.errors import UserError
from rubricworks.storage import files_digest
from rubricworks.training.config import LoraOptions
from rubricworks.training.generators.config import ImageSampling
from rubricworks.training.generators.flow_matching.diffusion_policy import train_diffusion_policy
from rubricworks.training.generators.image_generators import is_image_generator, load_image_generator
from rubricworks.training.generators.image_statistics import IMAGE_STATISTICS
from rubricworks.training.generators.image_tokenizer import pixels_of

pytestmark = pytest.mark.slow

PROMPTS = ["a red circle", "the picture of a blue square and a red circle"]
SAMPLING = ImageSampling(steps=3, side=16)
BUILDERS = {"flux": save_flux, "qwen_image": save_qwen_image}
ADAPTERS = LoraOptions(rank=2, alpha=4, targets=("to_q", "to_k", "to_v", "to_out.0"))


@pytest.fixture(scope="module", params=list(BUILDERS))
def folder(request, tmp_path_factory):
    return BUILDERS[request.param](tmp_path_factory.mktemp(request.param) / "pipeline")


@pytest.mark.parametrize("guidance", [1.0, 3.5])
def test_images_are_the_pipelines_own(folder, guidance):
    generator = load_image_generator(folder, SAMPLING)
    assert is_image_generator(folder)
    generated = generator.generate(PROMPTS, guidance=guidance, seed=3)
    pipe = DiffusionPipeline.from_pretrained(folder)
    scale = {"guidance_scale": guidance}
    if type(pipe).__name__ == "QwenImagePipeline":
        scale = {"true_cfg_scale": guidance, "negative_prompt": [" "] * 2}
    images = pipe(
        PROMPTS, height=16, width=16, num_inference_steps=3, output_type="np", return_dict=False,
        generator=torch.Generator().manual_seed(3), **scale,
    )[0]  # fmt: skip
    assert np.abs(np.stack(generated).astype(int) - (images * 255).round().astype(int)).max() <= 1


def test_velocity_followed_by_hand_leads_where_the_pipeline_ends(folder):
    generator = load_image_generator(folder, SAMPLING)
    sampled = generator.sample(PROMPTS, guidance=1.0, generator=torch.Generator().manual_seed(0))
    assert sampled.levels.tolist() == sorted(sampled.levels.tolist(), reverse=True)
    assert len(sampled.levels) == 3
    end = generator.sample(PROMPTS, guidance=1.0, generator=torch.Generator().manual_seed(0)).latents
    noise = []
    generator.pipe.scheduler.step, step = (
        lambda v, t, x, **more: noise.append(x) or step(v, t, x, **more),
        generator.pipe.scheduler.step,
    )
    generator.sample(PROMPTS, guidance=1.0, generator=torch.Generator().manual_seed(0))
    x, conditions = noise[0], generator.encode_prompts(PROMPTS)
    levels = [*sampled.levels.tolist(), 0.0]
    with torch.no_grad():
        for level, following in pairwise(levels):
            x = x + (following - level) * generator.velocity(x, torch.full((2,), level), conditions, guidance=1.0)
    torch.testing.assert_close(x, end, rtol=1e-3, atol=1e-4)
    assert all(image is not None for image in pixels_of(generator.decode(x)))


def test_pictures_become_the_latents_that_their_vae_gives_them(folder):
    generator = load_image_generator(folder, SAMPLING)
    images = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
    latents = generator.encode(images)
    assert latents.shape == generator.sample(PROMPTS[:1] * 3, generator=torch.Generator()).latents.shape
    # The VAE's own call, one picture at a time, and the pipeline's own unpacking.
    vae, video = generator.pipe.vae, type(generator.pipe).__name__ == "QwenImagePipeline"
    for row, image in enumerate(images):
        pixels = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 127.5 - 1
        expected = vae.encode(pixels[:, :, None] if video else pixels).latent_dist.mode()
        torch.testing.assert_close(generator.vae_latents(latents[row : row + 1]), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(UserError, match="16x12 pixels and the generator"):
        generator.encode(images[:, :12])


def test_trained_pipeline_is_a_pipeline_of_diffusers_again(folder, tmp_path):
    async def likes_bright(prompts, completions, **columns):
        return [float(len(completion.image)) for completion in completions]

    rows = [{"sample_id": f"s{at}", "prompt": prompt, "rubric": "{}"} for at, prompt in enumerate(PROMPTS)]
    config = nft_config(
        steps=2, group_size=2, prompts_per_step=2, rows_per_pass=2, learning_rate=1e-2, lora=ADAPTERS, save_every=1,
        gradient_checkpointing=True, sampling=SAMPLING, guidance=3.5,
    )  # fmt: skip
    result = train_diffusion_policy(
        folder, rows, [likes_bright], tmp_path, config,
        statistics=IMAGE_STATISTICS,
    )  # fmt: skip
    assert result.steps == 2
    assert json.loads((result.model_dir / "model_index.json").read_text())["_class_name"].endswith("Pipeline")
    DiffusionPipeline.from_pretrained(result.model_dir)
    name = "transformer/diffusion_pytorch_model.safetensors"
    before, after = load_file(folder / name), load_file(result.model_dir / name)
    assert before.keys() == after.keys()
    changed = {key for key in before if not before[key].equal(after[key])}
    assert changed
    assert all(any(target in key for target in ADAPTERS.targets) for key in changed)

    base = json.loads((tmp_path / "adapter" / "base.json").read_text())
    assert base == {"model": "pipeline", "sha256": files_digest(folder.rglob("*"), folder)}
    adapted = DiffusionPipeline.from_pretrained(folder)
    adapted.load_lora_weights(tmp_path / "adapter")
    adapted.fuse_lora()
    adapted.unload_lora_weights()
    for name, weight in adapted.transformer.state_dict().items():
        torch.testing.assert_close(weight, after[name], msg=name)


def test_side_that_the_pipeline_cannot_draw_and_other_pipelines_are_one_line(folder, tmp_path):
    with pytest.raises(UserError, match=r"sampling\.side is 17"):
        load_image_generator(folder, ImageSampling(side=17))
    (tmp_path / "model_index.json").write_text(
        json.dumps({"_class_name": "NoPipeline", "_diffusers_version": "0.42.0"})
    )
    with pytest.raises(UserError, match="cannot load the pipeline"):
        load_image_generator(tmp_path)
