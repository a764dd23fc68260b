"""LlamaGen's VQ model and Cosmos' tokenizer as codecs: random weights, beside Transformers' and diffusers' parts."""

import math

import numpy as np
import pytest
import torch
from diffusers.models.autoencoders.vae import Decoder, Encoder
from tiny_generator import captioned_pictures
from torch.nn.functional import normalize
from training_configs import code_grpo_config
from transformers.models.janus.configuration_janus import JanusVQVAEConfig
from transformers.models.janus.modeling_janus import JanusVQVAE

from rubricworks.errors import UserError
from rubricworks.training.generators.autoregressive import VocabularyGenerator
from rubricworks.training.generators.codecs import CODEC, load_codec, save_codec
from rubricworks.training.generators.config import TinyArConfig
from rubricworks.training.generators.cosmos import CosmosCodec, CosmosShape, code_values, haar, inverse_haar, quantized
from rubricworks.training.generators.image_statistics import IMAGE_STATISTICS
from rubricworks.training.generators.llamagen import LlamaGenVq
from rubricworks.training.generators.loading import is_code_generator, load_generator
from rubricworks.training.generators.policy import train_image_policy
from rubricworks.training.generators.tiny_ar import _build

SHAPE = CosmosShape(
    rows=3, compression=8, patch=4, channels=8, multipliers=(1, 2), blocks=1, groups=4, latent_channels=6, levels=(4, 3)
)
LEVELS = [(8, 8, 8, 5, 5, 5), (4, 3), (2,), (7, 2, 5)]


def llamagen() -> LlamaGenVq:
    """3 x 3 codes out of 12, images of 6 x 6 pixels."""
    config = JanusVQVAEConfig(
        base_channels=32, channel_multiplier=[1, 1], num_res_blocks=1, latent_channels=32, embed_dim=4,
        num_embeddings=12, num_patches=3,
    )  # fmt: skip
    return LlamaGenVq(JanusVQVAE(config))


def cosmos() -> CosmosCodec:
    """3 x 3 codes out of 12, images of 24 x 24 pixels, whose codes differ."""
    codec = CosmosCodec(SHAPE)
    codec.network.quant_conv.weight.mul_(20)
    return codec


@pytest.fixture(params=[llamagen, cosmos])
def codec(request):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return request.param()


def images(codec, count=2) -> np.ndarray:
    side = 6 if isinstance(codec, LlamaGenVq) else 24
    return np.random.default_rng(1).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def test_codec_is_read_back_from_a_generators_folder_and_draws_the_same(codec, tmp_path):
    codes = torch.arange(18).view(2, 9) % codec.codes
    save_codec(codec, tmp_path)
    again = load_codec(tmp_path)
    assert type(again) is type(codec)
    assert (again.codes, again.length) == (codec.codes, codec.length) == (12, 9)
    for image, expected in zip(again.decode(codes), codec.decode(codes), strict=True):
        assert image.shape == images(codec).shape[1:]
        assert np.array_equal(image, expected)
    encoded = codec.encode(images(codec))
    assert encoded.shape == (2, 9)
    assert torch.equal(again.encode(images(codec)), encoded)
    assert encoded.min() >= 0
    assert encoded.max() < codec.codes
    assert len(set(encoded.flatten().tolist())) > 1


def test_image_whose_values_are_not_finite_has_no_pixels(codec):
    codec.network.post_quant_conv.weight[:] = torch.nan
    assert codec.decode(torch.zeros(1, 9, dtype=torch.long)) == [None]


