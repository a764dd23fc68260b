"""Report of a BalCapRL run as one HTML file: scores, training curves, an advantage viewer, and examples.

Captions, claims and error messages are untrusted text: Jinja escapes all of it. The page's own security policy allows
its inline styles and images and one script, by its digest: that of the advantage viewer.
"""

from pathlib import Path
from typing import NamedTuple

from rubricworks.evaluation.caption_summary import CaptionSummary
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
from rubricworks.methods.balcaprl.report.summary import BalcaprlSummary, balcaprl_lines, balcaprl_summary
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
from rubricworks.reports.settings import recipe_text
from rubricworks.runtime.stage_table import REPORTS

__all__ = ["BalcaprlSummary", "balcaprl_lines", "build_balcaprl_report"]

_TILES = ("b_capscore", "dc_score", "caption_qa")
_CHARTED = ("b_capscore", "precision", "recall", "linguistic", "dc_score", "caption_qa", "oracle_f1")


class ScoreRow(NamedTuple):
    """Row of the score table; the chart above the table draws its `comparison`."""

    score: str
    comparison: Comparison
    gain: Interval | None
    mood: Mood


def build_balcaprl_report(run: Path, *, examples: int, seed: int) -> tuple[str, BalcaprlSummary]:
    """Build the page and the summary of a run's folder.

    Args:
        examples: number of held-out images to show.
        seed: seed for drawing images and groups.
    """
    recipe, ledger = read_recipe(run), read_ledger(run)
    results, promotion = read_balcaprl_run(run), read_promotion(run)
    calls = model_calls(read_spending(run / SPENDING_FILE))
    costs, dead_letters = stage_costs(ledger, calls, exclude=REPORTS), read_dead_letters(run)
    summary = balcaprl_summary(run, results, recipe=recipe, promotion=promotion, costs=costs, dead_letters=dead_letters)
    settings = training_settings(recipe)
    rows = score_rows(results.captions)
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
        headline=caption_headline(results.captions),
        sentences=change_sentences(results.captions),
        promotion=promotion,
        promotion_sentence=promotion_sentence(promotion),
        alarms=[("", results.alarm)] if results.alarm else [],
        responses="captions",
        is_small=is_small,
        tiles=[row for row in rows if row.score in _TILES],
        win=results.captions.win_rate if results.captions else None,
        win_mood=direction(results.captions.win_rate, 0.5)
        if results.captions and results.captions.win_rate
        else "open",
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
        examples=read_caption_examples(run, examples, seed=seed),
        **record_values(run, recipe, calls=calls, costs=costs, dead_letters=dead_letters),
        tables=balcaprl_tables(run),
        commands=balcaprl_commands(run, recipe),
    )
    return html, summary


def score_rows(captions: CaptionSummary | None) -> list[ScoreRow]:
    """Rows of the scores that either model has, in the order of `SCORE_NAMES`."""
    if captions is None:
        return []
    base, policy = captions.models["base"], captions.models["policy"]
    return [
        ScoreRow(
            score=score,
            comparison=Comparison(name, base.get(score), policy.get(score)),
            gain=(gain := captions.gains.get(score)),
            mood=direction(gain) if gain else "open",
        )
        for score, name in SCORE_NAMES.items()
        if score in base or score in policy
    ]


def _viewer_data(groups: list[ComparedGroup], weights: tuple[float, ...]) -> dict[str, object]:
    return {"rewards": REWARDS, "weights": weights, "groups": [group.viewer_data() for group in groups]}
