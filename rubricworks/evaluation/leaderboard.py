"""Leaderboard: models of any evaluations against scorers, with paired differences from one of them.

A column is a figure by one instrument: one version of the scorer (its prompts and formulas), one judge, one opponent.
The same figure by two instruments is two columns, and nothing is compared across them. A model is a name with its
revision, step and decoding: the same in two evaluations is one row, and two revisions of one name are two rows.

Differences are paired on the samples that both models have. Their p-values are corrected for the number of all
comparisons on the board (Holm).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, Field

from rubricworks.data import tables
from rubricworks.evaluation.ratings import CAPARENA, COMPARISONS, RATING_TITLES, TOURNAMENT, ratings
from rubricworks.evaluation.scoreboard import figure_name
from rubricworks.metrics import Interval, holm, mean_interval, paired_differences, paired_p_value

LEVEL = 0.05
MIN_SAMPLES = 30
_BY_TASK = frozenset({"answers", "geneval"})
_BENCHMARK = "benchmark_"
_RANK = "blind_ranking_rank"
_OF_LENGTH = frozenset({"length"})


class Instrument(NamedTuple):
    """Instrument of a column."""

    figure: str
    scorer: str
    version: str
    judge: str
    against: str | None
    """The opponent of a comparison, with its revision."""


class Cell(BaseModel, extra="forbid", frozen=True):
    """A model's figure in one column."""

    mean: Interval
    """Mean over all samples that the model was scored on."""
    difference: Interval | None = None
    """Minus the model that the board compares with, on the samples that both have."""
    p: float | None = None
    """P-value of the difference, corrected for the number of comparisons on the board."""
    lower_is_better: bool = False

    @property
    def mark(self) -> str:
        """`+` better, `-` worse: a difference significant on at least `MIN_SAMPLES` samples; else empty."""
        if self.p is None or self.p >= LEVEL or self.difference is None:
            return ""
        if (self.difference.samples or 0) < MIN_SAMPLES:
            return ""
        return "-" if (self.difference.value > 0) == self.lower_is_better else "+"


class Row(BaseModel, extra="forbid", frozen=True):
    """One model."""

    model: str = Field(examples=["policy"])
    revision: str = Field(examples=["3f5a9c"])
    step: int | None = Field(examples=[120])
    decoding: str = Field(examples=["greedy"])
    cells: dict[int, Cell] = Field(examples=[{"0": {"mean": {"value": 0.8, "low": 0.72, "high": 0.88}}}])
    """Number of the column → figure."""
    words: Interval | None = None
    """Words per response."""
    dollars: float | None = None
    """Cost of a response, of models at endpoints whose price is known."""
    evaluations: tuple[str, ...] = Field(default=(), examples=[["monday-1"]])
    """Names of the evaluations that scored it."""

    @property
    def label(self) -> str:
        return _label(self.model, self.step, self.decoding)


class Column(BaseModel, extra="forbid", frozen=True):
    """A figure by one instrument."""

    figure: str = Field(examples=["oracle_f1"])
    title: str = Field(examples=["F1 of the oracle"])
    scorer: str = Field(examples=["oracle"])
    version: str = Field(examples=["1"])
    judge: str = Field(examples=["judge@1"])
    against: str | None
    is_share: bool = Field(examples=[True])
    """All values lie in [0, 1]."""
    lower_is_better: bool = False


class RankDistribution(BaseModel, extra="forbid", frozen=True):
    """Ranks of the models in a blind ranking."""

    judge: str = Field(examples=["judge@1"])
    counts: dict[str, dict[int, int]] = Field(examples=[{"policy": {"1": 30, "2": 10}}])
    """Model → rank → number of samples, the best mean rank first."""


