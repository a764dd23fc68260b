"""Summary of an `evaluations` table: means over held-out samples, each with its 95 % interval."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.metrics import Interval, mean_interval
from rubricworks.rubrics import Scorecard


class ModelScores(BaseModel):
    """Mean scores of one model with one decoding."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rubric_reward: Interval | None
    oracle_precision: Interval | None
    oracle_recall: Interval | None
    oracle_f1: Interval | None
    tokens: Interval | None
    criteria_passed: dict[str, float]
    """Share of met criteria by weight: "3" critical, "2" important, "1" minor."""


class EvaluationSummary(BaseModel):
    """Scores of the base model and the policy, greedy and sampled, and the policy's win rate against the base."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: dict[str, dict[str, ModelScores]]
    """decoding → model → scores."""
    win_rate: dict[str, Interval | None]
    """decoding → policy against base; a tie counts one half."""

    def metrics(self) -> dict[str, float]:
        """Means by metric name, such as `greedy/policy/oracle_f1` and `greedy/win_rate`."""
        values = {
            f"{decoding}/{model}/{name}": mean.value
            for decoding, models in self.models.items()
            for model, scores in models.items()
            for name in _SCORES
            if (mean := getattr(scores, name)) is not None
        }
        wins = {f"{decoding}/win_rate": win.value for decoding, win in self.win_rate.items() if win is not None}
        return values | wins


_SCORES = ("rubric_reward", "oracle_precision", "oracle_recall", "oracle_f1", "tokens")


def summarise(rows: Iterable[dict[str, Any]], weights: dict[str, dict[str, float]]) -> EvaluationSummary:
    """Summarise an `evaluations` table.

    Args:
        rows: rows of the table.
        weights: sample_id → criterion → weight.
    """
    columns: dict[tuple[str, str], dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    passed: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    wins: dict[str, list[float | None]] = defaultdict(list)
    for row in rows:
        key = (row["decoding"], row["model"])
        for name in _SCORES:
            columns[key][name].append(row[name])
        if row["model"] == "policy":
            wins[row["decoding"]].append(row["win"])
        for verdict in Scorecard.model_validate_json(row["scorecard"]).verdicts if row["scorecard"] else ():
            if verdict.credit is not None:
                weight = weights[row["sample_id"]][verdict.criterion]
                passed[key][f"{weight:g}"].append(verdict.credit)
    models: dict[str, dict[str, ModelScores]] = defaultdict(dict)
    for (decoding, model), values in columns.items():
        by_weight = {w: sum(c) / len(c) for w, c in sorted(passed[decoding, model].items(), reverse=True)}
        scores = {name: mean_interval(values[name], share=name != "tokens") for name in _SCORES}
        models[decoding][model] = ModelScores(**scores, criteria_passed=by_weight)
    win_rates = {decoding: mean_interval(values) for decoding, values in wins.items()}
    return EvaluationSummary(models=dict(models), win_rate=win_rates)
