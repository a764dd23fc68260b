"""Criteria that many rubrics share, such as the standing guards: how often each model meets them."""

from pathlib import Path
from typing import NamedTuple

from rubricworks.reports.run_folder import table_rows
from rubricworks.rubrics import Scorecard

MIN_SHARE = 0.1
"""Of the graded samples; a criterion in fewer of them says something of an image, not of a model."""
_MAX_TITLES = 5_000


class SharedCriterion(NamedTuple):
    title: str
    samples: int
    base: float
    policy: float


def shared_criteria(run: Path, *, decoding: str, count: int = 6) -> list[SharedCriterion]:
    """The most frequent criteria of the held-out rubrics, with both models' pass rates."""
    met: dict[str, dict[str, list[float]]] = {}
    graded = 0
    for row in table_rows(run / "evaluate", ["model", "decoding", "scorecard"]):
        if row["decoding"] != decoding or not row["scorecard"]:
            continue
        graded += row["model"] == "policy"
        for verdict in Scorecard.model_validate_json(row["scorecard"]).verdicts:
            if verdict.criterion not in met and len(met) >= _MAX_TITLES:
                continue
            tally = met.setdefault(verdict.criterion, {}).setdefault(row["model"], [0.0, 0])
            if verdict.credit is not None:
                tally[0] += verdict.credit
                tally[1] += 1
    shared = [
        SharedCriterion(title, int(of["policy"][1]), of["base"][0] / of["base"][1], of["policy"][0] / of["policy"][1])
        for title, of in met.items()
        if all(of.get(model, (0, 0))[1] >= max(2, MIN_SHARE * graded) for model in ("base", "policy"))
    ]
    return sorted(shared, key=lambda criterion: (-criterion.samples, criterion.title))[:count]
