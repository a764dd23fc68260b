"""Report of a RubiCap run as one HTML file: no network, no script, readable on a phone and in the dark.

Captions, criteria and error messages are untrusted text: Jinja escapes all of it, and the page's own security policy
allows nothing but its inline styles and images.
"""

import shlex
from pathlib import Path
from typing import Any

from rubricworks.data.alarm import Alarm, read_alarm
from rubricworks.evaluation.scoreboard import POLICY, WIN
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.methods.rubicap.report.examples import read_examples
from rubricworks.methods.rubicap.report.results import (
    decoding_results,
    headline,
    shared_criteria,
)
from rubricworks.policy.rewards.canary import CANARY_FILE, CanaryRecord
from rubricworks.reports.charts import LineChart, line_chart
from rubricworks.reports.costs import model_calls, stage_costs
from rubricworks.reports.curves import Step, read_steps
from rubricworks.reports.headline import promotion_sentence
from rubricworks.reports.record import record_values
from rubricworks.reports.rendering import render
from rubricworks.reports.run_folder import (
    read_dead_letters,
    read_ledger,
    read_promotion,
    read_recipe,
    read_value,
)
from rubricworks.reports.run_summary import RunSummary, run_summary
from rubricworks.reports.scores import arena_order_changes, read_board
from rubricworks.reports.settings import (
    Command,
    CountedTable,
    compare_command,
    recipe_text,
    resume_command,
    table_counts,
)
from rubricworks.runtime.stage_table import REPORTS
from rubricworks.stages.release.judge_trust import audit_details, judge_trust_values, read_audit
from rubricworks.training.policy.response_statistics import LENGTH, OBJECTS, REPETITION, TEXT_STATISTICS

RUBICAP_TABLES = (
    CountedTable("caption_committee", "committee captions", "captioner"),
    CountedTable("caption_student", "student captions", "captioner"),
    CountedTable("synthesize_rubrics", "rubrics", "writer"),
)
_MAX_STEPS = 9
"""Rows of the table under the curves."""


def build_report(run: Path, *, images: int, seed: int) -> tuple[str, RunSummary]:
    """Build the page and the summary of a run's folder.

    Args:
        images: number of held-out images to show.
        seed: seed of their draw.
    """
    recipe, ledger = read_recipe(run), read_ledger(run)
    board, promotion, alarm = read_board(run), read_promotion(run), read_alarm(run / "train_policy")
    audit = read_audit(run, "synthesize_rubrics")
    calls = model_calls(read_spending(run / SPENDING_FILE))
    costs, dead_letters = stage_costs(ledger, calls, exclude=REPORTS), read_dead_letters(run)
    summary = run_summary(
        run,
        recipe=recipe,
        method="rubicap",
        board=board,
        promotion=promotion,
        alarm=str(alarm) if alarm else None,
        costs=costs,
        dead_letters=dead_letters,
        details=audit_details(audit),
    )
    decoding = board.decoding if board else "greedy"
    results = decoding_results(run, board)
    steps = read_steps(run, statistics=TEXT_STATISTICS)
    html = render(
        "page.html",
        folder=Path(__file__).parent,
        recipe=recipe,
        recipe_text=recipe_text(recipe),
        summary=summary,
        decoding=decoding,
        results=results,
        shown=next((one for one in results if one.decoding == decoding), None),
        order_changes=arena_order_changes(run, decoding=decoding),
        headline=headline(board.mean(POLICY, WIN) if board else None),
        promotion=promotion,
        promotion_sentence=promotion_sentence(promotion),
        alarms=[("", alarm)] if alarm else [],
        canary=read_value(run / "train_policy" / CANARY_FILE, CanaryRecord),
        responses="captions",
        steps=_sampled_steps(steps),
        unjudged=sum(step.unjudged for step in steps),
        rollouts=sum(step.rollouts for step in steps),
        curves=_curves(steps, alarm),
        **judge_trust_values(run, recipe, audit, audited_in="synthesize_rubrics", stages=("train_policy", "report")),
        shared_criteria=shared_criteria(run, decoding=decoding),
        examples=read_examples(run, images, decoding=decoding, seed=seed),
        **record_values(run, recipe, calls=calls, costs=costs, dead_letters=dead_letters),
        tables=table_counts(run, RUBICAP_TABLES),
        commands=next_commands(run, recipe),
    )
    return html, summary


def next_commands(run: Path, recipe: dict[str, Any]) -> list[Command]:
    """Commands to run next, ready to paste."""
    commands = [resume_command(run)]
    if (run / "train_policy" / "model").is_dir():
        model = shlex.quote(str(run / "train_policy" / "model"))
        commands.append(
            Command(
                "Caption your images with the trained model",
                f"rubricworks caption IMAGES --model {model} --out captions",
            )
        )
    return [*commands, compare_command(run, recipe)]


def _curves(steps: list[Step], alarm: Alarm | None) -> list[LineChart]:
    marks = [(float(alarm.step), f"alarm, step {alarm.step}")] if alarm else []
    judged = [(float(step.step), step.reward) for step in steps if step.reward is not None]
    charts = [line_chart("Reward", judged, bounds=(0.0, 1.0), marks=marks)]
    for title, statistic in (
        ("Tokens per caption", LENGTH),
        ("Objects named per caption", OBJECTS),
        ("Repeated phrases", REPETITION),
    ):
        points = [(float(step.step), step.values[statistic.name]) for step in steps]
        charts.append(line_chart(title, points, marks=marks))
    return [chart for chart in charts if chart]


def _sampled_steps(steps: list[Step]) -> list[Step]:
    """Evenly spaced steps, including the first and the last, for the table under the curves."""
    if len(steps) <= _MAX_STEPS:
        return steps
    return [steps[round(at * (len(steps) - 1) / (_MAX_STEPS - 1))] for at in range(_MAX_STEPS)]
