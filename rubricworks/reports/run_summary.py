"""Summary of a run (`summary.json`), of one schema for all methods: for programs, and for the last lines of a run."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from rubricworks.evaluation.scoreboard import LENGTH, WIN, Scoreboard
from rubricworks.metrics import Interval
from rubricworks.reports.costs import seconds_by_stage
from rubricworks.reports.idle_training import learnt_nothing
from rubricworks.reports.run_folder import RunFolder

SUMMARY_FILE = "summary.json"


class Pair(BaseModel):
    """One figure of the base and of the candidate for promotion; None where it was not measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: float | None = None
    policy: float | None = None


class FigureSummary(Pair):
    """One figure of base and candidate, with the candidate's gain."""

    gain: Interval | None = None
    """Candidate minus base, on the same samples."""


class DecodingSummary(BaseModel):
    """Held-out scores with one decoding."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    win_rate: Interval | None = None
    """Candidate against the base in the arena; a tie counts one half."""
    scores: dict[str, FigureSummary] = {}
    """Figure → base and candidate, for the first figure of each scorer."""


class RunSummary(DecodingSummary):
    """Results of a run. The scores at the top level are of the decoding that is reported first: greedy."""

    run: str
    method: str
    simulated: bool
    """True if the scene world stood in for images and models."""
    oracle_f1: Pair = Pair()
    rubric_reward: Pair = Pair()
    """Figures, named as in `scores`."""
    decodings: dict[str, DecodingSummary] = {}
    """Other decodings, such as `sampled`."""
    seconds: dict[str, float]
    """`total`, and the time of each stage; concurrent stages both count in full."""
    cost: float
    """Dollars."""
    promoted: bool
    gate: str
    """Result of the gate as a sentence."""
    alarm: str | None
    learnt_nothing: str = ""
    """Sentence about trainings that had nothing to learn from; empty if there is none."""
    dead_letters: int
    details: dict[str, JsonValue] = {}
    """Figures of this method only."""


def run_summary(run: RunFolder, *, method: str, alarm: str | None, details: dict[str, JsonValue]) -> RunSummary:
    board, promotion = run.board, run.promotion
    first = decoding_summary(board, board.decoding) if board else DecodingSummary()
    others = [decoding for decoding in board.decodings if decoding != board.decoding] if board else []
    return RunSummary(
        **dict(first),
        run=run.path.name,
        method=method,
        simulated=bool(run.recipe.get("world")),
        oracle_f1=_pair(first, "oracle_f1"),
        rubric_reward=_pair(first, "rubric_reward"),
        decodings={decoding: decoding_summary(board, decoding) for decoding in others if board},
        seconds=seconds_by_stage(run.costs),
        cost=sum(cost.cost for cost in run.costs),
        promoted=promotion is not None and promotion.promoted,
        gate="; ".join(promotion.reasons) if promotion else "the promote stage has not finished",
        alarm=alarm,
        learnt_nothing=learnt_nothing(run),
        dead_letters=sum(letters.count for letters in run.dead_letters),
        details=details,
    )


def decoding_summary(board: Scoreboard, decoding: str) -> DecodingSummary:
    candidate = board.candidate or ""
    figures = {
        figure: FigureSummary(
            base=_value(board.mean(board.base, figure, decoding)),
            policy=_value(board.mean(candidate, figure, decoding)),
            gain=board.gain(candidate, figure, decoding),
        )
        for figure in (*board.headlines, LENGTH)
        if figure != WIN
    }
    measured = {name: pair for name, pair in figures.items() if pair.base is not None or pair.policy is not None}
    return DecodingSummary(win_rate=board.mean(candidate, WIN, decoding), scores=measured)


def read_summary(run: Path) -> RunSummary:
    """Read the summary that a run's report wrote."""
    return RunSummary.model_validate_json((run / SUMMARY_FILE).read_bytes())


def last_lines(summary: RunSummary) -> list[str]:
    """Lines about the outcome that every method prints last."""
    lines = [*([summary.learnt_nothing] if summary.learnt_nothing else [])]
    lines.append("promoted to champion" if summary.promoted else f"not promoted: {summary.gate}")
    return [*lines, f"ALARM: {summary.alarm}"] if summary.alarm else lines


def _pair(summary: DecodingSummary, figure: str) -> Pair:
    pair = summary.scores.get(figure, Pair())
    return Pair(base=pair.base, policy=pair.policy)


def _value(mean: Interval | None) -> float | None:
    return None if mean is None else mean.value
