"""The report of a BalCapRL run as one HTML file: what came of it, its training, real groups to play with, examples.

Captions, claims and error messages are foreign text: Jinja escapes all of it. The page's own security policy allows
its inline styles and images and one script, by its digest: that of the advantage viewer.
"""

from pathlib import Path
from typing import NamedTuple

from rubricworks.evaluation.caption_summary import CaptionSummary
from rubricworks.evaluation.summary import MeanScore
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.methods.balcaprl.report.curves import caption_charts, reward_charts
from rubricworks.methods.balcaprl.report.examples import read_caption_examples
from rubricworks.methods.balcaprl.report.groups import REWARDS, ShownGroup, reward_groups
from rubricworks.methods.balcaprl.report.headline import caption_headline, change_sentences, direction
from rubricworks.methods.balcaprl.report.run_results import SCORE_NAMES, STAGE, read_balcaprl_run
from rubricworks.methods.balcaprl.report.settings import (
    balcaprl_commands,
    balcaprl_tables,
    training_sentences,
    training_settings,
)
from rubricworks.methods.balcaprl.report.summary import BalcaprlSummary, balcaprl_lines, balcaprl_summary
from rubricworks.reports.comparison import Comparison
from rubricworks.reports.costs import model_calls, stage_costs
from rubricworks.reports.curves import read_steps
from rubricworks.reports.headline import FEW, Mood, promotion_sentence
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
_PICTURED = ("b_capscore", "precision", "recall", "linguistic", "dc_score", "caption_qa", "oracle_f1")


class ScoreRow(NamedTuple):
    """One row of the table; `comparison` is what the picture above it shows."""

    score: str
    comparison: Comparison
    gain: MeanScore | None
    mood: Mood


def build_balcaprl_report(run: Path, *, examples: int, seed: int) -> tuple[str, BalcaprlSummary]:
    """The page and the summary of a run's folder.

    Args:
        examples: how many held-out images to show.
        seed: of their draw, and of the draw of groups.
    """
    recipe, ledger = read_recipe(run), read_ledger(run)
    found, promotion = read_balcaprl_run(run), read_promotion(run)
    calls = model_calls(read_spending(run / SPENDING_FILE))
    costs, dead_letters = stage_costs(ledger, calls, exclude=REPORTS), read_dead_letters(run)
    summary = balcaprl_summary(run, found, recipe=recipe, promotion=promotion, costs=costs, dead_letters=dead_letters)
    settings = training_settings(recipe)
    rows = score_rows(found.captions)
    curves = caption_charts(found.steps, settings.gate, found.alarm)
    rewards = [] if curves else read_steps(run, STAGE, words=False)
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
        headline=caption_headline(found.captions),
        sentences=change_sentences(found.captions),
        promotion=promotion,
        promotion_sentence=promotion_sentence(promotion),
        alarms=[("", found.alarm)] if found.alarm else [],
        responses="captions",
        few=FEW,
        tiles=[row for row in rows if row.score in _TILES],
        win=found.captions.win_rate if found.captions else None,
        win_mood=direction(found.captions.win_rate, 0.5) if found.captions and found.captions.win_rate else "open",
        pictured=[row.comparison for row in rows if row.score in _PICTURED],
        rows=rows,
        settings=settings,
        training_sentences=training_sentences(recipe),
        curves=curves or reward_charts(rewards, found.alarm),
        unjudged=sum(step.unjudged for step in found.steps or rewards),
        rollouts=sum(step.rollouts for step in found.steps or rewards),
        rewards=REWARDS,
        groups=groups,
        viewer=_for_browser(groups, settings.weights),
        examples=read_caption_examples(run, examples, seed=seed),
        **record_values(run, recipe, calls=calls, costs=costs, dead_letters=dead_letters),
        tables=balcaprl_tables(run),
        commands=balcaprl_commands(run, recipe),
    )
    return html, summary


def score_rows(captions: CaptionSummary | None) -> list[ScoreRow]:
    """One row per score that either model has, in the order of the names."""
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


def _for_browser(groups: list[ShownGroup], weights: tuple[float, ...]) -> dict[str, object]:
    return {"rewards": REWARDS, "weights": weights, "groups": [group.for_browser() for group in groups]}
