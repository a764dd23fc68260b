"""DiffusionNFT's probability and loss against closed forms; the authors' own numbers are in tests/conformance."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rl import diffusion_nft_loss, optimality_probability


@pytest.mark.parametrize(
    ("advantage", "probability"), [(0, 0.5), (5, 1), (-5, 0), (50, 1), (-math.inf, 0), (2.5, 0.75), (-1, 0.4)]
)
def test_an_advantage_becomes_a_probability(advantage, probability):
    assert optimality_probability(torch.tensor([float(advantage)])).item() == pytest.approx(probability)


@given(st.floats(-20, 20), st.floats(0.1, 20))
def test_a_probability_and_that_of_the_opposite_advantage_make_1(advantage, clip):
    both = optimality_probability(torch.tensor([advantage, -advantage], dtype=torch.float64), clip)
    assert both.sum().item() == pytest.approx(1)
    assert both[0].item() == pytest.approx(0.5 + 0.5 * max(-1, min(1, advantage / clip)))


def step(seed=0, batch=4, shape=(3, 2), dtype=torch.float64, **changed):
    """One batch's arguments: a noisy image on the straight path from x_0, velocities near the true one."""
    generator = torch.Generator().manual_seed(seed)

    def normal():
        return torch.randn(batch, *shape, generator=generator, dtype=dtype)

    x_0, noise = normal(), normal()
    t = torch.rand(batch, generator=generator, dtype=dtype) * 0.9 + 0.1
    t_wide = t.view(-1, *[1] * len(shape))
    arguments = {
        "v_theta": (noise - x_0 + normal()).requires_grad_(),
        "v_old": noise - x_0 + normal(),
        "v_ref": noise - x_0 + normal(),
        "x_t": (1 - t_wide) * x_0 + t_wide * noise,
        "x_0": x_0,
        "t": t,
        "r": torch.rand(batch, generator=generator, dtype=dtype),
        "beta": 0.3,
        "kl_weight": 0.0,
    }
    return arguments | changed


def true_velocity(arguments):
    return (arguments["x_t"] - arguments["x_0"]) / arguments["t"].view(-1, 1, 1)


def test_velocity_form_is_equation_10():
    arguments = step()
    v_theta, v_old, v = arguments["v_theta"], arguments["v_old"], true_velocity(arguments)
    expected = 0.0
    for row in range(4):
        better = 0.7 * v_old[row] + 0.3 * v_theta[row]
        worse = 1.3 * v_old[row] - 0.3 * v_theta[row]
        r = arguments["r"][row].item()
        expected += r * ((better - v[row]) ** 2).mean().item() + (1 - r) * ((worse - v[row]) ** 2).mean().item()
    assert diffusion_nft_loss(**arguments, form="velocity").item() == pytest.approx(expected / 4)


def test_a_surely_optimal_rollout_with_beta_1_is_plain_flow_matching():
    arguments = step(r=torch.ones(4), beta=1.0)
    expected = (arguments["v_theta"] - true_velocity(arguments)).square().mean()
    assert diffusion_nft_loss(**arguments, form="velocity").item() == pytest.approx(expected.item())


def test_x0_form_is_the_velocity_form_weighted_by_noise_level_and_error():
    arguments = step(batch=1)
    v_theta, v_old, v = arguments["v_theta"].detach(), arguments["v_old"], true_velocity(arguments)
    t, r = arguments["t"].item(), arguments["r"].item()
    errors = (0.7 * v_old + 0.3 * v_theta - v, 1.3 * v_old - 0.3 * v_theta - v)
    better, worse = (t * error.square().mean() / error.abs().mean() for error in errors)
    expected = 5.0 / 0.3 * (r * better + (1 - r) * worse)
    assert diffusion_nft_loss(**arguments).item() == pytest.approx(expected.item())


@pytest.mark.parametrize("form", ["x0", "velocity"])
@pytest.mark.parametrize(("r", "towards"), [(1.0, 1), (0.0, -1)])
def test_the_step_goes_towards_an_optimal_rollout_and_away_from_the_opposite(form, r, towards):
    arguments = step(r=torch.full((4,), r))
    arguments["v_old"] = arguments["v_theta"].detach().clone()  # on policy
    diffusion_nft_loss(**arguments, form=form).backward()
    v_theta, downhill = arguments["v_theta"].detach(), -arguments["v_theta"].grad
    assert ((true_velocity(arguments) - v_theta) * downhill).sum().sign() == towards


