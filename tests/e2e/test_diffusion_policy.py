"""DiffusionNFT's trainer on a tiny flow-matching generator: its gradients, its moving average, resumption, options."""

import io
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from kills import saved
from PIL import Image
from safetensors.torch import load_file
from support_paths import SUPPORT_PATHS
from tiny_flow_generator import TINY_FLOW
from tiny_generator import captioned_pictures
from torch import nn
from training_configs import nft_config, sft_config

from rubricworks.errors import UserError
from rubricworks.training.checkpoints import open_run
from rubricworks.training.config import LoraOptions, RefillOptions, SelectionOptions
from rubricworks.training.generators.config import ImageSampling, TinyFlowConfig
from rubricworks.training.generators.flow_matching import diffusion_policy
from rubricworks.training.generators.flow_matching.diffusion_policy import (
    DiffusionPolicyTrainer,
    train_diffusion_policy,
)
from rubricworks.training.generators.flow_matching.pixel_flow import PixelFlow
from rubricworks.training.generators.flow_matching.supervised import FlowPeer
from rubricworks.training.generators.flow_matching.tiny_flow import pretrain_tiny_flow
from rubricworks.training.generators.flow_matching.velocity_forms import VelocityForms
from rubricworks.training.generators.image_generators import is_flow_generator, load_image_generator
from rubricworks.training.generators.image_statistics import IMAGE_STATISTICS
from rubricworks.training.generators.image_tokenizer import pixels_of

pytestmark = pytest.mark.slow

ROWS = [{"sample_id": f"s{at}", "prompt": "a red circle", "rubric": "{}"} for at in range(4)]
FAST = {"beta": 0.3, "clip": 2.0, "kl_weight": 0.0, "decay_rate": 1.0, "levels": "stratified", "levels_per_image": 3}
FEW = {"group_size": 8, "prompts_per_step": 2, "learning_rate": 3e-4, "log_every": 1, "save_every": 1000, **FAST}
PLAIN = {"kl_weight": 0.0, "beta": 1.0, "clip": 5.0, "decay_rate": 0.001, "levels": "sampled", "levels_per_image": None}
ADAPTERS = LoraOptions(rank=4, alpha=8, targets=("to_q", "to_k", "to_v"))


def blueness(image):
    """Blue above red, averaged over the pixels."""
    return float(image[..., 2].mean() - image[..., 0].mean()) / 255


async def likes_blue(prompts, completions, **columns):
    images = [
        np.asarray(Image.open(io.BytesIO(completion.image)).convert("RGB")).astype(float) for completion in completions
    ]
    return [blueness(image) for image in images]


@pytest.fixture(scope="module")
def flow(tmp_path_factory):
    return pretrain_tiny_flow(*captioned_pictures(128), tmp_path_factory.mktemp("flow"), TINY_FLOW, seed=1)


def train(model, out, config, reward=likes_blue, **more):
    return train_diffusion_policy(model, ROWS, [reward], out, config, statistics=IMAGE_STATISTICS, **more)


def trainer_of(flow, out, config, on_rollouts=lambda step: None, reward=likes_blue):
    return DiffusionPolicyTrainer(
        PixelFlow.load(flow), [reward], ROWS, config, seed=0, out_dir=out, on_rollouts=on_rollouts
    )


def test_generator_learns_what_the_reward_pays_for_and_is_a_generator_again(flow, tmp_path):
    steps = []
    result = train(flow, tmp_path, nft_config(steps=25, **FEW), on_step=steps.append)
    before, after = (
        np.mean(
            [
                blueness(image.astype(float))
                for image in load_image_generator(model).generate(["a red circle"] * 60, seed=1)
            ]
        )
        for model in (flow, result.model_dir)
    )
    assert is_flow_generator(result.model_dir)
    assert before < 0  # red, as the prompt asks
    assert after > 0.03
    assert all(response.is_image and response.image for response in steps[0].responses)
    assert set(result.history[0].values) == {statistic.name for statistic in IMAGE_STATISTICS}


