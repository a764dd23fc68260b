"""View of the stage `score`: scores of all models, over milestones where they were scored, and responses side by side.

Responses to questions stand beside the reference, with whether they are right.
"""

import json
from collections.abc import Iterator

from rubricworks.evaluation.scoreboard import BASE, LENGTH, POLICY, WIN, Scoreboard
from rubricworks.grading import GradedCaption
from rubricworks.metrics import Interval
from rubricworks.reports.comparison import Comparison
from rubricworks.reports.formats import number, percent, signed, signed_interval
from rubricworks.reports.headline import Mood, is_small
from rubricworks.reports.milestone_charts import MilestoneCurve, milestone_chart
from rubricworks.reports.samples import draw_samples
from rubricworks.reports.scores import ScoredResponse, preferred, read_board, scored_ids, scored_responses
from rubricworks.reports.series_charts import SeriesChart
from rubricworks.reports.views.data import question_text
from rubricworks.reports.views.parts import (
    CARD_COUNT,
    MAX_CHECKS,
    SEED,
    Card,
    Check,
    FinishedStage,
    Passage,
    Table,
    View,
    picture,
)
from rubricworks.rubrics import Scorecard

_RIGHT = "answers_right"
_MAX_PASSAGES = 4
_NAMES = {BASE: "Base model", POLICY: "Trained policy"}
_CLAIMS = "What the trained policy claims, verified in the image or not"


def scores(stage: FinishedStage) -> View:
    board = read_board(stage.run)
    if board is None or not board.models:
        return View("Nothing was scored.")
    sentence, mood = _sentence(board)
    figures = [figure for figure in board.titles if figure not in (WIN, LENGTH)]
    candidate = board.candidate or board.base
    comparisons = [
        Comparison(board.title(figure), board.mean(board.base, figure), board.mean(candidate, figure))
        for figure in figures
    ]
    return View(
        sentence=sentence,
        mood=mood,
        notes=[_difference_note(names, difference) for names, difference in board.differences.items()],
        metrics=board.metrics(),
        series=[chart] if (chart := _milestones(board)) else [],
        comparisons=[one for one in comparisons if _in_unit_range(one)],
        win_rate=board.mean(candidate, WIN),
        names=(_legend_name(board.base), _legend_name(candidate)),
        tables=[_table(board), *_task_tables(board)],
        cards_title=f"Before and after: {board.decoding} responses to held-out samples",
        cards=list(_cards(stage, board, candidate)),
    )


def _legend_name(model: str) -> str:
    return _NAMES[model].lower() if model in _NAMES else model


def _sentence(board: Scoreboard) -> tuple[str, Mood]:
    """Say whether the candidate beats the base: by the arena, else by the first figure."""
    candidate = board.candidate
    figure = next((one for one in (WIN, *board.headlines) if candidate and board.mean(candidate, one)), None)
    if candidate is None or figure is None:
        return "No model was compared with another.", "open"
    if figure == WIN:
        win = board.mean(candidate, WIN)
        assert win is not None
        return f"{candidate} wins {percent(win.value)} of its comparisons with {board.base}.", _mood(win, 0.5)
    base, gain = board.mean(board.base, figure), board.gain(candidate, figure)
    mean = board.mean(candidate, figure)
    assert mean is not None
    before = f"{number(base.value)} → " if base else ""
    return f"{board.title(figure)} of {candidate}: {before}{number(mean.value)}.", _mood(gain, 0.0) if gain else "open"


def _mood(interval: Interval, level: float) -> Mood:
    if is_small(interval):
        return "open"
    return "good" if interval.lies_above(level) else "bad" if interval.lies_below(level) else "open"


def _in_unit_range(comparison: Comparison) -> bool:
    values = [one.value for one in (comparison.base, comparison.policy) if one]
    return bool(values) and all(0 <= value <= 1 for value in values)


def _table(board: Scoreboard) -> Table:
    """One row per model, step and decoding; one column per figure that is reported first."""
    figures = [*board.headlines, LENGTH]
    rows = [
        (
            one.model,
            one.step,
            one.decoding,
            *(number(one.means[figure].value, 3) if figure in one.means else None for figure in figures),
        )
        for one in board.models
    ]
    return Table("Scores", ("Model", "Step", "Decoding", *map(board.title, figures)), rows)


def _difference_note(names: str, difference: Interval) -> str:
    one, _, other = names.partition(" - ")
    clear = difference.lies_above(0) or difference.lies_below(0)
    return (
        f"{one} against {other}, best milestones: {signed(difference.value, 3)} ({signed_interval(difference, 3)})"
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
            [(one.step, one.means[figure]) for one in board.milestones(model) if one.step and figure in one.means],
            step,
        )
        for model, step in board.best.items()
    ]
    if any(not 0 <= mean.value <= 1 for curve in curves for _, mean in curve.points):
        return None
    return milestone_chart(f"{board.title(figure)}, %", board.mean(board.base, figure), curves)


