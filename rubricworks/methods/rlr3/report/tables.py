"""RLR³'s tables 1 to 4 as this run has them, laid out for the page."""

from typing import NamedTuple

from rubricworks.evaluation.answer_summary import BASE, Accuracy, AnswerSummary, Difference
from rubricworks.evaluation.corpus_statistics import CorpusStatistics, SourceCounts
from rubricworks.evaluation.summary import MeanScore
from rubricworks.methods.rlr3.genrm_report import FIGURES, GenrmReport
from rubricworks.methods.rlr3.report.curves import tasks_of
from rubricworks.methods.rlr3.report.run_figures import ARMS, NAMES, Rlr3Run
from rubricworks.methods.rlr3.report.summary import BETWEEN, GAINS, gain_name
from rubricworks.metrics import Estimate
from rubricworks.reports.charts import Tick, nice_ticks

GENRM_COLUMNS = dict(
    zip(
        FIGURES,
        ("Schema", "Criterion", "Execution", "Arguments", "Credit", "Criterion-level", "Sample-level"),
        strict=True,
    )
)
"""Figure → its column of table 4."""


class CorpusRow(NamedTuple):
    """Table 1; None where a stage has not finished."""

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
    """A model of table 2."""

    kind: str
    name: str
    note: str
    accuracy: Accuracy


class Score(NamedTuple):
    """One entry of table 2."""

    column: Column
    figure: MeanScore | None
    change: float | None
    """Over RLVR, beside which it stands."""


class TaskRow(NamedTuple):
    name: str
    questions: int
    missing: int
    """Answers of the models in this row that could not be judged."""
    scores: list[Score]


class Gain(NamedTuple):
    name: str
    difference: Difference

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.difference.low > 0 or self.difference.high < 0


class Lane(NamedTuple):
    """One model's figure on the axis of table 4's picture, in percent of it."""

    kind: str
    name: str
    estimate: Estimate
    at: float
    reach: tuple[float, float] | None
    """Where the interval begins and how wide it is."""


class GenrmRow(NamedTuple):
    name: str
    lanes: list[Lane]


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


def answer_columns(answers: AnswerSummary | None) -> list[Column]:
    """Base, each arm's best milestone, each arm's last one."""
    if answers is None:
        return []
    arms = [arm for arm in ARMS if answers.arms.get(arm)]
    best = [(arm, "best", answers.accuracy(arm)) for arm in arms]
    last = [(arm, "last", answers.arms[arm][-1]) for arm in arms]
    trained = [Column(arm, NAMES[arm], f"{which}, step {one.step}", one) for arm, which, one in best + last]
    return [Column(BASE, NAMES[BASE], "", answers.base), *trained]


def task_rows(answers: AnswerSummary | None) -> list[TaskRow]:
    """Table 2: a row per task, and the macro average."""
    columns = answer_columns(answers)
    if answers is None:
        return []
    rows = [_row(task, [column.accuracy.tasks.get(task) for column in columns], columns) for task in tasks_of(answers)]
    macro = _row("Macro average", [column.accuracy.macro for column in columns], columns)
    if (gain := answers.gains.get(BETWEEN)) is not None:
        # What is said above: on the questions that were judged for both.
        best = next(at for at, score in enumerate(macro.scores) if score.change is not None)
        macro.scores[best] = macro.scores[best]._replace(change=gain.value)
    return [*rows, macro]


def _row(name: str, figures: list[MeanScore | None], columns: list[Column]) -> TaskRow:
    scores = []
    for at, (column, figure) in enumerate(zip(columns, figures, strict=True)):
        beside = figures[at - 1] if column.kind == "rlr3" and columns[at - 1].kind == "rlvr" else None
        scores.append(Score(column, figure, figure.value - beside.value if figure and beside else None))
    there = [figure for figure in figures if figure]
    return TaskRow(
        name,
        questions=max((figure.samples + figure.missing for figure in there), default=0),
        missing=sum(figure.missing for figure in there),
        scores=scores,
    )


def gain_rows(answers: AnswerSummary | None) -> list[Gain]:
    """What is told first comes first."""
    gains = answers.gains if answers else {}
    return [Gain(gain_name(name), gains[name]) for name in GAINS if name in gains]


def genrm_rows(reports: dict[str, GenrmReport]) -> tuple[list[GenrmRow], list[Tick]]:
    """The picture of table 4: a row per figure, a lane per model; and the axis, cut off below what there is to see."""
    found = [estimate for report in reports.values() for name in FIGURES if (estimate := getattr(report, name))]
    if not found:
        return [], []
    ticks = nice_ticks(min(0.9, *(one.value if one.low is None else one.low for one in found)), 1.0)
    low, high = ticks[0], ticks[-1]

    def across(value: float) -> float:
        return 100 * (value - low) / (high - low)

    def lane(model: str, one: Estimate) -> Lane:
        reach = None
        if one.low is not None and one.high is not None:
            reach = across(one.low), across(one.high) - across(one.low)
        return Lane(model, NAMES.get(model, model), one, across(one.value), reach)

    rows = [
        GenrmRow(column, [lane(model, one) for model, report in reports.items() if (one := getattr(report, name))])
        for name, column in GENRM_COLUMNS.items()
    ]
    return rows, [Tick(across(tick), f"{100 * tick:g}") for tick in ticks]


def genrm_tasks(run: Rlr3Run) -> list[str]:
    """The source mix of table 3: every task in either split."""
    return sorted({task for split in run.genrm_data.values() for task in split.tasks})