@pytest.mark.parametrize("lora", [None, ADAPTERS])
def test_gradient_is_proportional_to_2r_minus_1_at_the_sampling_policy(flow, tmp_path, lora):
    config = nft_config(steps=1, lora=lora, **{**FEW, "kl_weight": 0.0, "beta": 0.7})
    trainer = trainer_of(flow, tmp_path, config)
    torch.manual_seed(0)
    latents = trainer.generator.sample(["a red circle"] * 2, generator=torch.Generator().manual_seed(0)).latents
    noise, levels = torch.randn_like(latents), torch.tensor([0.5, 0.9])
    conditions = {k: v.detach() for k, v in trainer.generator.encode_prompts(["a red circle"] * 2).items()}

    def loss_and_gradient(r):
        trainer.forms.zero_grad()
        loss = trainer._loss(latents, noise, levels, torch.tensor([r, r]), conditions)
        loss.backward()
        return loss.item(), torch.cat(
            [parameter.grad.flatten() for parameter in trainer.forms.parameters() if parameter.grad is not None]
        )

    (high, gradient), (middle, none), (low, opposite) = map(loss_and_gradient, (1.0, 0.5, 0.25))
    assert high == pytest.approx(middle, rel=1e-5)
    assert high == pytest.approx(low, rel=1e-5)
    assert gradient.norm() > 0
    assert none.norm() < 1e-4 * gradient.norm()
    torch.testing.assert_close(opposite, -0.5 * gradient, rtol=1e-2, atol=1e-3 * gradient.abs().max().item())


def recorded_x_t(generator, monkeypatch):
    """Noisy latents that the generator's velocity is asked at, from here on."""
    seen, velocity = [], generator.velocity
    monkeypatch.setattr(
        generator, "velocity", lambda x_t, *rest, **more: seen.append(x_t) or velocity(x_t, *rest, **more)
    )
    return seen


def test_noisy_latents_of_bfloat16_images_are_those_of_float64_arithmetic(flow, tmp_path, monkeypatch):
    trainer = trainer_of(flow, tmp_path, nft_config(steps=1, **FEW))
    draw = torch.Generator().manual_seed(0)
    x_0 = trainer.generator.sample(["a red circle"] * 4, generator=draw).latents.bfloat16()
    noise, levels = torch.randn(x_0.shape, generator=draw), torch.tensor([0.0321, 0.2789, 0.6543, 0.9871])
    conditions = {
        name: value.detach() for name, value in trainer.generator.encode_prompts(["a red circle"] * 4).items()
    }
    seen = recorded_x_t(trainer.generator, monkeypatch)
    trainer._loss(x_0, noise, levels, torch.full((4,), 0.5), conditions)
    t = levels.double()[:, None, None]
    exact = (1 - t) * x_0.double() + t * noise.double()
    assert len(seen) == 2
    for x_t in seen:
        torch.testing.assert_close(x_t.double(), exact, rtol=0, atol=1e-6)


def test_supervised_peer_noises_bfloat16_latents_in_float32(flow, tmp_path, monkeypatch):
    peer = FlowPeer(PixelFlow.load(flow), 1.0)
    seen = recorded_x_t(peer.generator, monkeypatch)
    targets = peer.draw(["a red circle"] * 4, temperature=1.0, draw=torch.Generator().manual_seed(0)).targets.bfloat16()
    seen.clear()
    peer.train(["a red circle"] * 4, targets, tmp_path, sft_config(steps=1, batch_size=4), seed=0, checkpoint=None)
    (x_t,) = seen
    assert x_t.dtype == torch.float32
    assert (x_t.bfloat16().float() != x_t).float().mean() > 0.5