def test_llamagen_draws_as_transformers_and_takes_the_nearest_code_by_angle():
    codec = llamagen()
    codes = torch.arange(9)[None]
    [image] = codec.decode(codes)
    expected = codec.network.decode(codes)[0].permute(1, 2, 0).clamp(-1, 1)
    assert np.array_equal(image, ((expected + 1) * 127.5).round().to(torch.uint8).numpy())
    pictures = images(codec)
    values = torch.from_numpy(pictures).permute(0, 3, 1, 2) / 127.5 - 1
    latents = codec.network.quant_conv(codec.network.encoder(values))
    book = normalize(codec.network.quantize.embedding.weight, dim=1)
    for picture, latent in zip(codec.encode(pictures), latents, strict=True):
        vectors = normalize(latent.flatten(1).T, dim=1)
        distances = [[float((vector - code).norm()) for code in book] for vector in vectors]
        assert picture.tolist() == [min(range(12), key=row.__getitem__) for row in distances]


@pytest.mark.parametrize("levels", LEVELS)
def test_every_code_of_finite_scalar_quantization_is_reached_and_comes_back(levels):
    codes = torch.arange(math.prod(levels))
    values = code_values(codes, levels)
    assert values.shape == (len(codes), len(levels))
    assert len({tuple(row) for row in values.tolist()}) == len(codes)
    assert values.abs().max() <= 1
    # The latent whose bounded value is a level: the inverse of the bound, by hand.
    latents = torch.empty_like(values)
    for at, count in enumerate(levels):
        reach, offset = (count - 1) * 1.001 / 2, 0.5 if count % 2 == 0 else 0.0
        latents[:, at] = ((values[:, at] * (count // 2) + offset) / reach).atanh() - math.atanh(offset / reach)
    assert torch.equal(quantized(latents.double().float(), levels), codes)
    assert quantized(torch.full((1, len(levels)), 50.0), levels).item() == len(codes) - 1
    assert quantized(torch.full((1, len(levels)), -50.0), levels).item() == 0


def test_first_value_of_a_code_counts_least():
    assert code_values(torch.tensor([1]), (8, 5)).tolist() == [[(1 - 4) / 4, -1.0]]
    assert code_values(torch.tensor([8]), (8, 5)).tolist() == [[-1.0, (1 - 2) / 2]]


def test_haar_transform_is_means_and_differences_and_has_an_inverse():
    picture = torch.rand(2, 3, 8, 8, dtype=torch.float64)
    bands = haar(picture, 4)
    assert bands.shape == (2, 48, 2, 2)
    torch.testing.assert_close(inverse_haar(bands, 4), picture)
    quarter = haar(torch.tensor([[[[1.0, 2.0], [3.0, 6.0]]]]), 2)
    assert quarter.flatten().tolist() == [3.0, -1.5, -1.0, 0.5]
    torch.testing.assert_close(bands[:, :3], torch.nn.functional.avg_pool2d(picture, 4))


def test_cosmos_network_is_that_of_diffusers_blocks_with_the_same_weights():
    """With one multiplier of 1 the two architectures are the same; names differ."""
    shape = CosmosShape(
        compression=8, patch=4, channels=8, multipliers=(1, 2), blocks=2, groups=4, latent_channels=6, levels=(4, 3)
    )
    network = CosmosCodec(shape).network
    options = {"block_out_channels": (8, 16), "layers_per_block": 2, "norm_num_groups": 4}
    encoder = Encoder(48, 6, ("DownEncoderBlock2D",) * 2, double_z=False, **options)
    decoder = Decoder(6, 48, ("UpDecoderBlock2D",) * 2, **options)
    encoder.load_state_dict(renamed(network.encoder.state_dict(), depth=2))
    decoder.load_state_dict(renamed(network.decoder.state_dict(), depth=2))
    bands, latents = torch.randn(2, 48, 4, 4), torch.randn(2, 6, 2, 2)
    torch.testing.assert_close(network.encoder(bands), encoder(bands), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network.decoder(latents), decoder(latents), rtol=1e-4, atol=1e-5)


def renamed(weights: dict[str, torch.Tensor], depth: int) -> dict[str, torch.Tensor]:
    """Cosmos' names of weights as those of diffusers, whose decoder counts its levels from the other end."""
    names = {
        "mid.block_1": "mid_block.resnets.0", "mid.block_2": "mid_block.resnets.1",
        "mid.attn_1": "mid_block.attentions.0",
        "nin_shortcut": "conv_shortcut", "norm_out": "conv_norm_out", ".block.": ".resnets.",
        ".downsample.": ".downsamplers.0.", ".upsample.": ".upsamplers.0.",
        **{f"down.{at}.": f"down_blocks.{at}." for at in range(depth)},
        **{f"up.{at}.": f"up_blocks.{depth - 1 - at}." for at in range(depth)},
    }  # fmt: skip
    attention = {
        ".q.": ".to_q.",
        ".k.": ".to_k.",
        ".v.": ".to_v.",
        ".proj_out.": ".to_out.0.",
        ".norm.": ".group_norm.",
    }
    out = {}
    for name, weight in weights.items():
        inside = name.startswith("mid.attn_1")
        for old, new in {**names, **(attention if inside else {})}.items():
            name = name.replace(old, new, 1)
        out[name] = weight.flatten(1) if inside and weight.ndim == 4 else weight
    return out


def test_generator_with_either_codec_is_saved_sampled_and_trained(codec, tmp_path):
    captions, _ = captioned_pictures(8)
    config = TinyArConfig(hidden=16, layers=1, heads=2, intermediate=32, max_prompt_tokens=16)
    folder = _build(captions, codec, config, seed=1).save(tmp_path / "generator")
    assert (folder / CODEC / "config.json").is_file()
    assert is_code_generator(folder)
    generator = load_generator(folder)
    assert isinstance(generator, VocabularyGenerator)
    drawn = generator.generate(captions[:2], seed=1)
    assert [image.shape for image in drawn] == [images(codec).shape[1:]] * 2

    async def brightness(prompts, completions, **columns):
        return [float(at % 3) for at in range(len(completions))]

    rows = [{"sample_id": f"s{at}", "prompt": caption, "rubric": "{}"} for at, caption in enumerate(captions[:2])]
    settings = code_grpo_config(steps=1, group_size=4, prompts_per_step=2, learning_rate=1e-2)
    result = train_image_policy(folder, rows, [brightness], tmp_path / "run", settings, statistics=IMAGE_STATISTICS)
    trained = load_generator(result.model_dir)
    for name, weight in trained.codec.network.state_dict().items():
        assert torch.equal(weight, codec.network.state_dict()[name]), name
    first = next(iter(generator.model.parameters()))
    assert not torch.equal(next(iter(trained.model.parameters())), first)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"model_type": "vae"}', r"codec of type vae; give one of LlamaGen \(janus_vqgan\) or Cosmos"),
        ("[]", "no readable config.json of a codec"),
        ('{"model_type": "cosmos_discrete_image", "compression": 12}', "compression 12 is not patch 4 times a power"),
        ('{"model_type": "cosmos_discrete_image"}', "cannot load the codec .*No such file"),
        ('{"model_type": "janus_vqgan"}', "cannot load the codec"),
    ],
)
def test_damaged_or_foreign_codec_is_one_clear_line(tmp_path, config, message):
    (tmp_path / CODEC).mkdir()
    (tmp_path / CODEC / "config.json").write_text(config)
    with pytest.raises(UserError, match=message) as raised:
        load_codec(tmp_path)
    assert "\n" not in str(raised.value)


def test_weights_of_another_shape_are_refused(tmp_path):
    save_codec(cosmos(), tmp_path)
    config = SHAPE.model_copy(update={"channels": 16})
    (tmp_path / CODEC / "config.json").write_text(config.model_dump_json())
    with pytest.raises(UserError, match=r"cannot load the codec .*size mismatch"):
        load_codec(tmp_path)


def test_shape_of_the_published_checkpoint_has_64000_codes():
    shape = CosmosShape()
    assert math.prod(shape.levels) == 64_000
    assert shape.halvings == 2
