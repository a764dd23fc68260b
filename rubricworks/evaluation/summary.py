"""The figures of an evaluation: means over held-out samples, each with a 95 % bootstrap interval."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.rubrics import Scorecard


class Figure(BaseModel):
    """A mean and its 95 % interval; how many samples it is taken over, and how many could not be judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float
    low: float
    high: float
    samples: int
    missing: int = 0


class ModelFigures(BaseModel):
    """One model with one decoding."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rubric_reward: Figure | None
    oracle_precision: Figure | None
    oracle_recall: Figure | None
    oracle_f1: Figure | None
    tokens: Figure | None
    criteria_passed: dict[str, float]
    """Share of criteria met, by weight: "3" critical, "2" important, "1" minor."""


class EvaluationSummary(BaseModel):
    """Greedy and sampled figures of the base model and the policy; win rate of the policy against the base."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: dict[str, dict[str, ModelFigures]]
    """decoding → model → figures."""
    win_rate: dict[str, Figure | None]
    """decoding → policy against base; a tie counts one half."""

    def metrics(self) -> dict[str, float]:
        """The means by name, such as `greedy/policy/oracle_f1` and `greedy/win_rate`."""
        values = {
            f"{decoding}/{model}/{name}": figure.value
            for decoding, models in self.models.items()
            for model, figures in models.items()
            for name in _NUMBERS
            if (figure := getattr(figures, name)) is not None
        }
        wins = {f"{decoding}/win_rate": win.value for decoding, win in self.win_rate.items() if win is not None}
        return values | wins


_NUMBERS = ("rubric_reward", "oracle_precision", "oracle_recall", "oracle_f1", "tokens")


def summarise(rows: Iterable[dict[str, Any]], weights: dict[str, dict[str, float]]) -> EvaluationSummary:
    """Figures of an `evaluations` table.

    Args:
        rows: of the table.
        weights: sample_id → criterion → weight, to tell critical from minor criteria.
    """
    columns: dict[tuple[str, str], dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    passed: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    wins: dict[str, list[float | None]] = defaultdict(list)
    for row in rows:
        key = (row["decoding"], row["model"])
        for name in _NUMBERS:
            columns[key][name].append(row[name])
        if row["model"] == "policy":
            wins[row["decoding"]].append(row["win"])
        for verdict in Scorecard.model_validate_json(row["scorecard"]).verdicts if row["scorecard"] else ():
            if verdict.credit is not None:
                weight = weights[row["sample_id"]][verdict.criterion]
                passed[key][f"{weight:g}"].append(verdict.credit)
    models: dict[str, dict[str, ModelFigures]] = defaultdict(dict)
    for (decoding, model), values in columns.items():
        by_weight = {w: sum(c) / len(c) for w, c in sorted(passed[decoding, model].items(), reverse=True)}
        figures = {name: figure(values[name]) for name in _NUMBERS}
        models[decoding][model] = ModelFigures(**figures, criteria_passed=by_weight)
    return EvaluationSummary(models=dict(models), win_rate={decoding: figure(w) for decoding, w in wins.items()})


def figure(values: list[float | None]) -> Figure | None:
    """Mean and interval over what is there; None if nothing is."""
    from rubricworks.metrics import bootstrap_interval

    there = [value for value in values if value is not None]
    if not there:
        return None
    interval = bootstrap_interval(there)
    return Figure(
        value=interval.value,
        low=interval.low,
        high=interval.high,
        samples=len(there),
        missing=len(values) - len(there),
    )
