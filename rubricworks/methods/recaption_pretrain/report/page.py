"""Report of a recaptioning run as one HTML file: no network, no script.

Captions and questions are untrusted text: Jinja escapes all of it.
"""

from pathlib import Path

from rubricworks.evaluation.scoreboard import BASE, POLICY
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.methods.recaption_pretrain.report.results import (
    benchmark_results,
    caption_pairs,
    captioner_summaries,
    headline,
    loss_charts,
)
from rubricworks.reports.costs import model_calls, stage_costs
from rubricworks.reports.record import record_values
from rubricworks.reports.rendering import render
from rubricworks.reports.run_folder import read_dead_letters, read_ledger, read_recipe
from rubricworks.reports.run_summary import RunSummary, run_summary
from rubricworks.reports.scores import read_board
from rubricworks.reports.settings import CountedTable, recipe_text, resume_command, table_counts
from rubricworks.runtime.stage_table import REPORTS

FIGURE = "answers_right"
"""Right answers, each benchmark with equal weight."""
_TABLES = (CountedTable("recaption", "captions", "captioner"),)


def build_report(run: Path, *, images: int, seed: int) -> tuple[str, RunSummary]:
    """Build the page and the summary of a run's folder.

    Args:
        images: number of images to show with their captions.
        seed: seed of their draw.
    """
    recipe, ledger, board = read_recipe(run), read_ledger(run), read_board(run)
    calls = model_calls(read_spending(run / SPENDING_FILE))
    costs, dead_letters = stage_costs(ledger, calls, exclude=REPORTS), read_dead_letters(run)
    benchmarks = benchmark_results(run)
    policy, baseline = _captioner(recipe, "policy"), str(recipe.get("baseline", "the baseline"))
    overall = board.gain(POLICY, FIGURE) if board else None
    summary = run_summary(
        run,
        recipe=recipe,
        method="recaption_pretrain",
        board=board,
        promotion=None,
        alarm=None,
        costs=costs,
        dead_letters=dead_letters,
        details={
            "captioners": {"policy": policy, "baseline": baseline},
            "benchmarks": {
                one.comparison.label: {
                    "base": one.comparison.base.value if one.comparison.base else None,
                    "policy": one.comparison.policy.value if one.comparison.policy else None,
                    "difference": one.difference.model_dump() if one.difference else None,
                }
                for one in benchmarks
            },
        },
    )
    html = render(
        "page.html",
        folder=Path(__file__).parent,
        recipe=recipe,
        recipe_text=recipe_text(recipe),
        summary=summary,
        headline=headline(overall, policy, baseline),
        policy=policy,
        baseline=baseline,
        benchmarks=benchmarks,
        macro=(board.mean(BASE, FIGURE), board.mean(POLICY, FIGURE), overall) if board else (None, None, None),
        captioners=captioner_summaries(run, {policy: "policy", baseline: "baseline"}),
        pairs=caption_pairs(run, images, seed),
        losses=loss_charts(run),
        alarms=[],
        responses="captions",
        **record_values(run, recipe, calls=calls, costs=costs, dead_letters=dead_letters),
        tables=table_counts(run, _TABLES),
        commands=[resume_command(run)],
    )
    return html, summary


def _captioner(recipe: dict[str, object], default: str) -> str:
    section = recipe.get("pretraining")
    return str(section.get("captioner", default)) if isinstance(section, dict) else default
