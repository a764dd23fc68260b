"""Promotion gate: rules that a model's evaluation, the alarm of its training and its judge's audit must meet."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rubricworks.data.alarm import Alarm

_SAMPLES = 30
"""Of models that win half of their comparisons, the win rate's low end lies above 0.5 for 8 % with 4 samples, for 5 %
with 8, and for the 2.5 % that the interval promises from some 20 on.
"""

_Relation = Literal["above", "at least", "at most"]

AUDIT_FIGURE = "audit_false_positives"
"""Figure of `audit_false_positives_at_most`."""


FINDINGS_TAG = "gate_findings"
"""Tag of a registered version: what each rule of its gate found, as JSON."""


class GateFinding(BaseModel):
    """What one rule found."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    rule: str = Field(examples=["gain over champion"])
    met: bool = Field(examples=[True])
    value: float | None = Field(default=None, examples=[0.05])
    """End of the interval that the rule holds against its bound; None if it was not measured, or is no number."""
    samples: int | None = Field(default=None, examples=[256])
    relation: Literal["above", "at least", "at most", ""] = ""
    bound: float | None = Field(default=None, examples=[0.0])
    note: str = ""
    """What a number does not say."""

    @property
    def bound_text(self) -> str:
        """The bound in words."""
        return "" if self.bound is None else f"{self.relation} {self.bound:g}"


_FINDINGS = TypeAdapter(tuple[GateFinding, ...])


def to_findings(values: object) -> tuple[GateFinding, ...]:
    """Findings as they were stored."""
    return _FINDINGS.validate_python(values)


def read_findings(tags: Mapping[str, str]) -> tuple[GateFinding, ...]:
    """Findings among a version's tags; none for one that was registered before they were written, or cut off."""
    try:
        return _FINDINGS.validate_json(tags.get(FINDINGS_TAG, "[]"))
    except ValidationError:
        return ()


