"""DiffusionNFT: policy optimisation of a flow model on its forward process.

A rollout's advantage is mapped to the probability r that it is optimal. The trained velocity and the sampling velocity
are mixed into an implicit positive policy v+ and an implicit negative policy v-; both are fitted to the rollout, v+
with weight r and v- with weight 1 - r. Source: DiffusionNFT (arXiv 2509.16117), as used by RubricRL (appendix 0.A.4,
equations 8-10); the x0 form with its weights follows the authors' code, NVlabs/DiffusionNFT.
"""

from typing import Literal

import torch
from torch import Tensor

Form = Literal["x0", "velocity"]
"""Target of the loss: the clean image that a velocity predicts, or the velocity itself (equation 10)."""

_MIN_WEIGHT = 1e-5


def optimality_probability(advantages_N: Tensor, clip: float = 5.0) -> Tensor:
    """Compute r = 1/2 + clip(A / clip, -1, 1) / 2, in [0, 1]: 1/2 for an average rollout.

    Args:
        advantages_N: (reward - mean) / (std + 1e-4) within each prompt.
        clip: advantage at which r reaches 1, above 0; Z in RubricRL.
    Raises:
        ValueError: clip is not positive, or an advantage is NaN: drop rollouts that could not be judged.
    """
    if not clip > 0:
        raise ValueError(f"clip is {clip}; it is above 0")
    if advantages_N.isnan().any():
        raise ValueError(f"advantage {int(advantages_N.isnan().nonzero()[0, 0])} is NaN; drop what could not be judged")
    return (0.5 + 0.5 * (advantages_N / clip).clamp(-1, 1)).clamp(0, 1)


def diffusion_nft_loss(
    *,
    v_theta: Tensor,
    v_old: Tensor,
    v_ref: Tensor,
    x_t: Tensor,
    x_0: Tensor,
    t: Tensor,
    r: Tensor,
    beta: float,
    kl_weight: float,
    scale: float = 5.0,
    form: Form = "x0",
) -> Tensor:
    """Compute the total loss, a scalar with a gradient for `v_theta` only. Half precision is promoted to float32.

    With v+ = (1 - beta) v_old + beta v_theta and v- = (1 + beta) v_old - beta v_theta it is the mean over the batch of

    - x0: scale * (r L+ + (1 - r) L-) / beta, L = mean((x_t - t v - x_0)^2) / w, where w is the mean of
      |x_t - t v - x_0|, at least 1e-5 and detached;
    - velocity: r mean((v+ - v)^2) + (1 - r) mean((v- - v)^2), with the velocity v = (x_t - x_0) / t from the noisy to
      the clean image, without scale and 1/beta, as in equation 10;

    plus kl_weight * mean((v_theta - v_ref)^2).

    Args:
        v_theta, v_old, v_ref: velocities at (x_t, t) of the trained, the sampling and the initial model, [B, ...].
        x_t, x_0: noisy and clean images, [B, ...].
        t: noise levels, [B]; above 0 in the velocity form.
        r: optimality probabilities, [B].
        beta: distance of v+ and v- from v_old, above 0.
        kl_weight: weight of the distance to `v_ref`, at least 0.
        scale: factor of the x0 form; the reference code uses `optimality_probability`'s clip.
        form: target of the loss, x0 or velocity.
    Raises:
        ValueError: shapes differ, r lies outside [0, 1], or beta, kl_weight, scale, form or t is out of range.
    """
    _check_arguments(v_theta, {"v_old": v_old, "v_ref": v_ref, "x_t": x_t, "x_0": x_0}, {"t": t, "r": r})
    if not (beta > 0 and scale > 0 and kl_weight >= 0):
        raise ValueError(f"beta {beta} and scale {scale} must be above 0 and kl_weight {kl_weight} at least 0")
    if not ((r >= 0) & (r <= 1)).all():
        raise ValueError(f"r holds {r.tolist()}; an optimality probability lies between 0 and 1")
    v_theta, v_old, v_ref, x_t, x_0, t, r = (
        _at_least_float32(tensor) for tensor in (v_theta, v_old, v_ref, x_t, x_0, t, r)
    )
    v_old, v_ref = v_old.detach(), v_ref.detach()
    v_positive, v_negative = (1 - beta) * v_old + beta * v_theta, (1 + beta) * v_old - beta * v_theta
    t = t.reshape(-1, *[1] * (v_theta.ndim - 1))
    if form == "x0":
        positive_error, negative_error = (_weighted_square(x_t - t * v - x_0) for v in (v_positive, v_negative))
        fit = scale / beta * (r * positive_error + (1 - r) * negative_error).mean()
    elif form == "velocity":
        if not (t > 0).all():
            raise ValueError(f"t holds {t.flatten().tolist()}; the velocity form needs noise levels above 0")
        target = (x_t - x_0) / t
        positive_error, negative_error = (_mean_per_sample((v - target).square()) for v in (v_positive, v_negative))
        fit = (r * positive_error + (1 - r) * negative_error).mean()
    else:
        raise ValueError(f"form is {form!r}; choose x0 or velocity")
    return fit + kl_weight * _mean_per_sample((v_theta - v_ref).square()).mean()


def _weighted_square(error: Tensor) -> Tensor:
    return _mean_per_sample(error.square()) / _mean_per_sample(error.detach().abs()).clamp(min=_MIN_WEIGHT)


def _mean_per_sample(values: Tensor) -> Tensor:
    """Mean over all dimensions but the batch."""
    return values.flatten(start_dim=1).mean(dim=1)


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _check_arguments(v_theta: Tensor, images: dict[str, Tensor], scalars: dict[str, Tensor]) -> None:
    if v_theta.ndim < 2 or not v_theta.numel():
        raise ValueError(f"v_theta has shape {tuple(v_theta.shape)}; give a batch of at least one, [B, ...]")
    for shape, tensors in ((v_theta.shape, images), (v_theta.shape[:1], scalars)):
        for name, tensor in tensors.items():
            if tensor.shape != shape:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}, not {tuple(shape)} as v_theta asks")
