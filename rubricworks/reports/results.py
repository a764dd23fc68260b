"""Sections of an evaluation: scores of base and policy with paired gains, tasks, criteria that are met."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import NamedTuple

from rubricworks.evaluation.scoreboard import BASE, LENGTH, POLICY, WIN, Scoreboard
from rubricworks.metrics import Interval, mean_interval, paired_differences
from rubricworks.reports.charts import MilestoneCurve, SeriesChart, milestone_chart
from rubricworks.reports.data import SEVERITY
from rubricworks.reports.formats import (
    interval,
    number,
    percent,
    percent_interval,
    points,
    share,
    signed,
    signed_interval,
    span,
    whole,
)
from rubricworks.reports.headline import Mood, direction, doubt
from rubricworks.reports.page import Block
from rubricworks.reports.parts import (
    Cell,
    Charts,
    Entry,
    Heading,
    Lane,
    Part,
    Rate,
    Rates,
    Table,
    Text,
    Tile,
    WhiskerRow,
    Whiskers,
    compared,
)
from rubricworks.reports.run_folder import RunFolder
from rubricworks.reports.scores import STAGE, arena_order_changes, score_rows
from rubricworks.rubrics import Rubric, Scorecard

RUBRIC_STAGES = ("synthesize_rubrics", "peer_rubrics", "write_prompt_rubrics")
MIN_SHARE = 0.1
"""Smallest share of the graded samples. A rarer criterion reveals more about its images than about the models."""
_MAX_TITLES = 5_000
_SHARED = 6
_PAIRED = (
    "In percent. Under each number its 95 % interval. Gains are taken sample by sample over those judged for both, so "
    "what is hard for both cancels out. Tokens are a length: more is neither better nor worse."
)


def results(run: RunFolder, *, missing: Mapping[str, str] | None = None, note: str = "") -> Block:
    """Scores of every decoding, and of every model if there are more than two.

    Args:
        missing: figure → sentence if neither model has it.
        note: what the scores mean.
    """
    board = run.board
    if board is None or not board.models:
        text = "There is no evaluation: the score stage has not finished in this run."
        return Block("results", "Held-out results", [Text(text, "missing")], name="Results")
    parts: list[Part] = []
    if run.stage == STAGE:
        sentence, mood = _sentence(board)
        parts.append(Text(sentence, f"headline {mood}"))
    for pair, difference in board.differences.items():
        parts.append(Text(_difference_note(pair, difference)))
    for decoding in board.decodings:
        if len(board.decodings) > 1:
            parts.append(Heading(f"{decoding.capitalize()} responses"))
        parts += _scores(board, decoding)
    parts.append(Text(f"{_PAIRED} {note}".strip(), "quiet"))
    if len({scores.model for scores in board.models}) > 2:
        if chart := _milestones(board):
            parts.append(Charts([chart], "multiples two"))
        parts.append(_models_table(board))
    parts += _task_tables(board)
    if changes := arena_order_changes(run.path, decoding=board.decoding):
        parts.append(
            Text(
                "When the captions change places, the pairwise judge's verdict changes in "
                f"{percent(changes.value)} of comparisons ({percent_interval(changes)})."
            )
        )
    figures = {figure for scores in board.models for figure in scores.means}
    parts += [Text(text, "missing") for figure, text in (missing or {}).items() if figure not in figures]
    return Block("results", "Held-out results", parts, name="Results", metrics=board.metrics())


def gain_tile(board: Scoreboard, figure: str, label: str = "") -> Tile | None:
    """Tile of a figure of base and policy with the paired gain; None if neither has it."""
    base, policy = board.mean(board.base, figure), board.mean(board.candidate or "", figure)
    if base is None and policy is None:
        return None
    gain = board.gain(board.candidate or "", figure)
    plain = figure == LENGTH

    def text(mean: Interval | None) -> str:
        return number(mean.value if mean else None, 1) if plain else share(mean.value if mean else None)

    note = "no sample was judged for both"
    if gain:
        unclear = "" if plain else doubt(gain)
        amount = (
            f"{signed(gain.value, 1)} ({signed_interval(gain, 1)})"
            if plain
            else f"{points(gain.value)} points ({span(gain)})"
        )
        note = f"{amount}{f': {unclear}' if unclear else ''}"
    kind = "worse" if not plain and _mood(board, figure, gain) == "bad" else ""
    return Tile(label or board.title(figure), text(policy), note, text(base), kind)


def win_tile(board: Scoreboard) -> Tile | None:
    """Tile of the arena; None without one."""
    if (win := board.mean(board.candidate or "", WIN)) is None:
        return None
    mood, unclear = direction(win, 0.5), doubt(win, 0.5)
    note = f"{percent_interval(win)}{f': {unclear}' if unclear else ''}"
    return Tile(
        "Won against the base", percent(win.value), note, kind={"good": "", "bad": "worse", "open": "none"}[mood]
    )


def _scores(board: Scoreboard, decoding: str) -> list[Part]:
    """Picture and table of the figures of base and candidate."""
    candidate = board.candidate or board.base
    figures = [figure for figure in board.titles if figure not in (WIN, LENGTH)]
    pairs = {
        figure: (board.mean(board.base, figure, decoding), board.mean(candidate, figure, decoding))
        for figure in [*figures, LENGTH]
    }
    names = (_name(board.base), _name(candidate))
    rows: list[WhiskerRow] = []
    table: list[list[Entry]] = []
    for figure, pair in pairs.items():
        if pair == (None, None):
            continue
        is_share = figure != LENGTH and all(0 <= mean.value <= 1 for mean in pair if mean)
        gain = board.gain(candidate, figure, decoding)
        if is_share and _is_drawn(board, figure):
            rows.append(compared(board.title(figure), *pair, names=names))
        means = [_mean(mean, is_share=is_share) for mean in pair]
        table.append(
            [
                board.title(figure),
                *means,
                _gain(gain, "open" if figure == LENGTH else _mood(board, figure, gain), is_share=is_share),
                _count(gain),
            ]
        )
    if win := board.mean(candidate, WIN, decoding):
        rows.append(WhiskerRow("Won against the base", [Lane("policy", names[1], win)], percent(win.value)))
        won = Cell(share(win.value), span(win))
        table.append(["Won against the base, a tie counts ½", None, won, None, _count(win)])
    columns = ("Score", *(name[0].upper() + name[1:] for name in names), "Policy − base", "Samples")  # noqa: RUF001
    return [*([Whiskers(rows)] if rows else []), Table(columns, table)]


def _is_drawn(board: Scoreboard, figure: str) -> bool:
    """Return True for figures that are reported first, and for the parts of b-CapScore."""
    return figure in board.headlines or figure.startswith("b_capscore")


def _name(model: str) -> str:
    return {BASE: "base model", POLICY: "trained policy"}.get(model, model)


def _mean(mean: Interval | None, *, is_share: bool) -> Cell | None:
    if mean is None:
        return None
    if is_share:
        return Cell(share(mean.value), span(mean) if mean.bounds else "")
    return Cell(number(mean.value, 1), interval(mean, 1) if mean.bounds else "")


def _mood(board: Scoreboard, figure: str, gain: Interval | None) -> Mood:
    return direction(gain, lower_is_better=figure in board.lower_is_better)


def _gain(gain: Interval | None, mood: Mood, *, is_share: bool) -> Cell | None:
    if gain is None:
        return None
    kind = {"good": "up", "bad": "down", "open": ""}[mood]
    if not is_share:
        return Cell(signed(gain.value, 1), signed_interval(gain, 1), kind)
    unclear = doubt(gain)
    return Cell(points(gain.value), f"{span(gain)}{f', {unclear}' if unclear else ''}", kind)


def _count(figure: Interval | None) -> Cell | None:
    if figure is None or figure.samples is None:
        return None
    return Cell(whole(figure.samples), f"{whole(figure.missing)} not judged" if figure.missing else "")


def _sentence(board: Scoreboard) -> tuple[str, Mood]:
    """Say whether the candidate beats the base: by the arena, else by the first figure."""
    candidate = board.candidate
    figure = next((name for name in (WIN, *board.headlines) if candidate and board.mean(candidate, name)), None)
    if candidate is None or figure is None:
        return "No model was compared with another.", "open"
    mean = board.mean(candidate, figure)
    assert mean is not None
    if figure == WIN:
        return f"{candidate} wins {percent(mean.value)} of its comparisons with {board.base}.", direction(mean, 0.5)
    base = board.mean(board.base, figure)
    before = f"{number(base.value)} → " if base else ""
    mood = _mood(board, figure, board.gain(candidate, figure))
    return f"{board.title(figure)} of {candidate}: {before}{number(mean.value)}.", mood


def _difference_note(pair: str, difference: Interval) -> str:
    first, _, second = pair.partition(" - ")
    clear = difference.lies_above(0) or difference.lies_below(0)
    return (
        f"{first} against {second}, best milestones: {signed(difference.value, 3)} ({signed_interval(difference, 3)})"
        f"{'' if clear else ', not distinguishable'}."
    )


def _milestones(board: Scoreboard) -> SeriesChart | None:
    """Chart of the first figure over the milestones of every trained model; None unless it is a share."""
    figure = next(iter(board.headlines), None)
    if figure is None or not board.best:
        return None
    curves = [
        MilestoneCurve(
            # The classes of two trained models beside each other.
            "rlr3" if model == board.candidate else "rlvr",
            model,
            [
                (scores.step, scores.means[figure])
                for scores in board.milestones(model)
                if scores.step and figure in scores.means
            ],
            step,
        )
        for model, step in board.best.items()
    ]
    if any(not 0 <= mean.value <= 1 for milestones in curves for _, mean in milestones.points):
        return None
    return milestone_chart(f"{board.title(figure)}, %", board.mean(board.base, figure), curves)


def _models_table(board: Scoreboard) -> Table:
    """One row per model, step and decoding; one column per figure that is reported first."""
    figures = [*board.headlines, LENGTH]
    rows = [
        (
            scores.model,
            scores.step,
            scores.decoding,
            *(number(scores.means[figure].value, 3) if figure in scores.means else None for figure in figures),
        )
        for scores in board.models
    ]
    return Table(("Model", "Step", "Decoding", *map(board.title, figures)), rows, "All models")


def _task_tables(board: Scoreboard) -> Iterator[Table]:
    """One table per figure that is averaged by task: one column per model, at its best milestone."""
    names = dict.fromkeys(scores.model for scores in board.models)
    models = [scores for model in names if (scores := board.scores(model))]
    for figure in dict.fromkeys(figure for scores in models for figure in scores.tasks):
        tasks = sorted({task for scores in models for task in scores.tasks.get(figure, {})})
        rows = [(task, *(_number(scores.tasks.get(figure, {}).get(task)) for scores in models)) for task in tasks]
        total = ("Macro average", *(_number(scores.means.get(figure)) for scores in models))
        columns = [f"{scores.model}, step {scores.step}" if scores.step else scores.model for scores in models]
        yield Table(("Task", *columns), [*rows, total], f"{board.title(figure)}, by task", total=True)


def _number(mean: Interval | None) -> str | None:
    return None if mean is None else number(mean.value, 3)


class TaskResult(NamedTuple):
    """Share of right responses of base and policy in one task, and their paired difference."""

    task: str
    base: Interval | None
    policy: Interval | None
    difference: Interval | None


def task_results(run: RunFolder, scorer: str) -> list[TaskResult]:
    """Results of a scorer by task, tasks in alphabetical order; none without an evaluation by it."""
    values: dict[str, dict[str, dict[str, float | None]]] = defaultdict(lambda: defaultdict(dict))
    rows = score_rows(run.path, ["sample_id", "model", "decoding", "scorer", "value"])
    scored = [row for row in rows if row["scorer"] == scorer and row["decoding"] == run.decoding]
    tasks = run.tasks() if scored else {}
    for row in scored:
        values[tasks.get(row["sample_id"], "")][row["model"]][row["sample_id"]] = row["value"]
    judged = {
        task: of for task, of in values.items() if any(value is not None for by in of.values() for value in by.values())
    }
    return [_task_result(task, judged[task]) for task in sorted(judged)]


def _task_result(task: str, by_model: Mapping[str, Mapping[str, float | None]]) -> TaskResult:
    base, policy = by_model.get(BASE, {}), by_model.get(POLICY, {})
    of_base, of_policy = (mean_interval(of.values()) if of else None for of in (base, policy))
    difference = mean_interval(paired_differences(policy, base).values(), share=False)
    return TaskResult(task, of_base, of_policy, difference)


def task_block(
    id: str,
    title: str,
    tasks: list[TaskResult],
    *,
    names: tuple[str, str],
    missing: str,
    total: tuple[Interval | None, Interval | None, Interval | None] | None = None,
) -> Block:
    """Section of task results.

    Args:
        missing: sentence if there are none.
        total: base, policy and gain over all tasks.
    """
    if not tasks:
        return Block(id, title, [Text(missing, "missing")])
    rows: list[list[Entry]] = [_task_row(result.task.replace("_", " "), *result[1:]) for result in tasks]
    if total:
        rows.append([*_task_row("Mean over tasks", *total)[:-1], None])
    columns = ("Task", *(name[0].upper() + name[1:] for name in names), "Difference, paired", "Samples")
    return Block(
        id,
        title,
        [
            Whiskers([compared(result.task.replace("_", " "), result.base, result.policy, names) for result in tasks]),
            Table(columns, rows, total=total is not None),
        ],
    )


def _task_row(name: str, base: Interval | None, policy: Interval | None, difference: Interval | None) -> list[Entry]:
    means = [Cell(percent(mean.value), percent_interval(mean)) if mean else None for mean in (base, policy)]
    change = Cell(signed(difference.value, 3), signed_interval(difference, 3)) if difference else None
    counted = policy or base
    return [name, *means, change, counted.samples if counted else None]


def criteria(run: RunFolder) -> Block:
    """Held-out criteria that base and policy meet: by weight and key, and those that many samples share."""
    title = "Criteria met, before and after"
    rubrics = {
        row["sample_id"]: Rubric.model_validate_json(row["rubric"]).criteria
        for stage in RUBRIC_STAGES
        for row in run.rows(stage, ["sample_id", "rubric"])
    }
    groups: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    graded = 0
    weights = {(key, criterion.criterion): criterion.weight for key, of in rubrics.items() for criterion in of}
    keys = {(key, criterion.criterion): criterion.key for key, of in rubrics.items() for criterion in of}
    for model, scorecard in _scorecards(run):
        graded += model == POLICY
        for verdict in scorecard.verdicts:
            criterion = (scorecard.sample_id, verdict.criterion)
            if verdict.credit is None:
                continue
            if criterion in weights:
                groups["weight"][f"{weights[criterion]:g}"][model].append(verdict.credit)
            if key := keys.get(criterion):
                groups["key"][key][model].append(verdict.credit)
            if verdict.criterion in groups["title"] or len(groups["title"]) < _MAX_TITLES:
                groups["title"][verdict.criterion][model].append(verdict.credit)
    if not graded:
        return Block(
            "criteria", title, [Text("No criterion was judged on held-out samples.", "missing")], name="Criteria"
        )
    by_weight = sorted(groups["weight"].items(), key=lambda item: -float(item[0]))
    by_key = sorted(groups["key"].items(), key=lambda item: (-len(item[1][POLICY]), item[0]))
    least = max(2, MIN_SHARE * graded)
    shared = [(name, of) for name, of in groups["title"].items() if min(len(of[BASE]), len(of[POLICY])) >= least]
    shared.sort(key=lambda item: (-len(item[1][POLICY]), item[0]))
    parts = [
        Rates("By severity", [_rate(f"{weight} {SEVERITY.get(weight, '')}", "", of) for weight, of in by_weight]),
        Rates("By rubric key", [_rate(key, f"{len(of[POLICY])} verdicts", of) for key, of in by_key]),
        Rates(
            "Criteria that many samples share",
            [_rate(name, f"{len(of[POLICY])} samples", of) for name, of in shared[:_SHARED]],
        ),
    ]
    return Block("criteria", title, [part for part in parts if part.rates], name="Criteria")


def _rate(name: str, note: str, credits: Mapping[str, list[float]]) -> Rate:
    base, policy = (fmean(credits[model]) if credits.get(model) else None for model in (BASE, POLICY))
    return Rate(name.strip(), note, base, policy)


def _scorecards(run: RunFolder) -> Iterator[tuple[str, Scorecard]]:
    """Model and scorecard of each graded response."""
    for row in score_rows(run.path, ["model", "scorer", "decoding", "evidence"]):
        if row["scorer"] == "rubric" and row["decoding"] == run.decoding and row["evidence"]:
            yield row["model"], Scorecard.model_validate_json(row["evidence"])
