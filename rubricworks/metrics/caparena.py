"""CapArena: scores, Elo ratings and agreement from pairwise battles of captioners (njucckevin/CapArena@c251cdd).

A battle is a mapping with the fields of the benchmark's files: `source1` and `source2`, the models; `judge`, the
verdict on their captions ("Caption 1 is better.", "Caption 2 is better.", "Tie."), absent where the judge failed. The
functions here follow the reference code, quirks included; each docstring names its own.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rubricworks.errors import UserError
from rubricworks.metrics.intervals import Interval
from rubricworks.metrics.rankings import kendall_tau_b, spearman

Battle = Mapping[str, Any]

BASELINES = {"gpt": "GPT-4o-0806", "cog": "CogVLM2-llama3-chat-19B", "cpm": "MiniCPM-V2.6-8B"}
"""The three baselines of CapArena-Auto: the key of the score against each → the model."""
LEVELS = ("overall", "level 1", "level 2", "level 3", "level 4")
"""Groups of caption-level agreement: all battles, and the benchmark's clusters by difference in quality."""
HUMAN_RANKING = (
    *("GPT-4o-0806", "human", "Gemini-2.0-flash-exp", "InternVL2-26B", "Gemini-1.5-pro-002", "Claude-3.5-Sonnet-0620"),
    *("GPT-4o-mini-0718", "LLama-3.2-90B", "Qwen2-VL-72B-Instruct", "CogVLM2-llama3-chat-19B", "MiniCPM-V2.6-8B"),
    *("Qwen2-VL-7B-Instruct", "Qwen2-VL-2B-Instruct", "LLaVA-1.6-34B", "LLaVA-1.5-7B"),
)
"""Models from best to worst by the benchmark's human annotators."""

_FIRST, _SECOND, _TIE = ({f"{text}.", text} for text in ("Caption 1 is better", "Caption 2 is better", "Tie"))
_START, _SCALE, _BASE = 1000.0, 400.0, 10.0


def caparena_auto(battles: Mapping[str, Sequence[Battle]]) -> dict[str, dict[str, float]]:
    """CapArena-Auto scores of models against its three baselines.

    `gpt`, `cog` and `cpm` are (wins - losses) / 2 against GPT-4o, CogVLM2 and MiniCPM: a percentage only with the
    benchmark's 200 battles each. `avg` is their sum / 3, also for a baseline, which scores 0 against itself. `length`
    is the mean number of words of the model's captions, split at single spaces. A battle without `judge`, or with any
    other text there than the three verdicts with or without a full stop, counts for `length` alone.

    Args:
        battles: model → its battles, each with `source1`, `source2`, `caption1`, `caption2`, `ref_model` (the baseline)
            and `judge`. The model is either source.
    Returns:
        Model → {avg, gpt, cog, cpm, length}, rounded to two decimals as on the leaderboard, the best `avg` first.
    Raises:
        ValueError: a model has no battle, or a `ref_model` is no baseline.
    """
    scores = {model: _auto_scores(model, rows) for model, rows in battles.items()}
    ranking = sorted(scores.items(), key=lambda entry: entry[1]["avg"], reverse=True)
    return {model: {name: round(value, 2) for name, value in parts.items()} for model, parts in ranking}


def _auto_scores(model: str, battles: Sequence[Battle]) -> dict[str, float]:
    if not battles:
        raise ValueError(f"{model} has no battle")
    margins = dict.fromkeys(BASELINES.values(), 0)
    words = 0
    for number, battle in enumerate(battles):
        is_first = model == battle["source1"]
        words += len(battle["caption1" if is_first else "caption2"].split(" "))
        judge = battle.get("judge")
        if judge not in _FIRST | _SECOND | _TIE:
            continue
        if battle["ref_model"] not in margins:
            raise ValueError(
                f"battle {number} of {model} is against {battle['ref_model']}; the baselines are {', '.join(margins)}"
            )
        if judge not in _TIE:
            winner = battle["source1" if judge in _FIRST else "source2"]
            margins[battle["ref_model"]] += 1 if winner == model else -1
    against = {key: margins[baseline] / 2 for key, baseline in BASELINES.items()}
    return {"avg": sum(against.values()) / 3, **against, "length": words / len(battles)}