class Leaderboard(BaseModel, extra="forbid", frozen=True):
    """Models against scorers."""

    against: str = Field(examples=["base"])
    """Model that the others are compared with."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = Field(examples=[["policy was scored on 250 samples, base on 256"]])
    """Warnings about the board: instruments apart, samples that differ, scores that are missing."""
    comparisons: int = 0
    """Number of comparisons that the p-values are corrected for."""
    ranks: tuple[RankDistribution, ...] = ()
    """One per instrument of a blind ranking."""


class Source(NamedTuple):
    """One evaluation."""

    name: str
    scores: Iterable[tables.Row]
    """Rows of its table `scores`."""
    responses: Iterable[tables.Row] = ()
    """Rows of its table `responses`."""
    tasks: Mapping[str, str] = {}
    """Sample → task."""
    titles: Mapping[str, str] = {}
    """Figure → name on pages."""
    dollars: Mapping[str, float] = {}
    """Model → cost of a response."""
    heads: Sequence[str] = ()
    """Figures that it reports first; the board shows these."""
    lower_is_better: Sequence[str] = ()
    """Figures of which less is better."""
    base: str | None = None
    """Model that it compares with."""


_Model = tuple[str, str, int | None, str]


def leaderboard(sources: Sequence[Source], *, against: str | None = None, every_figure: bool = False) -> Leaderboard:
    """Build the board of several evaluations.

    Args:
        against: name of the model that the others are compared with, each with that of its own evaluation where that
            has one; by default the base of the first evaluation.
        every_figure: show every part of every scorer, not only the first.
    Raises:
        ValueError: there is no score, or no model of the name `against`.
    """
    collected = _Collected()
    for source in sources:
        collected.add(source)
    models = collected.models()
    if not models:
        raise ValueError("there are no scores of any model")
    names = {model[0] for model in models}
    chosen = against or next((source.base for source in sources if source.base in names), models[0][0])
    if chosen not in names:
        raise ValueError(f"no model is called {chosen}; they are {', '.join(sorted(names))}")
    columns = [
        instrument
        for instrument in collected.values
        if every_figure or instrument.figure in collected.heads(instrument)
    ]
    cells: dict[tuple[_Model, int], Cell] = {}
    raw: dict[tuple[_Model, int], float] = {}
    for number, instrument in enumerate(columns):
        for model in models:
            if cell := collected.cell(instrument, model, _peer(model, chosen, models, collected.evaluations)):
                mean, difference, p = cell
                cells[model, number] = Cell(
                    mean=mean, difference=difference, lower_is_better=collected.is_lower_better(instrument)
                )
                if p is not None:
                    raw[model, number] = p
    for key, p in holm(raw).items():
        cells[key] = cells[key].model_copy(update={"p": p})
    several = {name for name in names if len({model[1] for model in models if model[0] == name}) > 1}
    return Leaderboard(
        against=chosen,
        columns=tuple(collected.column(instrument, columns) for instrument in columns),
        rows=tuple(
            Row(
                model=f"{model[0]} ({model[1][:8] or 'no revision'})" if model[0] in several else model[0],
                revision=model[1],
                step=model[2],
                decoding=model[3],
                cells={number: cells[model, number] for number in range(len(columns)) if (model, number) in cells},
                words=collected.words_of(model),
                dollars=collected.dollars.get(model[0]),
                evaluations=tuple(collected.evaluations[model]),
            )
            for model in models
        ),
        notes=tuple(collected.notes(columns, models)),
        comparisons=len(raw),
        ranks=tuple(
            _ranks(instrument, values) for instrument, values in collected.values.items() if instrument.figure == _RANK
        ),
    )


def _ranks(instrument: Instrument, values: Mapping[_Model, Mapping[str, float | None]]) -> RankDistribution:
    counts = {
        _label(model[0], model[2], model[3]): dict(
            sorted(Counter(int(rank) for rank in ranks.values() if rank is not None).items())
        )
        for model, ranks in values.items()
    }
    by_mean = sorted(
        ((name, ranks) for name, ranks in counts.items() if ranks),
        key=lambda entry: sum(rank * count for rank, count in entry[1].items()) / sum(entry[1].values()),
    )
    return RankDistribution(judge=instrument.judge, counts=dict(by_mean))


def _label(name: str, step: int | None, decoding: str) -> str:
    at = "" if step is None else f" at {step}"
    return f"{name}{at}" + ("" if decoding == "greedy" else f", {decoding}")


def _peer(
    model: _Model, against: str, models: Sequence[_Model], evaluations: Mapping[_Model, Mapping[str, None]]
) -> _Model | None:
    """Model that another is compared with, preferably of the same evaluation and decoding; None for itself."""
    if model[0] == against:
        return None
    return max(
        (candidate for candidate in models if candidate[0] == against),
        key=lambda peer: (not evaluations[peer].keys().isdisjoint(evaluations[model]), peer[3] == model[3]),
        default=None,
    )


class _Collected:
    """Values of all evaluations by instrument and model."""

    def __init__(self) -> None:
        self.values: dict[Instrument, dict[_Model, dict[str, float | None]]] = {}
        self.corpus: dict[Instrument, dict[_Model, Interval]] = defaultdict(dict)
        self.dollars: dict[str, float] = {}
        self.evaluations: dict[_Model, dict[str, None]] = defaultdict(dict)
        self._titles: dict[str, str] = {}
        self._heads: dict[str, str] = {}
        self._shown: set[str] = set()
        self._tasks: dict[str, str] = {}
        self._lower: set[str] = set()
        self._words: dict[_Model, dict[str, float | None]] = defaultdict(dict)
        self._conflicts: dict[tuple[str, str], int] = defaultdict(int)
        self._missing: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        self._skipped: dict[str, str] = {}

    def add(self, source: Source) -> None:
        self._titles |= {**RATING_TITLES, **source.titles}
        self._lower |= {*source.lower_is_better}
        self._tasks |= source.tasks
        self.dollars |= source.dollars
        self._shown |= set(source.heads)
        rows = list(source.scores)
        revisions = {row["model"]: row["revision"] for row in rows}
        compared = [row for row in rows if row["scorer"] in COMPARISONS]
        for row in rows:
            self.evaluations[_model(row)][source.name] = None
            if row["scorer"] not in _OF_LENGTH and row["scorer"] != TOURNAMENT:
                self._add_score(row, revisions)
        self._add_ratings(compared)
        for row in source.responses:
            if "#" in row["sample_id"] or row.get("response_type"):
                continue  # a response under a word budget, or an image
            self._words[_model(row)].setdefault(row["sample_id"], float(len(row["response"].split())))

    def _add_score(self, row: tables.Row, revisions: Mapping[str, str]) -> None:
        figure = figure_name(row["scorer"], row["part"])
        self._heads.setdefault(row["scorer"], figure)
        opponent = None if row["scorer"] == CAPARENA else row["against"]
        against = _opponent(opponent, revisions.get(opponent, "")) if opponent else None
        instrument = Instrument(figure, row["scorer"], row["version"], row["judge"], against)
        model = _model(row)
        if row["sample_id"] is None:
            if row["value"] is not None:
                self.values.setdefault(instrument, {})
                self.corpus[instrument][model] = Interval(value=row["value"])
            return
        if row["value"] is None:
            if (row["reason"] or "").startswith("not available"):
                self._skipped[row["scorer"]] = row["reason"]
                return
            self._missing[row["scorer"], model[0]][row["sample_id"]] = row["reason"]
        values = self.values.setdefault(instrument, {}).setdefault(model, {})
        if row["sample_id"] in values and values[row["sample_id"]] != row["value"]:
            self._conflicts[figure, model[0]] += 1
            return
        values[row["sample_id"]] = row["value"]

    def _add_ratings(self, rows: Sequence[tables.Row]) -> None:
        """Ratings hold within one evaluation: its own models are the field."""
        revisions = {row["model"]: row["revision"] for row in rows}
        for scorer in (TOURNAMENT, CAPARENA):
            mine = [row for row in rows if row["scorer"] == scorer]
            if not mine:
                continue
            names = {row["model"] for row in mine} | {row["against"] for row in mine}
            field = ", ".join(sorted(names)) if scorer == TOURNAMENT else None
            self._heads[scorer] = "tournament_elo" if scorer == TOURNAMENT else "caparena_auto"
            for (name, step, decoding), figures in ratings(mine).items():
                for figure, interval in figures.items():
                    instrument = Instrument(figure, scorer, mine[0]["version"], mine[0]["judge"], field)
                    self.values.setdefault(instrument, {})
                    model = (name, revisions.get(name, self._revision(name)), step, decoding)
                    self.corpus[instrument][model] = interval

    def _revision(self, name: str) -> str:
        return next((model[1] for values in self.values.values() for model in values if model[0] == name), "")

    def models(self) -> list[_Model]:
        every = [model for values in self.values.values() for model in values]
        return list(dict.fromkeys([*every, *(model for values in self.corpus.values() for model in values)]))

    def heads(self, instrument: Instrument) -> set[str]:
        return self._shown | {self._heads.get(instrument.scorer, instrument.figure)}

    def is_lower_better(self, instrument: Instrument) -> bool:
        return instrument.figure in self._lower

    def words_of(self, model: _Model) -> Interval | None:
        return mean_interval(self._words.get(model, {}).values(), share=False)

    def cell(
        self, instrument: Instrument, model: _Model, peer: _Model | None
    ) -> tuple[Interval, Interval | None, float | None] | None:
        if model in self.corpus[instrument]:
            return self.corpus[instrument][model], None, None
        values = self.values[instrument].get(model, {})
        if not _counts(instrument, values):
            return None
        strata = self._strata(instrument, values)
        mean = mean_interval(values.values(), share=_is_share(values.values()), strata=strata)
        if mean is None:
            return None
        others = self.values[instrument].get(peer) if peer else None
        others = others if others and _counts(instrument, others) else None
        if peer and instrument.against == _opponent(peer[0], peer[1]):
            others = dict.fromkeys(values, 0.5)  # wins against that very model
        differences = paired_differences(values, others) if others else {}
        strata = self._strata(instrument, differences)
        difference = mean_interval(differences.values(), share=False, strata=strata)
        return mean, difference, paired_p_value(differences.values(), strata=strata) if difference else None

    def _strata(self, instrument: Instrument, values: Mapping[str, float | None]) -> list[str] | None:
        """Task of each sample, for scorers whose mean is the mean over tasks."""
        if instrument.scorer not in _BY_TASK and not instrument.scorer.startswith(_BENCHMARK):
            return None
        return [self._tasks.get(sample) or sample.rpartition("/")[0] or "all" for sample in values]

    def column(self, instrument: Instrument, columns: Sequence[Instrument]) -> Column:
        title = self._titles.get(instrument.figure) or instrument.figure.replace("_", " ").capitalize()
        return Column(
            **instrument._asdict(),
            title=title + self._suffix(instrument, columns),
            is_share=all(_is_share(values.values()) for values in self.values[instrument].values())
            and bool(self.values[instrument]),
            lower_is_better=self.is_lower_better(instrument),
        )

    def _suffix(self, instrument: Instrument, columns: Sequence[Instrument]) -> str:
        """Difference of a column from another one of the same figure."""
        twins = [column for column in columns if column.figure == instrument.figure and column != instrument]
        apart = {
            f"version {instrument.version}": any(twin.version != instrument.version for twin in twins),
            f"judge {instrument.judge or 'none'}": any(twin.judge != instrument.judge for twin in twins),
            f"against {instrument.against or 'none'}": any(twin.against != instrument.against for twin in twins),
        }
        told = [text for text, differs in apart.items() if differs]
        return f" ({', '.join(told)})" if told else ""

    def notes(self, columns: Sequence[Instrument], models: Sequence[_Model]) -> Iterable[str]:
        by_figure: dict[str, list[Instrument]] = defaultdict(list)
        for instrument in columns:
            by_figure[instrument.figure].append(instrument)
        for figure, several in by_figure.items():
            if len(several) > 1:
                ways = " and ".join(self._suffix(instrument, columns).strip(" ()") for instrument in several)
                yield f"{figure} was measured by {ways}: separate columns, and no difference is taken between them."
        for instrument in columns:
            sets = {frozenset(values) for values in self.values[instrument].values()}
            if len(sets) > 1:
                common = len(frozenset.intersection(*sets))
                yield (
                    f"{instrument.figure}: the models were scored on different samples, {common} of them in common; "
                    "compare the differences, which are paired, and not the means."
                )
        shown = {instrument.scorer for instrument in columns}
        for (scorer, model), reasons in self._missing.items():
            if scorer in shown:
                told = ", ".join(f"{count} x {reason}" for reason, count in Counter(reasons.values()).items())
                left_out = "so it has no mean" if scorer.startswith(_BENCHMARK) else "they are left out"
                yield f"{scorer}: {model} has no score on {len(reasons)} samples ({told}); {left_out}."
        for (figure, model), count in self._conflicts.items():
            yield f"{figure}: {count} samples of {model} have two scores; the first evaluation's count."
        for scorer, reason in self._skipped.items():
            yield f"{scorer} was skipped: {reason}."


def _opponent(name: str, revision: str) -> str:
    return f"{name} {revision[:8]}".strip()


def _model(row: tables.Row) -> _Model:
    return row["model"], row["revision"], row["step"], row["decoding"]


def _is_share(values: Iterable[float | None]) -> bool:
    return all(0 <= value <= 1 for value in values if value is not None)


def _counts(instrument: Instrument, values: Mapping[str, float | None]) -> bool:
    """Return True if these have a mean: a benchmark has none while a sample lacks a score."""
    return not (instrument.scorer.startswith(_BENCHMARK) and None in values.values())
