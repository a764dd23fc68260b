"""Report of a BalCapRL run as one HTML file: scores, training curves, an advantage viewer, and examples.

Captions, claims and error messages are untrusted text: Jinja escapes all of it. The page's own security policy allows
its inline styles and images and one script, by its digest: that of the advantage viewer.
"""

from pathlib import Path
from typing import NamedTuple

from rubricworks.evaluation.scoreboard import BASE, LENGTH, POLICY, WIN, Scoreboard
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.methods.balcaprl.report.curves import caption_charts, reward_charts
from rubricworks.methods.balcaprl.report.examples import read_caption_examples
from rubricworks.methods.balcaprl.report.groups import REWARDS, ComparedGroup, reward_groups
from rubricworks.methods.balcaprl.report.headline import caption_headline, change_sentences, direction
from rubricworks.methods.balcaprl.report.run_results import SCORE_NAMES, STAGE, read_balcaprl_run
from rubricworks.methods.balcaprl.report.settings import (
    balcaprl_commands,
    balcaprl_tables,
    training_sentences,
    training_settings,
)
from rubricworks.methods.balcaprl.report.summary import training_summary
from rubricworks.metrics import Interval
from rubricworks.reports.comparison import Comparison
from rubricworks.reports.costs import model_calls, stage_costs
from rubricworks.reports.curves import read_steps
from rubricworks.reports.headline import Mood, is_small, promotion_sentence
from rubricworks.reports.record import record_values
from rubricworks.reports.rendering import render
from rubricworks.reports.run_folder import (
    read_dead_letters,
    read_ledger,
    read_promotion,
    read_recipe,
)
from rubricworks.reports.run_summary import RunSummary, run_summary
from rubricworks.reports.settings import recipe_text
from rubricworks.runtime.stage_table import REPORTS
from rubricworks.stages.release.judge_trust import audit_details, judge_trust_values, read_audit

_TILES = ("b_capscore", "dc_score", "caption_qa")
_CHARTED = (
    *("b_capscore", "b_capscore_precision", "b_capscore_recall", "b_capscore_linguistic"),
    *("dc_score", "caption_qa", "oracle_f1"),
)


class ScoreRow(NamedTuple):
    """Row of the score table; the chart above the table draws its `comparison`."""

    score: str
    comparison: Comparison
    gain: Interval | None
    mood: Mood


def build_balcaprl_report(run: Path, *, examples: int, seed: int) -> tuple[str, RunSummary]:
    """Build the page and the summary of a run's folder.

    Args:
        examples: number of held-out images to show.
        seed: seed for drawing images and groups.
    """
    recipe, ledger = read_recipe(run), read_ledger(run)
    results, promotion = read_balcaprl_run(run), read_promotion(run)
    calls = model_calls(read_spending(run / SPENDING_FILE))
    costs, dead_letters = stage_costs(ledger, calls, exclude=REPORTS), read_dead_letters(run)
    training, board = training_summary(results.steps), results.board
    audit = read_audit(run, "peer_rubrics")
    summary = run_summary(
        run,
        recipe=recipe,
        method="balcaprl",
        board=board,
        promotion=promotion,
        alarm=str(results.alarm) if results.alarm else None,
        costs=costs,
        dead_letters=dead_letters,
        details={"training": training.model_dump(mode="json") if training else None, **audit_details(audit)},
    )
    win = board.mean(POLICY, WIN) if board else None
    settings = training_settings(recipe)
    rows = score_rows(board)
    curves = caption_charts(results.steps, settings.gate, results.alarm)
    rewards = [] if curves else read_steps(run, STAGE)
    groups = reward_groups(run, settings.weights, seed=seed)
    html = render(
        "page.html",
        folder=Path(__file__).parent,
        styles=("report.css", "tables.css", "page.css"),
        scripts=("advantages.js", "advantage_viewer.js"),
        run=run,
        recipe=recipe,
        recipe_text=recipe_text(recipe),
        summary=summary,
        headline=caption_headline(board),
        sentences=change_sentences(board),
        promotion=promotion,
        promotion_sentence=promotion_sentence(promotion),
        alarms=[("", results.alarm)] if results.alarm else [],
        responses="captions",
        is_small=is_small,
        tiles=[row for row in rows if row.score in _TILES],
        length=LENGTH,
        win=win,
        win_mood=direction(win, 0.5) if win else "open",
        charted=[row.comparison for row in rows if row.score in _CHARTED],
        rows=rows,
        settings=settings,
        training_sentences=training_sentences(recipe),
        curves=curves or reward_charts(rewards, results.alarm),
        unjudged=sum(step.unjudged for step in results.steps or rewards),
        rollouts=sum(step.rollouts for step in results.steps or rewards),
        rewards=REWARDS,
        groups=groups,
        viewer=_viewer_data(groups, settings.weights),
        **judge_trust_values(
            run, recipe, audit, audited_in="peer_rubrics", stages=("train_balcaprl", "balcaprl_report")
        ),
        examples=read_caption_examples(run, examples, decoding=board.decoding if board else "greedy", seed=seed),
        **record_values(run, recipe, calls=calls, costs=costs, dead_letters=dead_letters),
        tables=balcaprl_tables(run),
        commands=balcaprl_commands(run, recipe),
    )
    return html, summary


def score_rows(board: Scoreboard | None) -> list[ScoreRow]:
    """Rows of the figures that either model has, in the order of `SCORE_NAMES`."""
    if board is None:
        return []
    comparisons = {
        figure: Comparison(name, board.mean(BASE, figure), board.mean(POLICY, figure))
        for figure, name in SCORE_NAMES.items()
    }
    return [
        ScoreRow(
            score=figure,
            comparison=comparison,
            gain=(gain := board.gain(POLICY, figure)),
            mood=direction(gain) if gain else "open",
        )
        for figure, comparison in comparisons.items()
        if comparison.base or comparison.policy
    ]


def _viewer_data(groups: list[ComparedGroup], weights: tuple[float, ...]) -> dict[str, object]:
    return {"rewards": REWARDS, "weights": weights, "groups": [group.viewer_data() for group in groups]}