def elo_online(battles: Iterable[Battle], k: float = 4) -> dict[str, float]:
    """Elo ratings after one pass through the battles, in their order.

    Ratings start at 1000; the expected score is 1 / (1 + 10^(difference / 400)); a tie scores 1/2 for both. Battles
    without `judge` and battles of `human` do not count. A verdict with a "1" in it is a win of `source1`, else one with
    a "2" is a win of `source2`, and every other one is a tie.

    Args:
        battles: each with `source1`, `source2` and `judge`.
        k: the most that one battle moves a rating.
    Returns:
        Model → rating, in order of first appearance.
    """
    return _online_ratings([_outcome(battle) for battle in _rated_battles(battles)], k)


def elo_bootstrap(
    battles: Iterable[Battle], k: float = 4, *, level: float = 0.95, resamples: int = 1000, seed: int = 42
) -> dict[str, Interval]:
    """Medians and percentile intervals of online Elo ratings over bootstrap resamples of the battles.

    CapArena ranks models by these medians. With the default seed, the resamples are those of the reference code. A
    resample without a battle of a model does not count for it.

    Args:
        battles: as in `elo_online`.
    Returns:
        Model → median with bounds, the highest median first.
    """
    outcomes = [_outcome(battle) for battle in _rated_battles(battles)]
    # The legacy generator is the one that pandas' DataFrame.sample draws from in the reference code.
    generator = np.random.RandomState(seed)
    ratings: dict[str, list[float]] = {}
    for _ in range(resamples if outcomes else 0):
        draws = generator.choice(len(outcomes), size=len(outcomes), replace=True)
        for model, rating in _online_ratings([outcomes[draw] for draw in draws], k).items():
            ratings.setdefault(model, []).append(rating)
    estimates: dict[str, Interval] = {}
    for model, values in ratings.items():
        low, median, high = np.quantile(values, [(1 - level) / 2, 0.5, (1 + level) / 2])
        estimates[model] = Interval(value=float(median), low=float(low), high=float(high))
    return dict(sorted(estimates.items(), key=lambda entry: entry[1].value, reverse=True))


def elo_mle(battles: Iterable[Battle]) -> dict[str, float]:
    """Elo ratings by maximum likelihood under the Bradley-Terry model, with an L2 penalty of |coefficients|² / 2.

    The solver, its penalty and its stopping rule are those of scikit-learn's LogisticRegression with default settings,
    which the reference code calls; at that rule's tolerance a rating is within about 0.1 of the exact optimum. Only a
    win of `source1` counts as a win: a tie counts as a win of `source2`.

    Args:
        battles: as in `elo_online`.
    Returns:
        Model → rating, the highest first. {} if no battle counts.
    Raises:
        UserError: scipy is not installed.
    """
    try:
        from scipy.optimize import minimize
    except ImportError:
        raise UserError("elo_mle needs scipy; pip install 'rubricworks[eval]'") from None

    rows = _rated_battles(battles)
    if not rows:
        return {}
    models = list(dict.fromkeys([*(row["source1"] for row in rows), *(row["source2"] for row in rows)]))
    columns = {model: column for column, model in enumerate(models)}
    features_BM = np.zeros((len(rows), len(models)))
    for number, row in enumerate(rows):
        features_BM[number, columns[row["source1"]]] = math.log(_BASE)
        features_BM[number, columns[row["source2"]]] = -math.log(_BASE)
    wins_B = np.array([_outcome(row)[2] == 1 for row in rows], np.float64)

    def loss_and_gradient(weights_M: Any) -> tuple[float, Any]:
        logits_B = features_BM @ weights_M
        loss = np.sum(np.logaddexp(0, logits_B) - wins_B * logits_B) + weights_M @ weights_M / 2
        gradient_M = features_BM.T @ (1 / (1 + np.exp(-logits_B)) - wins_B) + weights_M
        return loss / len(rows), gradient_M / len(rows)

    options = {"maxiter": 100, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(float).eps}
    start_M = np.zeros(len(models))
    weights_M = minimize(loss_and_gradient, start_M, method="L-BFGS-B", jac=True, options=options).x
    ratings = {model: float(_SCALE * weight + _START) for model, weight in zip(models, weights_M, strict=True)}
    return dict(sorted(ratings.items(), key=lambda entry: entry[1], reverse=True))