def test_gradients_of_a_step_are_those_of_the_loss_written_directly(flow, tmp_path):
    """A third of the images has reward 1; every image is trained at all levels of the sampling."""

    async def thirds(prompts, completions, **columns):
        return [float(at % 3 == 0) for at in range(len(completions))]

    config = nft_config(steps=1, rows_per_pass=8, **{**FEW, **PLAIN})
    trainer = trainer_of(flow, tmp_path, config, reward=thirds)
    (part,) = trainer._draw(ROWS[:2])
    rewards = np.array([float(at % 3 == 0) for at in range(16)])
    groups = rewards.reshape(2, 8)
    advantages = ((groups - groups.mean(1, keepdims=True)) / (groups.std(1, keepdims=True) + 1e-4)).ravel()
    torch.testing.assert_close(
        part.r_N.double(), torch.from_numpy(np.clip(0.5 + advantages / 10, 0, 1)), atol=1e-6, rtol=0
    )

    trainer._backward(part)
    gradient = torch.cat(
        [parameter.grad.flatten() for parameter in trainer.forms.parameters() if parameter.grad is not None]
    )

    draw = torch.Generator().manual_seed(trainer._dice("noise").getrandbits(62))
    levels = part.levels[torch.rand(16, 6, generator=draw).argsort(dim=1)]
    trainer.forms.zero_grad()
    conditions = {name: value.detach()[part.prompt_N] for name, value in part.conditions.items()}
    for at in range(6):
        t, x_0 = levels[:, at, None, None], part.latents
        x_t = (1 - t) * x_0 + t * torch.randn(x_0.shape, generator=draw)
        predicted = x_t - t * trainer.generator.velocity(x_t, levels[:, at], conditions)
        old = predicted.detach()
        positive, negative = predicted - x_0, 2 * old - predicted - x_0
        errors = [
            error.square().mean(dim=(1, 2)) / error.detach().abs().mean(dim=(1, 2)).clamp(min=1e-5)
            for error in (positive, negative)
        ]
        (5 * (part.r_N * errors[0] + (1 - part.r_N) * errors[1]).mean() / 6).backward()
    direct = torch.cat(
        [parameter.grad.flatten() for parameter in trainer.forms.parameters() if parameter.grad is not None]
    )
    torch.testing.assert_close(gradient, direct, rtol=1e-3, atol=1e-5 * direct.abs().max().item())


@pytest.mark.parametrize("lora", [None, ADAPTERS])
def test_sampling_policy_follows_by_the_schedule(flow, tmp_path, lora):
    decays = [nft_config(decay_rate=0.3, decay_cap=0.5, decay_start=1).decay_at(step) for step in (1, 2, 3, 9)]
    assert decays == pytest.approx([0.0, 0.3, 0.5, 0.5])
    trainer = trainer_of(flow, tmp_path, nft_config(steps=1, lora=lora, **FEW))
    start = {name: weight.clone() for name, weight in trainer.forms.tensors().items()}
    for parameter in trainer.forms.parameters():
        if parameter.requires_grad:
            nn.init.ones_(parameter)
    trainer.forms.blend(0.25)
    for name, weight in trainer.forms.tensors().items():
        if name.startswith("old/"):
            torch.testing.assert_close(weight, 0.25 * start[name] + 0.75)


def test_saved_weights_are_the_moving_average_of_the_trained_ones(flow, tmp_path):
    config = nft_config(steps=4, **{**FEW, "learning_rate": 1e-2, "save_every": 1})
    assert (config.ema_decay, config.optimizer.weight_decay) == (0.9, 1e-4)
    result = train(flow, tmp_path, config)
    checkpoint = load_file(tmp_path / "checkpoint-4" / "forms.safetensors")
    saved_weights = load_file(result.model_dir / "transformer/diffusion_pytorch_model.safetensors")
    assert all(weight.equal(checkpoint[f"average/{name}"]) for name, weight in saved_weights.items())
    assert any(not weight.equal(checkpoint[f"default/{name}"]) for name, weight in saved_weights.items())
    last = train(flow, tmp_path / "last", config.model_copy(update={"ema_decay": None}))
    last_weights = load_file(last.model_dir / "transformer/diffusion_pytorch_model.safetensors")
    assert all(weight.equal(checkpoint[f"default/{name}"]) for name, weight in last_weights.items())


