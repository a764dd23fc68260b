"""The figures of captions scored by several benchmarks: base and policy, and how much the policy gains.

Means over held-out samples with 95 % bootstrap intervals. A gain is the mean of the differences sample by sample, over
the samples where both were judged, so that what is hard for both cancels out.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.summary import Figure, figure

CAPTIONS_FILE = "captions.json"
"""The summary, beside the table that it is made of."""
BASE, POLICY = "base", "policy"
SCORES = (
    *("b_capscore", "precision", "recall", "linguistic"),
    *("dc_score", "dc_f1", "dc_precision", "dc_recall"),
    *("caption_qa", "oracle_f1", "oracle_precision", "oracle_recall"),
    "answered",
    "tokens",
)
"""Columns of `caption_scores` that are averaged. `dc_score` is DCScore, `answered` the share of visual questions
answered right; all but tokens lie in [0, 1]."""


class CaptionSummary(BaseModel):
    """The evaluation of a run. Where nothing could be judged, a figure is missing from its dictionary."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: dict[str, dict[str, Figure]]
    """`base` and `policy` → name of a score → mean over samples."""
    gains: dict[str, Figure]
    """Name of a score → policy minus base, on the same samples."""
    win_rate: Figure | None
    """Of the policy against the base in the arena; a tie counts one half."""

    def metrics(self) -> dict[str, float]:
        """The means by name, such as `policy/b_capscore`, `gain/b_capscore` and `win_rate`."""
        values = {
            f"{model}/{name}": figure.value
            for model, figures in self.models.items()
            for name, figure in figures.items()
        }
        gains = {f"gain/{name}": figure.value for name, figure in self.gains.items()}
        wins = {"win_rate": self.win_rate.value} if self.win_rate else {}
        return values | gains | wins


def summarise_captions(rows: Iterable[Mapping[str, Any]]) -> CaptionSummary:
    """The summary of a table of `caption_scores`.

    Raises:
        ValueError: there is no row of the base or of the policy, or there are two of one sample.
    """
    scores: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        if row["sample_id"] in scores[row["model"]]:
            raise ValueError(f"two captions of sample {row['sample_id']} by {row['model']}")
        scores[row["model"]][row["sample_id"]] = row
    if scores.keys() != {BASE, POLICY}:
        raise ValueError(f"captions of {sorted(scores) or 'no model'}; there must be some of base and of policy")
    base, policy = scores[BASE], scores[POLICY]
    pairs = [(row, base[key]) for key, row in policy.items() if key in base]
    return CaptionSummary(
        models={
            model: _figures({name: [row.get(name) for row in of.values()] for name in SCORES})
            for model, of in ((BASE, base), (POLICY, policy))
        },
        gains=_figures({name: [_less(row.get(name), before.get(name)) for row, before in pairs] for name in SCORES}),
        win_rate=figure([row["win"] for row in policy.values()]),
    )


def _figures(columns: Mapping[str, list[float | None]]) -> dict[str, Figure]:
    return {name: found for name, values in columns.items() if (found := figure(values))}


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other
