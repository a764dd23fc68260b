"""Promotion gate: rules that a model's evaluation must meet. Pure: a summary in, a result out."""

import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class GateResult(BaseModel):
    """Result of the gate, with one sentence per rule."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    passed: bool
    reasons: tuple[str, ...]


class Gate(BaseModel):
    """Rules over a run's summary; None switches a rule off. A figure that was not measured does not pass."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    win_rate_low_above: float | None = Field(default=0.5, ge=0, le=1)
    """Bound that the lower end of the win rate's interval against the base must exceed."""
    oracle_f1_gain_at_least: float | None = Field(default=None, ge=-1, le=1)
    """Smallest gain in the oracle's F1, policy minus base; only for data with a known truth."""
    rubric_reward_gain_at_least: float | None = Field(default=None, ge=-1, le=1)
    """Smallest gain in the rubric reward, policy minus base; a policy learns to game it, so do not use it alone."""

    accuracy_gain_low_above: float | None = Field(default=None, ge=-1, le=1)
    """Bound for the lower end of the macro average's gain over the base; for runs that answer questions."""
    b_capscore_gain_low_above: float | None = Field(default=None, ge=-1, le=1, exclude_if=lambda bound: bound is None)
    """Bound for the lower end of b-CapScore's gain over the base; for BalCapRL runs."""

    def check(self, summary: Mapping[str, Any]) -> GateResult:
        """Apply the rules.

        Args:
            summary: {"win_rate": {"low", …}, "oracle_f1": {"base", "policy"}, "rubric_reward": {…},
                "accuracy_gain": {"low", …}, "b_capscore_gain": {"low", …}}.
        """
        findings: list[tuple[bool, str]] = []
        for label, name, bound in (
            ("win rate", "win_rate", self.win_rate_low_above),
            ("accuracy gain", "accuracy_gain", self.accuracy_gain_low_above),
            ("b-CapScore gain", "b_capscore_gain", self.b_capscore_gain_low_above),
        ):
            if bound is not None:
                findings.append(_finding(f"{label}, low end", _number(summary, name, "low"), "above", bound))
        for name, minimum in (
            ("oracle_f1", self.oracle_f1_gain_at_least),
            ("rubric_reward", self.rubric_reward_gain_at_least),
        ):
            if minimum is not None:
                base, policy = _number(summary, name, "base"), _number(summary, name, "policy")
                gain = None if base is None or policy is None else policy - base
                findings.append(_finding(f"{name.replace('_', ' ')}, gain over the base", gain, "at least", minimum))
        return GateResult(passed=all(met for met, _ in findings), reasons=tuple(text for _, text in findings))


def _finding(label: str, value: float | None, relation: str, bound: float) -> tuple[bool, str]:
    """Return whether the rule is met, and the sentence that says so."""
    if value is None:
        return False, f"{label}: not measured, must be {relation} {bound:g}"
    # A gain of exactly the bound must pass although 0.7 - 0.6 < 0.1 in binary.
    met = value > bound if relation == "above" else value >= bound - 1e-9
    return met, f"{label}: {value:.3f}, {'is' if met else 'must be'} {relation} {bound:g}"


def _number(summary: Mapping[str, Any], name: str, part: str) -> float | None:
    """Return a plain number, or the value of an interval; None if there is none."""
    entry = summary.get(name)
    value = entry.get(part) if isinstance(entry, Mapping) else None
    if isinstance(value, Mapping):
        value = value.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