@pytest.mark.parametrize("form", ["x0", "velocity"])
def test_an_on_policy_rollout_like_its_siblings_teaches_nothing(form):
    arguments = step(r=torch.full((4,), 0.5))
    arguments["v_old"] = arguments["v_theta"].detach().clone()
    diffusion_nft_loss(**arguments, form=form).backward()
    assert arguments["v_theta"].grad.abs().max() < 1e-12


def test_weights_of_the_x0_form_take_no_gradient():
    arguments = step()
    diffusion_nft_loss(**arguments).backward()
    gradient = arguments["v_theta"].grad.clone()
    t = arguments["t"].view(-1, 1, 1)
    expected = torch.zeros_like(gradient)
    for share, sign in ((arguments["r"], 1), (1 - arguments["r"], -1)):
        v = arguments["v_old"] + sign * 0.3 * (arguments["v_theta"].detach() - arguments["v_old"])
        error = arguments["x_t"] - t * v - arguments["x_0"]
        weight = error.abs().mean(dim=(1, 2), keepdim=True)
        expected += share.view(-1, 1, 1) * 2 * error * -t * sign / weight / 6
    torch.testing.assert_close(gradient, 5.0 * expected / 4)


def test_a_perfect_prediction_is_weighted_by_the_least_weight_and_not_by_0():
    arguments = step(r=torch.ones(4))
    arguments["v_theta"] = arguments["v_old"] = true_velocity(arguments)
    assert diffusion_nft_loss(**arguments).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("form", ["x0", "velocity"])
def test_the_pull_to_the_initial_model_is_added_to_the_whole(form):
    arguments = step()
    without = diffusion_nft_loss(**arguments, form=form)
    pulled = diffusion_nft_loss(**arguments | {"kl_weight": 0.2}, form=form)
    distance = (arguments["v_theta"] - arguments["v_ref"]).square().mean()
    assert (pulled - without).item() == pytest.approx(0.2 * distance.item())


def test_only_the_trained_velocity_gets_a_gradient():
    arguments = step(kl_weight=0.1)
    for name in ("v_old", "v_ref"):
        arguments[name].requires_grad_()
    diffusion_nft_loss(**arguments).backward()
    assert arguments["v_theta"].grad is not None
    assert arguments["v_old"].grad is None
    assert arguments["v_ref"].grad is None


def test_half_precision_is_widened():
    exact = diffusion_nft_loss(**step(dtype=torch.float32))
    half = {
        name: value.detach().bfloat16() if torch.is_tensor(value) else value
        for name, value in step(dtype=torch.float32).items()
    }
    loss = diffusion_nft_loss(**half)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=0.05)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x_0": torch.zeros(4, 3)}, "x_0 has shape"),
        ({"v_ref": torch.zeros(4, 3, 1)}, "v_ref has shape"),
        ({"t": torch.ones(4, 1)}, "t has shape"),
        ({"r": torch.ones(3)}, "r has shape"),
        ({"r": torch.tensor([0.1, 0.2, 1.2, 0.3])}, "between 0 and 1"),
        ({"r": torch.tensor([0.1, 0.2, math.nan, 0.3])}, "between 0 and 1"),
        ({"beta": 0.0}, "beta"),
        ({"kl_weight": -1.0}, "kl_weight"),
        ({"scale": 0.0}, "scale"),
        ({"form": "x1"}, "x0 or velocity"),
        ({"form": "velocity", "t": torch.tensor([0.5, 0.0, 1.0, 1.0])}, "above 0"),
    ],
)
def test_what_makes_no_loss_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        diffusion_nft_loss(**step() | changed)


def test_what_makes_no_probability_is_refused():
    with pytest.raises(ValueError, match="advantage 1 is NaN"):
        optimality_probability(torch.tensor([0.0, math.nan]))
    with pytest.raises(ValueError, match="clip"):
        optimality_probability(torch.zeros(2), clip=0.0)