@pytest.mark.parametrize("lora", [None, ADAPTERS])
def test_average_follows_its_recurrence_and_goes_on_from_a_checkpoint(flow, lora):
    forms, resumed = (VelocityForms(PixelFlow.load(flow), lora, keep_initial=False, ema_decay=0.25) for _ in range(2))
    trained = next(parameter for parameter in forms.parameters() if parameter.requires_grad)
    name = next(name for name, weight in forms.tensors().items() if weight.data_ptr() == trained.data_ptr())
    average = name.replace("default/", "average/")
    expected = trained.detach().double().clone()
    for step in range(1, 6):
        if step == 4:
            resumed.restore(forms.tensors())
            forms = resumed
            trained = forms.tensors()[name]
        torch.manual_seed(step)
        with torch.no_grad():
            trained.copy_(torch.randn_like(trained))
        forms.update_average(step)
        decay = 0.0 if step == 1 else min(step / (9 + step), 0.25)  # EMAModel's warm-up
        expected = decay * expected + (1 - decay) * trained.double()
        torch.testing.assert_close(forms.tensors()[average].double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("lora", [None, ADAPTERS])
def test_training_that_is_killed_ends_with_the_same_weights(flow, tmp_path, lora):
    config = nft_config(steps=5, lora=lora, **{**FEW, "save_every": 2, "kl_weight": 0.01})
    whole = train(flow, tmp_path / "whole", config)

    class Killed(Exception):
        pass

    def kill(step):
        if step.step == 4:
            raise Killed

    with pytest.raises(Killed):
        train(flow, tmp_path / "killed", config, on_step=kill)
    resumed = train(flow, tmp_path / "killed", config)
    name = "transformer/diffusion_pytorch_model.safetensors"
    first, second, start = (load_file(path / name) for path in (whole.model_dir, resumed.model_dir, flow))
    assert all(first[name].equal(second[name]) for name in first)
    assert any(not first[name].equal(start[name]) for name in first)
    assert [step.reward for step in resumed.history] == [step.reward for step in whole.history]


def test_training_with_bfloat16_arithmetic_saves_a_bfloat16_transformer(flow, tmp_path, monkeypatch):
    monkeypatch.setattr(diffusion_policy, "check_precision", lambda optimizer: None)  # it asks for a GPU
    result = train(flow, tmp_path, nft_config(steps=1, precision="bfloat16", **{**FEW, "group_size": 2}))
    weights = load_file(result.model_dir / "transformer/diffusion_pytorch_model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}


def test_a_generator_is_written_as_the_same_files_wherever_it_was_read_from(flow, tmp_path):
    elsewhere = shutil.copytree(flow, tmp_path / "elsewhere")
    first, second = (PixelFlow.load(place).save(tmp_path / name) for place, name in ((flow, "a"), (elsewhere, "b")))
    names = [path.relative_to(first) for path in sorted(first.rglob("*")) if path.is_file()]
    assert Path("transformer/config.json") in names
    assert [name for name in names if (first / name).read_bytes() != (second / name).read_bytes()] == []


TRAINED_BY_ANOTHER_PROCESS = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_diffusion_policy import FEW, nft_config, train
config = nft_config(steps=6, **{**FEW, "save_every": 2})
train(Path(sys.argv[1]), Path(sys.argv[2]), config)
"""


@pytest.mark.long
def test_training_that_is_killed_by_sigkill_ends_with_the_same_weights(flow, tmp_path):
    here = Path(__file__).parent

    def start(out):
        places = [str(flow), str(out), str(here), *SUPPORT_PATHS]
        return subprocess.Popen([sys.executable, "-c", TRAINED_BY_ANOTHER_PROCESS, *places])

    killed = start(tmp_path / "killed")
    while not saved("killed/checkpoint-2")(tmp_path):
        assert killed.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    assert not (tmp_path / "killed" / "model").exists()
    assert start(tmp_path / "killed").wait() == 0
    whole = train(flow, tmp_path / "whole", nft_config(steps=6, **{**FEW, "save_every": 2}))
    name = "transformer/diffusion_pytorch_model.safetensors"
    first, second = (load_file(path / name) for path in (whole.model_dir, tmp_path / "killed" / "model"))
    assert all(first[name].equal(second[name]) for name in first)


def test_rollouts_that_could_not_be_judged_or_were_not_kept_are_left_out(flow, tmp_path):
    async def partly(prompts, completions, **columns):
        return [None if at % 4 == 0 else at / 16 for at in range(len(completions))]

    steps = []
    config = nft_config(steps=1, selection=SelectionOptions(keep=4, strategy="vanilla"), **FEW)
    trainer = trainer_of(flow, tmp_path, config, on_rollouts=steps.append, reward=partly)
    (part,) = trainer._draw(ROWS[:2])
    assert [row for row, value in enumerate(steps[0].advantages) if value is not None] == [1, 2, 3, 5, 9, 10, 11, 13]
    assert part.prompt_N.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert len(steps[0].rewards) == 16


def test_prompts_without_a_signal_give_way_to_others_and_stay_in_the_tables(flow, tmp_path):
    """Of four prompts two are always solved: a step of two draws until it has the others, by rewards or by passes."""

    async def solved(prompts, completions, sample_id, **columns):
        return [1.0 if name in ("s0", "s2") else at % 2 / 2 for at, name in enumerate(sample_id)]

    steps = []
    config = nft_config(steps=1, refill=RefillOptions(rounds=2), **FEW)
    trainer = trainer_of(flow, tmp_path, config, on_rollouts=steps.append, reward=solved)
    (part,) = trainer._draw(ROWS[:2])
    (step,) = steps
    drawn = [step.sample_ids[at] for at in range(0, len(step.sample_ids), 8)]
    assert drawn[:2] == ["s0", "s1"]
    assert sorted(drawn[2:]) in (["s3"], ["s2", "s3"])
    trained = {step.sample_ids[row] for row, value in enumerate(step.advantages) if value is not None}
    assert trained == {"s1", "s3"}
    assert {drawn[at] for at in part.prompt_N.tolist()} == {"s1", "s3"}
    assert len(part.latents) == 16

    async def passes(prompts, completions, sample_id, log_extra, **columns):
        log_extra("passes", [name == "s0" or at % 2 == 0 for at, name in enumerate(sample_id)])
        return [at / 100 for at in range(len(completions))]

    passes.criterion = "object_count"
    config = nft_config(steps=1, refill=RefillOptions(rounds=1, criterion="object_count"), **FEW)
    trainer = trainer_of(flow, tmp_path / "named", config, on_rollouts=steps.append, reward=passes)
    trainer._draw(ROWS[:2])
    assert {name for name, value in zip(steps[-1].sample_ids, steps[-1].advantages, strict=True) if value is None} == {
        "s0"
    }
    with pytest.raises(UserError, match=r"policy\.algorithm\.refill\.criterion object_count"):
        trainer_of(flow, tmp_path / "unnamed", config)


def test_supervised_peer_learns_the_pictures_that_it_is_shown_and_resumes(flow, tmp_path):
    """Blue squares for the prompt of a red circle: what it draws turns blue."""
    blue = np.full((32, 36, 36, 3), 236, dtype=np.uint8)
    blue[:, 13:23, 13:23] = (30, 80, 230)
    targets = FlowPeer(PixelFlow.load(flow), 1.0).encode(blue)

    def fit(out):
        config = sft_config(steps=12, batch_size=16, learning_rate=1e-3, save_every=4)
        peer = FlowPeer(PixelFlow.load(flow), 1.0)
        return peer.train(["a red circle"] * 32, targets, out, config, seed=0, checkpoint=open_run(out, "blue"))

    whole = fit(tmp_path / "whole")
    before, after = (
        np.mean([blueness(image.astype(float)) for image in PixelFlow.load(trained).generate(["a red circle"] * 40)])
        for trained in (flow, whole)
    )
    assert before < 0 < after
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    shutil.rmtree(tmp_path / "again" / "model")
    shutil.rmtree(tmp_path / "again" / "checkpoint-12")
    name = "transformer/diffusion_pytorch_model.safetensors"
    first, second = (load_file(trained / name) for trained in (whole, fit(tmp_path / "again")))
    assert all(first[name].equal(second[name]) for name in first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts_per_step": 5}, "4 prompts with a rubric"),
        ({"lora": LoraOptions(targets=("nowhere",))}, "policy.algorithm.optimizer.lora"),
    ],
)
def test_what_cannot_be_trained_is_said_before_the_first_step(flow, tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        train(flow, tmp_path, nft_config(steps=1, **{**FEW, **change}))


def test_one_process_that_sees_two_gpus_is_refused(flow, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match="one process sees 2 GPUs"):
        train(flow, tmp_path, nft_config(steps=1, **FEW))


def test_generator_draws_its_own_size_alone(flow):
    with pytest.raises(UserError, match=r"sampling\.side is 64"):
        load_image_generator(flow, ImageSampling(side=64))
    assert load_image_generator(flow, ImageSampling(steps=2)).generate(["a red circle"])[0].shape == (36, 36, 3)


def test_pretraining_that_is_killed_ends_with_the_same_weights(tmp_path, monkeypatch):
    captions, images = captioned_pictures(64)
    config = TinyFlowConfig(**{**TINY_FLOW.model_dump(), "steps": 6, "save_every": 2, "batch_size": 8})

    class Killed(Exception):
        pass

    whole = pretrain_tiny_flow(captions, images, tmp_path / "whole", config, seed=1)
    encode, calls = PixelFlow.encode_prompts, []

    def killed_at_the_fifth_step(self, prompts):
        calls.append(prompts)
        if len(calls) == 5:
            raise Killed
        return encode(self, prompts)

    with monkeypatch.context() as patch:
        patch.setattr(PixelFlow, "encode_prompts", killed_at_the_fifth_step)
        with pytest.raises(Killed):
            pretrain_tiny_flow(captions, images, tmp_path / "killed", config, seed=1)
    assert (tmp_path / "killed" / "checkpoint-4").is_dir()
    resumed = pretrain_tiny_flow(captions, images, tmp_path / "killed", config, seed=1)
    for name in ("transformer/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors"):
        first, second = (load_file(path / name) for path in (whole, resumed))
        assert all(first[name].equal(second[name]) for name in first)


def test_pictures_are_encoded_without_loss(flow):
    generator = PixelFlow.load(flow)
    _, images = captioned_pictures(3)
    assert np.array_equal(pixels_of(generator.decode(generator.encode(images))), images)


def test_generator_of_codes_is_read_again_and_trained(tmp_path):
    captions, images = captioned_pictures(64)
    config = TINY_FLOW.model_copy(update={"latent": 2, "steps": 4})
    model = pretrain_tiny_flow(captions, images, tmp_path / "flow", config, seed=1)
    generator = PixelFlow.load(model)
    codes = generator.encode(images)
    assert codes.shape == (64, 9, 2)
    assert np.array_equal(pixels_of(generator.decode(codes)), images)  # a red or a blue circle: two components
    trained = train(model, tmp_path / "run", nft_config(steps=1, **FEW)).model_dir
    assert load_image_generator(trained).generate(["a red circle"], seed=2)[0].shape == (36, 36, 3)
    (model / "patches.safetensors").unlink()
    with pytest.raises(UserError, match="cannot load the generator"):
        PixelFlow.load(model)
