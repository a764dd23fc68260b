"""Credits corrected for a judge's known error rates, so that their expectation is the true credit.

A judge credits an unmet criterion with probability fp and misses a met one with probability fn. Then E[(y - fp) / (1 -
fp - fn)] is the true credit (Natarajan et al., Learning with Noisy Labels, 2013, lemma 1; for rewards of RL: Wang, Liu
and Li, Reinforcement Learning with Perturbed Rewards, 2020). Corrected credits lie outside [0, 1], on purpose.

With one pair of rates for all criteria the reward changes by the same shift and factor for every response, which
group-normalised advantages do not see; it is the level of rewards that is mended. Rates that differ between criteria
change the reward: a criterion that the judge cannot recognise counts little before the correction and fully after it.
"""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field, model_validator


class NoiseRates(BaseModel):
    """Error rates of a judge, as `rubricworks agreement` measures them."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    false_positive: float = Field(ge=0, lt=1)
    """Share of unmet criteria that the judge credits."""
    false_negative: float = Field(ge=0, lt=1)
    """Share of met criteria that the judge does not credit."""

    @model_validator(mode="after")
    def _better_than_chance(self) -> "NoiseRates":
        if self.false_positive + self.false_negative >= 1:
            raise ValueError(
                f"false_positive {self.false_positive:g} and false_negative {self.false_negative:g} add up to 1 or "
                "more: such verdicts say nothing; take another judge"
            )
        return self


def corrected_credit(credit: float, rates: NoiseRates) -> float:
    """Unbiased estimate of the true credit."""
    return (credit - rates.false_positive) / (1 - rates.false_positive - rates.false_negative)


def noise_corrected_reward(
    credits: Sequence[float | None], weights: Sequence[float], rates: NoiseRates | Mapping[float, NoiseRates]
) -> float | None:
    """Reward from corrected credits: their weighted sum over the sum of the positive weights; None if any credit is
    None.

    Args:
        rates: of all criteria, or by weight, for judges that err more on some severities than on others.
    Raises:
        ValueError: there is no positive weight, or no rate for one of the weights.
    """
    total = sum(weight for weight in weights if weight > 0)
    if not total:
        raise ValueError("no weight is positive, so that nothing can be earned")
    reward = 0.0
    for credit, weight in zip(credits, weights, strict=True):
        if credit is None:
            return None
        if isinstance(rates, Mapping) and weight not in rates:
            raise ValueError(
                f"no error rates for the weight {weight:g}; there are {', '.join(map(str, sorted(rates)))}"
            )
        reward += weight * corrected_credit(credit, rates[weight] if isinstance(rates, Mapping) else rates)
    return reward / total