def caption_level_agreement(
    battles: Iterable[Battle], *, include_tie: bool = False, in_400: bool = False
) -> dict[str, dict[str, float | int | None]]:
    """Agreement of a judge's verdicts with those of CapArena's human annotators, battle by battle.

    Battles without `judge`, with another text there than the three verdicts, or of `human` do not count.

    Args:
        battles: each with `source1`, `source2`, `judge`, `winner` (the annotators' choice: a source, or "equal") and
            `cluster` ("level 1" to "level 4"); with `in_400` also with the flag `in-400`.
        include_tie: count battles that the judge or the annotators call a tie.
        in_400: count the battles of the benchmark's subset of 400 alone.
    Returns:
        `overall` and each level → {agreement, battles, ties}: the share of equal verdicts (None without a battle), the
        number of battles, and how many of them the judge calls a tie.
    Raises:
        ValueError: a battle's cluster is none of the levels.
    """
    hits: dict[str, list[bool]] = {level: [] for level in LEVELS}
    ties = dict.fromkeys(LEVELS, 0)
    for battle in _rated_battles(battles):
        judge = battle["judge"]
        if (in_400 and not battle["in-400"]) or judge not in _FIRST | _SECOND | _TIE:
            continue
        choices = {battle["source2"]: _SECOND, battle["source1"]: _FIRST}
        annotators = choices.get(battle["winner"], _TIE)
        if not include_tie and (annotators is _TIE or judge in _TIE):
            continue
        if battle["cluster"] not in LEVELS:
            raise ValueError(f"a battle's cluster is {battle['cluster']!r}; it is one of {', '.join(LEVELS[1:])}")
        for level in ("overall", battle["cluster"]):
            hits[level].append(judge in annotators)
            ties[level] += judge in _TIE
    return {
        level: {"agreement": sum(row) / len(row) if row else None, "battles": len(row), "ties": ties[level]}
        for level, row in hits.items()
    }


def model_level_agreement(models: Sequence[str], ranking: Sequence[str] = HUMAN_RANKING) -> dict[str, float | None]:
    """Rank correlations of a ranking of models, best first, with the human ranking.

    `human` is no model. Models are ranked by their place in the whole of `ranking`, so places may be skipped.

    Returns:
        {spearman, kendall}.
    Raises:
        ValueError: a model is not in `ranking`, or there are fewer than two.
    """
    others = [model for model in models if model != "human"]
    if unknown := [model for model in others if model not in ranking]:
        raise ValueError(f"{unknown[0]} is not in the ranking to compare with")
    places = [float(ranking.index(model)) for model in others]
    order = [float(place) for place in range(len(others))]
    return {"spearman": spearman(places, order), "kendall": kendall_tau_b(places, order)}


def _rated_battles(battles: Iterable[Battle]) -> list[Battle]:
    """Battles with a verdict, of two models."""
    return [
        battle
        for battle in battles
        if battle.get("judge") is not None and "human" not in (battle["source1"], battle["source2"])
    ]


def _outcome(battle: Battle) -> tuple[str, str, float]:
    """Both models and the score of the first: 1, 1/2 or 0."""
    score = 1.0 if "1" in battle["judge"] else 0.0 if "2" in battle["judge"] else 0.5
    return battle["source1"], battle["source2"], score


def _online_ratings(outcomes: Iterable[tuple[str, str, float]], k: float) -> dict[str, float]:
    ratings: dict[str, float] = {}
    for first, second, score in outcomes:
        a, b = ratings.setdefault(first, _START), ratings.setdefault(second, _START)
        ratings[first] += k * (score - 1 / (1 + _BASE ** ((b - a) / _SCALE)))
        ratings[second] += k * (1 - score - 1 / (1 + _BASE ** ((a - b) / _SCALE)))
    return ratings
