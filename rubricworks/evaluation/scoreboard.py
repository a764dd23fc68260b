"""Scoreboard: means of a `scores` table with 95 % intervals, per model, and gains over the base on the same samples.

A figure is one part of a scorer, such as `oracle_f1`. A gain is the mean of paired differences, so that the difficulty
of a sample cancels out. A scorer that averages by task weighs all tasks equally (macro average); its intervals resample
each task's samples. As in RLR³ (Table 2), an arm's best milestone is the one with the highest mean on these same
samples, which is biased: the last one is on the board too. A figure that counts only whole has no mean, and no gain,
while a sample of any of its tasks lacks a score: the board says which.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from rubricworks.data.tables import Row
from rubricworks.errors import UserError
from rubricworks.evaluation.ratings import (
    CAPARENA,
    COMPARISONS,
    RATING_OF,
    RATING_TITLES,
    TOURNAMENT,
    position_bias,
    ratings,
)
from rubricworks.metrics import Interval, mean_interval, paired_differences

SCORES_FILE = "scores.json"
"""File of the board, next to the table that it summarises."""
BASE, POLICY = "base", "policy"
LENGTH = "length_tokens"
WIN = "arena_win"
_TITLES = {LENGTH: "Tokens per response", "visual_questions_right": "Questions answered"}
_DIGITS = 12


def figure_name(scorer: str, part: str) -> str:
    """Name of a figure: `dc_score`, `oracle_f1`."""
    return scorer if part == "score" else f"{scorer}_{part}"


class ModelScores(BaseModel, extra="forbid", frozen=True):
    """Scores of one model with one decoding."""

    model: str
    step: int | None = None
    """Training step of a milestone."""
    decoding: str
    means: dict[str, Interval]
    """Figure → mean over the samples that could be judged; a figure without any is missing."""
    gains: dict[str, Interval] = {}
    """Figure → this model minus the base, on the same samples."""
    tasks: dict[str, dict[str, Interval]] = {}
    """Figure → task → mean, of scorers that average by task."""
    incomplete: dict[str, dict[str, str]] = {}
    """Figure that counts only whole → task without a mean → the reason."""


class Scoreboard(BaseModel, extra="forbid", frozen=True):
    """Scores of all models of an evaluation."""

    base: str
    policy: str | None = None
    """Model that the run trained, if any."""
    models: tuple[ModelScores, ...]
    """In the order of the evaluation: by model, step, decoding."""
    titles: dict[str, str] = {}
    """Figure → name on pages."""
    headlines: tuple[str, ...] = ()
    """Figures that are reported first: the first part of each scorer."""
    lower_is_better: tuple[str, ...] = ()
    """Figures of which less is better."""
    best: dict[str, int] = {}
    """Model with milestones → step of its best one."""
    skipped: dict[str, str] = {}
    """Scorer that could not score on this machine → the reason."""
    position_bias: dict[str, Interval] = {}
    """Scorer that compares captions → share of its decided judgments that prefer the caption in the first position."""
    differences: dict[str, Interval] = {}
    """`a - b` → best milestone of one model minus that of another, on the same samples."""

    def title(self, figure: str) -> str:
        """Name of a figure on pages."""
        return self.titles.get(figure) or figure.replace("_", " ").capitalize()

    @property
    def decodings(self) -> list[str]:
        return list(dict.fromkeys(scores.decoding for scores in self.models))

    @property
    def decoding(self) -> str:
        """Decoding that is reported first: greedy if it was evaluated."""
        return "greedy" if "greedy" in self.decodings else next(iter(self.decodings), "greedy")

    @property
    def candidate(self) -> str | None:
        """Model that may be promoted: the one that the run trained; without one, the last that is not the base."""
        if self.policy is not None:
            return self.policy
        return next((scores.model for scores in reversed(self.models) if scores.model != self.base), None)

    def scores(self, model: str, decoding: str | None = None, step: int | None = None) -> ModelScores | None:
        """Scores of a model, by default at its best milestone and with the decoding that is reported first."""
        decoding = decoding or self.decoding
        step = self.best.get(model) if step is None else step
        matching = (
            scores for scores in self.models if (scores.model, scores.decoding, scores.step) == (model, decoding, step)
        )
        return next(matching, None)

    def milestones(self, model: str, decoding: str | None = None) -> list[ModelScores]:
        """Scores of a model in the order of its steps."""
        decoding = decoding or self.decoding
        return [scores for scores in self.models if (scores.model, scores.decoding) == (model, decoding)]

    def mean(self, model: str, figure: str, decoding: str | None = None) -> Interval | None:
        scores = self.scores(model, decoding)
        return scores.means.get(figure) if scores else None

    def gain(self, model: str, figure: str, decoding: str | None = None) -> Interval | None:
        scores = self.scores(model, decoding)
        return scores.gains.get(figure) if scores else None

    def metrics(self) -> dict[str, float]:
        """Means by metric name, such as `greedy/policy/oracle_f1`; of milestones, the best one's."""
        return {
            f"{model.decoding}/{model.model}/{figure}": mean.value
            for model in self.models
            if model.step == self.best.get(model.model, model.step)
            for figure, mean in model.means.items()
        }


