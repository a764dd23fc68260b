"""Summary of captions scored by several benchmarks: base, policy, and the policy's gains.

Means over held-out samples with 95 % intervals. A gain is the mean of the paired differences over samples on which
both were judged, so that the difficulty of a sample cancels out.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.metrics import Interval, mean_interval, paired_differences

CAPTIONS_FILE = "captions.json"
"""File of the summary, next to the table that it summarises."""
BASE, POLICY = "base", "policy"
SCORES = (
    *("b_capscore", "precision", "recall", "linguistic"),
    *("dc_score", "dc_f1", "dc_precision", "dc_recall"),
    *("caption_qa", "oracle_f1", "oracle_precision", "oracle_recall"),
    "answered",
    "tokens",
)
"""Columns of `caption_scores` that are averaged. `answered` is the share of visual questions with a right answer; all
but tokens lie in [0, 1]."""


class CaptionSummary(BaseModel):
    """Evaluation of a run. A score without a judged sample is missing from its dictionary."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: dict[str, dict[str, Interval]]
    """`base` and `policy` → name of a score → mean over samples."""
    gains: dict[str, Interval]
    """Name of a score → policy minus base, on the same samples."""
    win_rate: Interval | None
    """Win rate of the policy against the base in the arena; a tie counts one half."""

    def metrics(self) -> dict[str, float]:
        """Means by metric name, such as `policy/b_capscore`, `gain/b_capscore` and `win_rate`."""
        values = {
            f"{model}/{name}": mean.value for model, scores in self.models.items() for name, mean in scores.items()
        }
        gains = {f"gain/{name}": mean.value for name, mean in self.gains.items()}
        wins = {"win_rate": self.win_rate.value} if self.win_rate else {}
        return values | gains | wins


def summarise_captions(rows: Iterable[Mapping[str, Any]]) -> CaptionSummary:
    """Summarise a `caption_scores` table.

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
    return CaptionSummary(
        models={
            model: {
                name: mean
                for name in SCORES
                if (mean := mean_interval(_column(captions, name).values(), share=name != "tokens"))
            }
            for model, captions in ((BASE, base), (POLICY, policy))
        },
        gains={name: gain for name in SCORES if (gain := _gain(_column(policy, name), _column(base, name)))},
        win_rate=mean_interval(_column(policy, "win").values()),
    )


def _column(captions: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, float | None]:
    return {sample: row.get(name) for sample, row in captions.items()}


def _gain(policy: Mapping[str, float | None], base: Mapping[str, float | None]) -> Interval | None:
    return mean_interval(paired_differences(policy, base).values(), share=False)
