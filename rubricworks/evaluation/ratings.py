"""Ratings of models from pairwise comparisons in a `scores` table: Elo of a tournament, and CapArena-Auto's scores.

A tournament's Elo ratings are CapArena's: by maximum likelihood (`tournament_elo`, with the bounds of a bootstrap over
samples), and online, as the median over resamples of the battles (`tournament_elo_online`). Every judgment is a battle
whose first model is the caption that the judge read first.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rubricworks.data.tables import Row
from rubricworks.metrics import Interval, elo_bootstrap, elo_mle, mean_interval
from rubricworks.metrics.caparena import BASELINES
from rubricworks.metrics.intervals import percentile_interval

TOURNAMENT, CAPARENA = "tournament", "caparena"
COMPARISONS = frozenset(("arena", TOURNAMENT, CAPARENA))
"""Scorers whose evidence may hold the judgments of both orders."""
RATING_OF = {TOURNAMENT: "tournament_elo", CAPARENA: "caparena_auto"}
"""Scorer that rates models → the figure that is reported first."""
RATING_TITLES = {
    "tournament_elo": "Elo",
    "tournament_elo_online": "Elo, online",
    "caparena_auto": "CapArena-Auto",
    **{f"caparena_{key}": f"CapArena-Auto against {model}" for key, model in BASELINES.items()},
}
_VERDICTS = {"A": "Caption 1 is better.", "B": "Caption 2 is better.", "Tie": "Tie."}
_RESAMPLES, _FEWEST_RESAMPLES, _BATTLES_IN_ALL = 200, 50, 400_000

Key = tuple[str, int | None, str]
"""Model, step, decoding."""


def ratings(rows: Sequence[Row]) -> dict[Key, dict[str, Interval]]:
    """Model → figure → rating, from the rows of comparing scorers."""
    figures: dict[Key, dict[str, Interval]] = defaultdict(dict)
    for decoding, battles in _battles(rows).items():
        for name, elo in _elo(battles).items():
            for (label, step), interval in elo.items():
                figures[label, step, decoding][name] = interval
    margins: dict[Key, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["scorer"] == CAPARENA and row["value"] is not None and row["part"] == "win":
            margins[_key(row)][row["against"]].append(2 * row["value"] - 1)
    for key, of_baseline in margins.items():
        figures[key] |= _caparena_auto(of_baseline)
    return dict(figures)


def position_bias(rows: Iterable[Row]) -> dict[str, Interval]:
    """Comparing scorer → share of its decided judgments for the caption that stands first, from both orders."""
    firsts: dict[str, list[float | None]] = defaultdict(list)
    for row in rows:
        for judgment in json.loads(row.get("evidence") or "{}").get("judgments", ()):
            choice = judgment["judgment"] if isinstance(judgment, dict) else judgment
            if choice != "Tie":
                firsts[row["scorer"]].append(float(choice == "A"))
    return {name: interval for name, values in firsts.items() if (interval := mean_interval(values))}


def _key(row: Row) -> Key:
    return row["model"], row["step"], row["decoding"]


_Contestant = tuple[str, int | None]
_Battles = dict[str, list[dict[str, str]]]
"""Sample → its battles."""


def _battles(rows: Sequence[Row]) -> dict[str, _Battles]:
    """Decoding → battles of a tournament."""
    battles: dict[str, _Battles] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["scorer"] != TOURNAMENT or row["value"] is None:
            continue
        own = _label(row["model"], row["step"])
        for judgment in json.loads(row["evidence"])["judgments"]:
            first, second = (own, row["against"]) if judgment["first"] else (row["against"], own)
            battles[row["decoding"]][row["sample_id"]].append(
                {"source1": first, "source2": second, "judge": _VERDICTS[judgment["judgment"]]}
            )
    return battles


def _elo(battles: _Battles) -> dict[str, dict[_Contestant, Interval]]:
    every = [battle for sample in sorted(battles) for battle in battles[sample]]
    resamples = min(_RESAMPLES, max(_FEWEST_RESAMPLES, _BATTLES_IN_ALL // max(1, len(every))))
    exact = elo_mle(every)
    samples, generator = sorted(battles), np.random.default_rng(0)
    replicates: dict[str, list[float]] = {model: [] for model in exact}
    for _ in range(resamples if len(samples) > 1 else 0):
        drawn = [battle for at in generator.integers(0, len(samples), len(samples)) for battle in battles[samples[at]]]
        ratings = elo_mle(drawn)
        for model, values in replicates.items():
            values.append(ratings.get(model, float("nan")))
    return {
        "tournament_elo": {
            _contestant(model): percentile_interval(value, np.array(replicates[model]))
            if replicates[model]
            else Interval(value=value)
            for model, value in exact.items()
        },
        "tournament_elo_online": {
            _contestant(model): interval for model, interval in elo_bootstrap(every, resamples=resamples).items()
        },
    }


def _label(model: str, step: int | None) -> str:
    return model if step is None else f"{model} at {step}"


def _contestant(label: str) -> _Contestant:
    model, at, step = label.rpartition(" at ")
    return (model, int(step)) if at and step.isdigit() else (label, None)


def _caparena_auto(margins: Mapping[str, Sequence[float | None]]) -> dict[str, Interval]:
    """(wins - losses) / 2 against each baseline, and their sum / 3, as `metrics.caparena_auto`."""
    figures: dict[str, Interval] = {}
    total = 0.0
    for key, baseline in BASELINES.items():
        values = margins.get(baseline, ())
        mean = mean_interval(values, share=False)
        scale = len(values) / 2
        total += mean.value * scale if mean else 0.0
        if mean:
            low, high = mean.bounds or (None, None)
            figures[f"caparena_{key}"] = Interval(
                value=mean.value * scale,
                low=None if low is None else low * scale,
                high=None if high is None else high * scale,
                samples=mean.samples,
            )
    return {"caparena_auto": Interval(value=total / 3), **figures}
