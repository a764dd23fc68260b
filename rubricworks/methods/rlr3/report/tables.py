"""RLR³'s Tables 1 to 4 for this run, laid out for the page."""

from itertools import zip_longest
from typing import NamedTuple

from rubricworks.evaluation.corpus_statistics import CorpusStatistics, SourceCounts
from rubricworks.evaluation.scoreboard import BASE
from rubricworks.methods.rlr3.accuracy import ARM_GAIN, ARMS, Accuracies, Accuracy
from rubricworks.methods.rlr3.genrm_report import MEASURES, GenrmReport
from rubricworks.methods.rlr3.report.curves import task_names
from rubricworks.methods.rlr3.report.run_results import NAMES, Rlr3Run
from rubricworks.methods.rlr3.report.summary import GAINS, gain_name
from rubricworks.metrics import Interval
from rubricworks.reports.charts import Tick, nice_ticks

GENRM_COLUMNS = dict(
    zip(
        MEASURES,
        ("Schema", "Criterion", "Execution", "Arguments", "Credit", "Criterion-level", "Sample-level"),
        strict=True,
    )
)
"""Measure → column of Table 4."""


class CorpusRow(NamedTuple):
    """Row of Table 1; None where a stage has not finished."""

    name: str
    raw: int | None
    deduplicated: int | None
    filtered_any: int | None
    filtered_essential: int | None
    mcq: tuple[float | None, float | None, float | None]
    """De-duplicated, converted, filtered."""
    reward: tuple[float | None, float | None]
    """Converted, filtered."""


class Column(NamedTuple):
    """Model of Table 2."""

    kind: str
    name: str
    note: str
    accuracy: Accuracy


class Score(NamedTuple):
    """Entry of Table 2."""

    column: Column
    figure: Interval | None
    change: float | None
    """Difference from RLVR in the column before."""


class TaskRow(NamedTuple):
    name: str
    questions: int
    missing: int
    """Answers of all models in this row that could not be judged."""
    scores: list[Score]


class Gain(NamedTuple):
    name: str
    difference: Interval

    @property
    def clear(self) -> bool:
        """True if the interval excludes 0."""
        return self.difference.lies_above(0) or self.difference.lies_below(0)


class Lane(NamedTuple):
    """Estimate of one model in the chart of Table 4, in percent of its axis."""

    kind: str
    name: str
    estimate: Interval
    at: float
    reach: tuple[float, float] | None
    """Start and width of the interval."""


class GenrmRow(NamedTuple):
    name: str
    lanes: list[Lane]


def corpus_rows(source: SourceCounts | None, corpus: CorpusStatistics | None) -> list[CorpusRow]:
    """Rows of Table 1: one for each source of the run, and one for all where there are several."""
    total = corpus_row(source, corpus)
    sources, corpora = source.corpora if source else (), corpus.corpora if corpus else ()
    rows = [corpus_row(*pair) for pair in zip_longest(sources, corpora)]
    return [row for row in (*rows, total) if row is not None]


def corpus_row(source: SourceCounts | None, corpus: CorpusStatistics | None) -> CorpusRow | None:
    if source is None and corpus is None:
        return None
    of_corpus = corpus.model_dump() if corpus else {}
    return CorpusRow(
        name=(corpus.name if corpus else "") or (source.name if source else ""),
        raw=source.raw if source else of_corpus.get("raw"),
        deduplicated=source.deduplicated if source else of_corpus.get("deduplicated"),
        filtered_any=of_corpus.get("filtered_any"),
        filtered_essential=of_corpus.get("filtered_essential"),
        mcq=(
            source.mcq_ratio if source else of_corpus.get("mcq_deduplicated"),
            of_corpus.get("mcq_converted"),
            of_corpus.get("mcq_filtered"),
        ),
        reward=(of_corpus.get("initial_reward_converted"), of_corpus.get("initial_reward_filtered")),
    )


def answer_columns(answers: Accuracies | None) -> list[Column]:
    """Base, each arm's best milestone, each arm's last one."""
    if answers is None:
        return []
    arms = [arm for arm in ARMS if answers.arms.get(arm)]
    best = [(arm, "best", answers.accuracy(arm)) for arm in arms]
    last = [(arm, "last", answers.arms[arm][-1]) for arm in arms]
    trained = [Column(arm, NAMES[arm], f"{which}, step {one.step}", one) for arm, which, one in best + last]
    return [Column(BASE, NAMES[BASE], "", answers.base), *trained]


def task_rows(answers: Accuracies | None) -> list[TaskRow]:
    """Table 2: a row per task, and the macro average."""
    columns = answer_columns(answers)
    if answers is None:
        return []
    rows = [
        _row(task, [column.accuracy.tasks.get(task) for column in columns], columns) for task in task_names(answers)
    ]
    macro = _row("Macro average", [column.accuracy.macro for column in columns], columns)
    if (gain := answers.gains.get(ARM_GAIN)) is not None:
        # The gain as in the headline: over the questions that were judged for both arms.
        best = next(at for at, score in enumerate(macro.scores) if score.change is not None)
        macro.scores[best] = macro.scores[best]._replace(change=gain.value)
    return [*rows, macro]


def _row(name: str, figures: list[Interval | None], columns: list[Column]) -> TaskRow:
    scores = []
    for at, (column, figure) in enumerate(zip(columns, figures, strict=True)):
        baseline = figures[at - 1] if column.kind == "rlr3" and columns[at - 1].kind == "rlvr" else None
        scores.append(Score(column, figure, figure.value - baseline.value if figure and baseline else None))
    measured = [figure for figure in figures if figure]
    return TaskRow(
        name,
        questions=max(((figure.samples or 0) + figure.missing for figure in measured), default=0),
        missing=sum(figure.missing for figure in measured),
        scores=scores,
    )


def gain_rows(answers: Accuracies | None) -> list[Gain]:
    """Gains between arms and over the base model, in the order of `GAINS`."""
    gains = answers.gains if answers else {}
    return [Gain(gain_name(name), gains[name]) for name in GAINS if name in gains]


def genrm_chart(reports: dict[str, GenrmReport]) -> tuple[list[GenrmRow], list[Tick]]:
    """Chart of Table 4, a row per measure and a lane per model, and its axis, which starts below the lowest value."""
    estimates = [estimate for report in reports.values() for name in MEASURES if (estimate := getattr(report, name))]
    if not estimates:
        return [], []
    ticks = nice_ticks(min(0.9, *(one.value if one.low is None else one.low for one in estimates)), 1.0)
    low, high = ticks[0], ticks[-1]

    def across(value: float) -> float:
        return 100 * (value - low) / (high - low)

    def lane(model: str, one: Interval) -> Lane:
        reach = None
        if one.bounds:
            start, end = map(across, one.bounds)
            reach = start, end - start
        return Lane(model, NAMES.get(model, model), one, across(one.value), reach)

    rows = [
        GenrmRow(column, [lane(model, one) for model, report in reports.items() if (one := getattr(report, name))])
        for name, column in GENRM_COLUMNS.items()
    ]
    return rows, [Tick(across(tick), f"{100 * tick:g}") for tick in ticks]


def genrm_tasks(run: Rlr3Run) -> list[str]:
    """Tasks of Table 3's source mix, in either split."""
    return sorted({task for split in run.genrm_data.values() for task in split.tasks})
