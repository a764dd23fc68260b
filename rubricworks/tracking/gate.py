"""The gate: what a model's evaluation must show before it is promoted. Pure: a summary in, an answer out."""

import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class GateResult(BaseModel):
    """Whether a model passed, and one sentence per rule."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    passed: bool
    reasons: tuple[str, ...]


class Gate(BaseModel):
    """Rules over a run's summary; None switches a rule off. What was not measured does not pass."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    win_rate_low_above: float | None = Field(default=0.5, ge=0, le=1)
    """The win rate's interval against the base starts above this."""
    oracle_f1_gain_at_least: float | None = Field(default=None, ge=-1, le=1)
    """The oracle's F1, policy minus base; only where an oracle knows the truth."""
    rubric_reward_gain_at_least: float | None = Field(default=None, ge=-1, le=1)
    """The rubric reward, policy minus base. Alone it is what a policy learns to game."""

    accuracy_gain_low_above: float | None = Field(default=None, ge=-1, le=1)
    """The interval of the macro average's gain over the base starts above this; for runs that answer questions."""
    b_capscore_gain_low_above: float | None = Field(default=None, ge=-1, le=1, exclude_if=lambda bound: bound is None)
    """The interval of b-CapScore's gain over the base starts above this; for runs that balance captions."""

    def check(self, summary: Mapping[str, Any]) -> GateResult:
        """Hold the rules against {"win_rate": {"low", …}, "oracle_f1": {"base", "policy"}, "rubric_reward": {…},
        "accuracy_gain": {"low", …}, "b_capscore_gain": {"low", …}}."""
        findings: list[tuple[bool, str]] = []
        for what, name, bound in (
            ("win rate", "win_rate", self.win_rate_low_above),
            ("accuracy gain", "accuracy_gain", self.accuracy_gain_low_above),
            ("b-CapScore gain", "b_capscore_gain", self.b_capscore_gain_low_above),
        ):
            if bound is not None:
                findings.append(_finding(f"{what}, low end", _number(summary, name, "low"), "above", bound))
        for name, least in (
            ("oracle_f1", self.oracle_f1_gain_at_least),
            ("rubric_reward", self.rubric_reward_gain_at_least),
        ):
            if least is not None:
                base, policy = _number(summary, name, "base"), _number(summary, name, "policy")
                gain = None if base is None or policy is None else policy - base
                findings.append(_finding(f"{name.replace('_', ' ')}, gain over the base", gain, "at least", least))
        return GateResult(passed=all(met for met, _ in findings), reasons=tuple(text for _, text in findings))


def _finding(what: str, found: float | None, relation: str, bound: float) -> tuple[bool, str]:
    if found is None:
        return False, f"{what}: not measured, must be {relation} {bound:g}"
    # A gain of exactly the bound must pass although 0.7 - 0.6 < 0.1 in binary.
    met = found > bound if relation == "above" else found >= bound - 1e-9
    return met, f"{what}: {found:.3f}, {'is' if met else 'must be'} {relation} {bound:g}"


def _number(summary: Mapping[str, Any], name: str, part: str) -> float | None:
    """A plain number, or the value of an interval."""
    entry = summary.get(name)
    value = entry.get(part) if isinstance(entry, Mapping) else None
    if isinstance(value, Mapping):
        value = value.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