def _task_tables(board: Scoreboard) -> Iterator[Table]:
    """One table per figure that is averaged by task: one column per model, at its best milestone."""
    models = [one for model in _model_names(board) if (one := board.scores(model))]
    for figure in dict.fromkeys(figure for one in models for figure in one.tasks):
        tasks = sorted({task for one in models for task in one.tasks.get(figure, {})})
        rows = [(task, *(_cell(one.tasks.get(figure, {}).get(task)) for one in models)) for task in tasks]
        columns = [f"{one.model}, step {one.step}" if one.step else one.model for one in models]
        yield Table(
            f"{board.title(figure)}, by task",
            ("Task", *columns),
            [*rows, ("Macro average", *(_cell(one.means.get(figure)) for one in models))],
        )


def _cell(mean: Interval | None) -> str | None:
    return None if mean is None else number(mean.value, 3)


def _model_names(board: Scoreboard) -> list[str]:
    return list(dict.fromkeys(one.model for one in board.models))


def _cards(stage: FinishedStage, board: Scoreboard, candidate: str) -> Iterator[Card]:
    ids = draw_samples(scored_ids(stage.run), CARD_COUNT, SEED)
    responses = scored_responses(stage.run, ids, decoding=board.decoding, steps=board.best)
    samples = stage.samples(ids)
    for sample_id in ids:
        sample = samples.get(sample_id, {})
        by_model = {model: one for model in _model_names(board) if (one := responses.get((sample_id, model)))}
        base, policy = by_model.get(board.base), by_model.get(candidate)
        favourite = preferred(policy)
        # Of many models, base and candidate are compared.
        shown = by_model if len(by_model) <= _MAX_PASSAGES else {board.base: base, candidate: policy}
        passages = [
            _passage(board, model, one, favourite, is_candidate=model == candidate)
            for model, one in shown.items()
            if one
        ]
        if sample.get("answer"):
            passages.insert(0, Passage("Question", question_text(sample)))
        checks, title = list(_checks(base, policy))[:MAX_CHECKS], ""
        if not checks:
            checks, title = list(_claims(policy))[:MAX_CHECKS], _CLAIMS
        note, judgment = sample.get("task") or "", policy.judgment if policy else ""
        yield Card(sample_id, picture(sample), passages, checks, title, note=note, judgment=judgment)


def _passage(
    board: Scoreboard, model: str, response: ScoredResponse, favourite: str | None, *, is_candidate: bool
) -> Passage:
    kind = "base" if model == board.base else "policy"
    name = _NAMES.get(model, model)
    chip = "preferred" if favourite == kind and (kind == "base" or is_candidate) else ""
    if _RIGHT in response.values:
        right = response.values[_RIGHT]
        chip = "not judged" if right is None else "right" if right else "wrong"
    if model in board.best:
        name = f"{name}, step {board.best[model]}"
    return Passage(name, response.text, _note(board, response), kind, chip)


def _note(board: Scoreboard, response: ScoredResponse) -> str:
    parts = [
        f"{board.title(figure)} {number(value)}"
        for figure in board.headlines
        if figure not in (WIN, _RIGHT) and (value := response.values.get(figure)) is not None
    ]
    return ", ".join([*parts, f"{response.tokens} tokens"] if response.tokens is not None else parts)


def _checks(base: ScoredResponse | None, policy: ScoredResponse | None) -> Iterator[Check]:
    """Criteria of the rubric with the credits of both responses, those met by both last."""
    credits: dict[str, dict[str, float | None]] = {}
    for kind, response in (("base", base), ("policy", policy)):
        if response and (text := response.evidence.get("rubric")):
            for verdict in Scorecard.model_validate(json.loads(text)).verdicts:
                credits.setdefault(verdict.criterion, {})[kind] = verdict.credit
    for title, marks in sorted(credits.items(), key=lambda item: set(item[1].values()) == {1.0}):
        before, after = marks.get("base"), marks.get("policy")
        change = "" if before is None or after is None or before == after else "gained" if after > before else "lost"
        yield Check("", title, "", list(marks.items()), change)


def _claims(policy: ScoredResponse | None) -> Iterator[Check]:
    """Claims of the policy's caption, as the judge of b-CapScore lists them."""
    text = policy.evidence.get("b_capscore") if policy else None
    assertions = GradedCaption.model_validate_json(text).assertions if text else None
    for claim in assertions.synthetic_features.atomic_assertions if assertions else ():
        yield Check("", claim.text, marks=[("verified", float(claim.is_verified))])