class GateResult(BaseModel):
    """Result of the gate, with one sentence per rule."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    passed: bool
    reasons: tuple[str, ...]
    findings: tuple[GateFinding, ...] = ()
    """The same by rule, without what was decided besides."""

    @property
    def tags(self) -> dict[str, str]:
        """Tags of a registered version that keep the result."""
        findings = _FINDINGS.dump_json(self.findings, exclude_defaults=True)
        return {"gate": "; ".join(self.reasons), FINDINGS_TAG: findings.decode()}


class Gate(BaseModel):
    """Rules over a run's summary; None switches a rule off. A figure that was not measured does not pass.

    Every rule holds the worse end of a 95 % interval against its bound, so that chance does not promote a model; below
    `samples_at_least` the interval itself cannot be trusted. That figures are of this model and these samples needs no
    rule here: a stage starts on inputs with digests alone, and a registered version without one is not promoted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    win_rate_low_above: float | None = Field(default=0.5, ge=0, le=1)
    """Bound that the lower end of the win rate's interval against the base must exceed."""
    oracle_f1_gain_at_least: float | None = Field(default=None, ge=-1, le=1)
    """Smallest gain in the oracle's F1, policy minus base, by its lower end; only for data with a known truth."""
    rubric_reward_gain_at_least: float | None = Field(default=None, ge=-1, le=1)
    """Smallest gain in the rubric reward, policy minus base, by its lower end; a policy learns to game it, so do not
    use it alone.
    """

    accuracy_gain_low_above: float | None = Field(default=None, ge=-1, le=1)
    """Bound for the lower end of the macro average's gain over the base; for runs that answer questions."""
    b_capscore_gain_low_above: float | None = Field(default=None, ge=-1, le=1)
    """Bound for the lower end of b-CapScore's gain over the base; for BalCapRL runs."""
    geneval_gain_low_above: float | None = Field(default=None, ge=-1, le=1)
    """Bound for the lower end of GenEval's gain over the base; for image generators."""
    forgetting_at_most: float | None = Field(default=None, ge=0, le=1)
    """Largest loss of the mean over general benchmarks against the base, by the low end of the difference."""
    audit_false_positives_at_most: float | None = Field(default=None, ge=0, le=1)
    """Largest rate of false positives of the run's judge in its audit, in the failure mode where it is worst, by the
    high end; for RLR³ runs, whose audit shows the judge texts as the training does.
    """
    no_alarm: bool = False
    """Refuse a policy if the hacking alarm fired during its training, did not watch, or could not tell yet."""
    samples_at_least: int = Field(default=_SAMPLES, ge=1)
    """Fewest judged samples behind each figure that a rule reads."""

    @property
    def _forgetting_bound(self) -> float | None:
        return None if self.forgetting_at_most is None else -self.forgetting_at_most

    def _rules(self) -> list[tuple[str, str, _Relation, float]]:
        """Label, figure, relation and bound of each rule that is on."""
        rules: tuple[tuple[str, str, _Relation, float | None], ...] = (
            ("win rate", "win_rate", "above", self.win_rate_low_above),
            ("accuracy gain", "accuracy_gain", "above", self.accuracy_gain_low_above),
            ("b-CapScore gain", "b_capscore_gain", "above", self.b_capscore_gain_low_above),
            ("GenEval gain", "geneval_correct_gain", "above", self.geneval_gain_low_above),
            ("general benchmarks, gain over the base", "benchmark_gain", "at least", self._forgetting_bound),
            ("oracle f1, gain over the base", "oracle_f1_gain", "at least", self.oracle_f1_gain_at_least),
            ("rubric reward, gain over the base", "rubric_reward_gain", "at least", self.rubric_reward_gain_at_least),
            ("false positives of the judge", AUDIT_FIGURE, "at most", self.audit_false_positives_at_most),
        )
        return [(label, name, relation, bound) for label, name, relation, bound in rules if bound is not None]

    @property
    def figures(self) -> frozenset[str]:
        """Names of the figures that the rules read."""
        return frozenset(name for _, name, _, _ in self._rules())

    def of_model(self, *, forgetting: bool = True) -> "Gate":
        """The rules on the model alone, without those on its training and its judge.

        Args:
            forgetting: keep the rule on general benchmarks.
        """
        others: dict[str, Any] = {"no_alarm": False, "audit_false_positives_at_most": None}
        return self.model_copy(update=others if forgetting else others | {"forgetting_at_most": None})

    def check(self, summary: Mapping[str, Any], *, alarm: Alarm | None = None) -> GateResult:
        """Apply the rules.

        Args:
            summary: figure → the parts of its interval, {"low", "high", "samples", …}: "win_rate", "oracle_f1_gain",
                "rubric_reward_gain", "accuracy_gain", "b_capscore_gain", "benchmark_gain", "audit_false_positives".
            alarm: outcome of the alarm that watched the training, if one did.
        """
        findings = [
            self._finding(label, summary.get(name), relation, bound) for label, name, relation, bound in self._rules()
        ]
        if self.no_alarm:
            findings.append(_alarm_finding(alarm))
        return GateResult(
            passed=all(finding.met for finding, _ in findings),
            reasons=tuple(text for _, text in findings),
            findings=tuple(finding for finding, _ in findings),
        )

    def _finding(self, label: str, figure: Any, relation: _Relation, bound: float) -> tuple[GateFinding, str]:
        """Return what a rule found, and the sentence that says so."""
        end = "high" if relation == "at most" else "low"
        label = f"{label}, {end} end"
        value, samples = _number(figure, end), _number(figure, "samples") or 0
        missed = GateFinding(rule=label, met=False, relation=relation, bound=bound, value=value, samples=int(samples))
        if value is None:
            not_measured = missed.model_copy(update={"samples": None, "note": "not measured"})
            return not_measured, f"{label}: not measured, must be {relation} {bound:g}"
        if samples < self.samples_at_least:
            too_few = {"note": f"too few samples to tell: at least {self.samples_at_least}"}
            return missed.model_copy(update=too_few), (
                f"{label}: {value:.3f} of {samples:g} samples, too few to tell (samples_at_least: "
                f"{self.samples_at_least}), must be {relation} {bound:g}"
            )
        # A gain of exactly the bound must pass although 0.7 - 0.6 < 0.1 in binary.
        met = {"above": value > bound, "at least": value >= bound - 1e-9, "at most": value <= bound + 1e-9}[relation]
        sentence = f"{label}: {value:.3f}, {'is' if met else 'must be'} {relation} {bound:g}"
        return missed.model_copy(update={"met": met}), sentence


def _alarm_finding(alarm: Alarm | None) -> tuple[GateFinding, str]:
    label = "alarm of reward hacking"
    if alarm is None:
        note, met = "did not watch", False
    elif alarm.has_fired:
        note, met = f"fired at {alarm}", False
    elif alarm.state == "too_short":
        note, met = "too short to tell", False
    else:
        note, met = "has not fired" if alarm.state == "silent" else "no reward to game", True
    finding = GateFinding(rule=label, met=met, note=note)
    return finding, f"{label}: {note}{'' if met else '; must have watched in silence'}"


def _number(figure: Any, part: str) -> float | None:
    """Return a part of a figure; None if it is no finite number."""
    value = figure.get(part) if isinstance(figure, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