class _Key(NamedTuple):
    model: str
    step: int | None
    decoding: str


Values = Mapping[str, float | None]
"""Sample → value, None if it was not judged."""


def read_scoreboard(folder: Path) -> Scoreboard | None:
    """Read the board of a finished stage; None if there is none.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / SCORES_FILE
    if not path.is_file():
        return None
    try:
        return Scoreboard.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{path}: {field}: {first['msg']}; delete {folder} and run the stage {folder.name} again"
        ) from error


def summarise_scores(
    rows: Iterable[Row],
    *,
    base: str = BASE,
    policy: str | None = None,
    tasks: Mapping[str, str] | None = None,
    titles: Mapping[str, str] | None = None,
    scorers: Collection[str] | None = None,
    by_task: Collection[str] = (),
    only_whole: Collection[str] = (),
    unbounded: Collection[str] = (),
    lower_is_better: Collection[str] = (),
    skipped: Mapping[str, str] | None = None,
    select_by: str | None = None,
    seed: int = 0,
) -> Scoreboard:
    """Summarise a `scores` table.

    Args:
        rows: its rows.
        base: model that gains are measured against.
        policy: model that the run trained.
        tasks: sample → task.
        titles: figure → name on pages.
        scorers: those whose first figure is reported first, in this order; by default all, in the table's order.
        by_task: figures that are averaged by task.
        only_whole: figures without a mean unless all of their samples have a score.
        unbounded: figures whose values do not lie in [0, 1].
        lower_is_better: figures of which less is better.
        skipped: scorers that could not score on this machine, with the reason.
        select_by: figure that chooses the best milestone.
        seed: of the bootstrap over tasks.
    Raises:
        ValueError: two rows have the same sample, model and figure, or a figure has two versions of its scorer.
    """
    values: dict[_Key, dict[str, dict[str, float | None]]] = defaultdict(lambda: defaultdict(dict))
    corpus: dict[_Key, dict[str, float]] = defaultdict(dict)
    versions: dict[str, str] = {}
    first: dict[str, str] = {}
    compared: list[Row] = []
    reasons: dict[_Key, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        key = _Key(row["model"], row["step"], row["decoding"])
        if row["scorer"] in COMPARISONS:
            compared.append(row)
            if row["scorer"] == TOURNAMENT:
                values[key]  # a model without a comparison of its own is on the board
                continue
        figure = figure_name(row["scorer"], row["part"])
        if row["against"] not in (None, base) and row["scorer"] != CAPARENA:
            figure = f"{figure} against {row['against']}"
        first.setdefault(row["scorer"], figure)
        if versions.setdefault(row["scorer"], row["version"]) != row["version"]:
            raise ValueError(
                f"scores of {row['scorer']} by version {versions[row['scorer']]} and by {row['version']}; score again"
            )
        if row["sample_id"] is None:
            if row["value"] is not None:
                corpus[key][figure] = row["value"]
        elif row["sample_id"] in values[key][figure]:
            raise ValueError(f"two scores of sample {row['sample_id']} by {row['model']}: {figure}")
        else:
            values[key][figure][row["sample_id"]] = row["value"]
            if row["value"] is None and figure in only_whole:
                reasons[key][figure][row["sample_id"]] = row["reason"] or "no score"
    rated = ratings(compared)
    first |= {name: RATING_OF[name] for name in dict.fromkeys(row["scorer"] for row in compared) if name in RATING_OF}
    whole = frozenset(only_whole)
    summary = _Summary(values, tasks or {}, frozenset(by_task), whole, seed, frozenset((*unbounded, LENGTH)))
    models = tuple(
        ModelScores(
            **key._asdict(),
            means={
                **summary.means(figures),
                **{name: Interval(value=value) for name, value in corpus[key].items()},
                **rated.get(key, {}),
            },
            gains={} if key.model == base else summary.gains(key, _Key(base, None, key.decoding)),
            tasks=summary.task_means(figures),
            incomplete={figure: summary.incomplete_tasks(key, figure, why) for figure, why in reasons[key].items()},
        )
        for key, figures in values.items()
    )
    figures = {figure for model in models for figure in (*model.means, *model.incomplete)}
    given = {**(titles or {}), **_TITLES, **RATING_TITLES}
    titles = {figure: given[figure] for figure in given if figure in figures}
    heads = [first[name] for name in scorers or first if name in first]
    board = Scoreboard(
        base=base,
        policy=policy,
        models=models,
        titles=titles | {figure: figure.replace("_", " ").capitalize() for figure in sorted(figures - titles.keys())},
        headlines=tuple(figure for figure in heads if figure in figures and figure != LENGTH),
        lower_is_better=tuple(sorted(figures & {*lower_is_better})),
        skipped=dict(skipped or {}),
        position_bias=position_bias(compared),
    )
    if select_by is None or not (
        arms := list(dict.fromkeys(model.model for model in models if model.step is not None))
    ):
        return board
    best = {arm: step for arm in arms if (step := _best_step(board, arm, select_by)) is not None}
    chosen = {arm: _Key(arm, step, board.decoding) for arm, step in best.items()}
    differences = {
        f"{arm} - {other}": difference
        for place, arm in enumerate(chosen)
        for other in list(chosen)[:place]
        if (difference := summary.gains(chosen[arm], chosen[other]).get(select_by))
    }
    return board.model_copy(update={"best": best, "differences": differences})


def _best_step(board: Scoreboard, arm: str, figure: str) -> int | None:
    """Step of the best mean. Among equals the earliest, which needs the least training; rounding absorbs noise."""
    judged = [milestone for milestone in board.milestones(arm) if figure in milestone.means]
    if not judged:
        return None
    sign = -1 if figure in board.lower_is_better else 1
    return max(
        judged, key=lambda milestone: (sign * round(milestone.means[figure].value, _DIGITS), -(milestone.step or 0))
    ).step


class _Summary(NamedTuple):
    """Means and differences of values by figure."""

    values: Mapping[_Key, Mapping[str, Values]]
    tasks: Mapping[str, str]
    by_task: frozenset[str]
    only_whole: frozenset[str]
    seed: int
    unbounded: frozenset[str] = frozenset({LENGTH})

    def means(self, figures: Mapping[str, Values]) -> dict[str, Interval]:
        means = {
            figure: self._mean(figure, values)
            for figure, values in figures.items()
            if figure not in self.only_whole or None not in values.values()
        }
        return {figure: mean for figure, mean in means.items() if mean}

    def gains(self, key: _Key, other: _Key) -> dict[str, Interval]:
        """Paired differences of all figures that both have."""
        mine, theirs = self._counting(key), self._counting(other)
        gains = {
            figure: self._mean(
                figure, dict(sorted(differences.items())) if figure in self.by_task else differences, share=False
            )
            for figure, values in mine.items()
            if figure in theirs and (differences := paired_differences(values, theirs[figure]))
        }
        return {figure: gain for figure, gain in gains.items() if gain}

    def task_means(self, figures: Mapping[str, Values]) -> dict[str, dict[str, Interval]]:
        tasks: dict[str, dict[str, Interval]] = {}
        for figure, values in figures.items():
            if figure in self.by_task:
                by_task: dict[str, list[float | None]] = defaultdict(list)
                for sample, value in values.items():
                    by_task[self._task(sample)].append(value)
                means = {
                    task: mean_interval(of_task)
                    for task, of_task in sorted(by_task.items())
                    if figure not in self.only_whole or None not in of_task
                }
                tasks[figure] = {task: mean for task, mean in means.items() if mean}
        return tasks

    def incomplete_tasks(self, key: _Key, figure: str, reasons: Mapping[str, str]) -> dict[str, str]:
        """Tasks of a figure without a score of every sample, with the most frequent reason of each."""
        missing: dict[str, Counter[str]] = defaultdict(Counter)
        for sample, reason in reasons.items():
            missing[self._task(sample)][reason] += 1
        totals = Counter(self._task(sample) for sample in self.values[key][figure])
        return {
            task: next(iter(counts))
            if totals[task] == 1
            else f"{counts.total()} of {totals[task]} samples have no score ({counts.most_common(1)[0][0]})"
            for task, counts in sorted(missing.items())
        }

    def _counting(self, key: _Key) -> dict[str, Values]:
        """Figures of a model, without those that count only whole and are not."""
        return {
            figure: values
            for figure, values in self.values.get(key, {}).items()
            if figure not in self.only_whole or None not in values.values()
        }

    def _mean(self, figure: str, values: Values, *, share: bool = True) -> Interval | None:
        if figure not in self.by_task:
            return mean_interval(values.values(), share=share and figure not in self.unbounded)
        by_task = dict(sorted(values.items(), key=lambda item: self._task(item[0])))
        strata = [self._task(sample) for sample in by_task]
        return mean_interval(
            by_task.values(), share=share and figure not in self.unbounded, strata=strata, seed=self.seed
        )

    def _task(self, sample: str) -> str:
        return self.tasks.get(sample) or sample.rpartition("/")[0] or "all"
