"""DiffusionNFT: policy optimisation of a flow model on its forward process, by a better and a worse self.

A rollout's advantage becomes the probability r that it is optimal. The trained velocity and the one that drew the
rollouts are mixed into an implicit positive v+ and an implicit negative v-, and both are fitted to the rollout, v+ by
r and v- by 1 - r. Source: DiffusionNFT (arXiv 2509.16117), as RubricRL uses it (appendix 0.A.4, equations 8-10); the
x0 form with its weights is that of the authors' code, NVlabs/DiffusionNFT.
"""

from typing import Literal

import torch
from torch import Tensor

Form = Literal["x0", "velocity"]
"""What is compared with the rollout: the clean image that a velocity predicts, or the velocity itself (equation 10)."""

_LEAST_WEIGHT = 1e-5


def optimality_probability(advantages_N: Tensor, clip: float = 5.0) -> Tensor:
    """r = 1/2 + clip(A / clip, -1, 1) / 2, in [0, 1]: 1/2 for a rollout like its siblings.

    Args:
        advantages_N: (reward - mean) / (std + 1e-4) within each prompt.
        clip: the advantage that is certain to be optimal, above 0; RubricRL's Z.
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
    """The total loss, a scalar; its gradient reaches `v_theta` alone. Half precision is widened to 32 bits.

    With v+ = (1 - beta) v_old + beta v_theta and v- = (1 + beta) v_old - beta v_theta it is the mean over the batch of

    - x0: scale * (r L+ + (1 - r) L-) / beta, L = mean((x_t - t v - x_0)^2) / w, where w is the mean of
      |x_t - t v - x_0|, at least 1e-5, and takes no gradient;
    - velocity: r mean((v+ - v)^2) + (1 - r) mean((v- - v)^2), with the velocity v = (x_t - x_0) / t that leads from the
      noisy image to the clean one, and without scale and 1/beta, as equation 10 has it;

    plus kl_weight * mean((v_theta - v_ref)^2).

    Args:
        v_theta, v_old, v_ref: velocities at (x_t, t) of the trained, the sampling and the initial model, [B, ...].
        x_t, x_0: the noisy and the clean images, [B, ...].
        t: noise levels, [B]; above 0 in the velocity form.
        r: optimality probabilities, [B].
        beta: how far v+ and v- lie from v_old, above 0.
        scale: of the x0 form; the reference code takes `optimality_probability`'s clip.
    Raises:
        ValueError: shapes differ, r lies outside [0, 1], or beta, kl_weight, scale, form or t is out of range.
    """
    _check(v_theta, {"v_old": v_old, "v_ref": v_ref, "x_t": x_t, "x_0": x_0}, {"t": t, "r": r})
    if not (beta > 0 and scale > 0 and kl_weight >= 0):
        raise ValueError(f"beta {beta} and scale {scale} must be above 0 and kl_weight {kl_weight} at least 0")
    if not ((r >= 0) & (r <= 1)).all():
        raise ValueError(f"r holds {r.tolist()}; an optimality probability lies between 0 and 1")
    v_theta, v_old, v_ref, x_t, x_0, t, r = (_wide(tensor) for tensor in (v_theta, v_old, v_ref, x_t, x_0, t, r))
    v_old, v_ref = v_old.detach(), v_ref.detach()
    better, worse = (1 - beta) * v_old + beta * v_theta, (1 + beta) * v_old - beta * v_theta
    t = t.reshape(-1, *[1] * (v_theta.ndim - 1))
    if form == "x0":
        of_better, of_worse = (_weighted_square(x_t - t * v - x_0) for v in (better, worse))
        fit = scale / beta * (r * of_better + (1 - r) * of_worse).mean()
    elif form == "velocity":
        if not (t > 0).all():
            raise ValueError(f"t holds {t.flatten().tolist()}; the velocity form needs noise levels above 0")
        target = (x_t - x_0) / t
        of_better, of_worse = (_mean((v - target).square()) for v in (better, worse))
        fit = (r * of_better + (1 - r) * of_worse).mean()
    else:
        raise ValueError(f"form is {form!r}; choose x0 or velocity")
    return fit + kl_weight * _mean((v_theta - v_ref).square()).mean()


def _weighted_square(error: Tensor) -> Tensor:
    return _mean(error.square()) / _mean(error.detach().abs()).clamp(min=_LEAST_WEIGHT)


def _mean(values: Tensor) -> Tensor:
    """Over all but the batch."""
    return values.flatten(start_dim=1).mean(dim=1)


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _check(v_theta: Tensor, images: dict[str, Tensor], numbers: dict[str, Tensor]) -> None:
    if v_theta.ndim < 2 or not v_theta.numel():
        raise ValueError(f"v_theta has shape {tuple(v_theta.shape)}; give a batch of at least one, [B, ...]")
    for shape, tensors in ((v_theta.shape, images), (v_theta.shape[:1], numbers)):
        for name, tensor in tensors.items():
            if tensor.shape != shape:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}, not {tuple(shape)} as v_theta asks")
