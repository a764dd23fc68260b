"""Report of a RubricRL run as one HTML file: no network, no script, readable on a phone and in the dark.

Prompts, criteria and error messages are untrusted text: Jinja escapes all of it, and the page's own security policy
allows nothing but its inline styles and images.
"""

import json
from pathlib import Path

from rubricworks.data.alarm import Alarm, read_alarm
from rubricworks.evaluation.scoreboard import BASE, POLICY, Scoreboard
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.methods.rubricrl.report.epoch_costs import epoch_cost
from rubricworks.methods.rubricrl.report.examples import read_examples
from rubricworks.methods.rubricrl.report.painted_orders import judge_rises, read_painted
from rubricworks.methods.rubricrl.report.results import TaskResult, headline, key_rates, task_results
from rubricworks.reports.charts import LineChart, line_chart
from rubricworks.reports.comparison import Comparison
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
)
from rubricworks.reports.run_summary import RunSummary, run_summary
from rubricworks.reports.scores import read_board
from rubricworks.reports.settings import CountedTable, compare_command, recipe_text, resume_command, table_counts
from rubricworks.runtime.stage_table import REPORTS
from rubricworks.stages.release.judge_trust import audit_details, judge_trust_values, read_audit
from rubricworks.training.generators.image_statistics import DRAWN, HIGH_FREQUENCY, IMAGE_STATISTICS, SATURATION

_TABLES = (CountedTable("write_prompt_rubrics", "rubrics", "writer"),)
_WATCHED = {"diversity": "Distance within a group", "text": "Covered by text", "held_out": "Held-out judge"}
"""Field of steps.jsonl → title of its curve."""
_PAINTED = 4
"""Painted images to show."""
_FIGURES = {"geneval_correct": "GenEval overall", "rubric_reward": "Rubric reward"}


def build_report(run: Path, *, images: int, seed: int) -> tuple[str, RunSummary]:
    """Build the page and the summary of a run's folder.

    Args:
        images: number of held-out prompts to show.
        seed: seed of their draw.
    """
    recipe, ledger = read_recipe(run), read_ledger(run)
    board, promotion, alarm = read_board(run), read_promotion(run), read_alarm(run / "train_generator")
    calls = model_calls(read_spending(run / SPENDING_FILE))
    costs, dead_letters = stage_costs(ledger, calls, exclude=REPORTS), read_dead_letters(run)
    tasks: list[TaskResult] = task_results(run, board)
    audit = read_audit(run, "train_generator")
    summary = run_summary(
        run,
        recipe=recipe,
        method="rubricrl",
        board=board,
        promotion=promotion,
        alarm=str(alarm) if alarm else None,
        costs=costs,
        dead_letters=dead_letters,
        details={
            "tasks": {one.task: {"base": _value(one, 0), "policy": _value(one, 1)} for one in tasks},
            **audit_details(audit),
        },
    )
    steps = read_steps(run, "train_generator", statistics=IMAGE_STATISTICS)
    rises = judge_rises(run, board)
    decoding = board.decoding if board else "sampled"
    html = render(
        "page.html",
        folder=Path(__file__).parent,
        recipe=recipe,
        recipe_text=recipe_text(recipe),
        summary=summary,
        headline=headline(board),
        promotion=promotion,
        promotion_sentence=promotion_sentence(promotion),
        comparisons=_comparisons(board),
        tasks=tasks,
        keys=key_rates(run, board),
        alarms=[("", alarm)] if alarm else [],
        responses="images",
        unjudged=sum(step.unjudged for step in steps),
        rollouts=sum(step.rollouts for step in steps),
        curves=[*_curves(steps, alarm), *_watched(run, alarm)],
        **judge_trust_values(
            run, recipe, audit, audited_in="train_generator", stages=("train_generator", "rubricrl_report")
        ),
        examples=read_examples(run, images, decoding=decoding, seed=seed),
        rises=rises,
        painted=read_painted(run, _PAINTED, decoding=decoding, seed=seed) if rises else [],
        epoch=epoch_cost(run, steps, costs, calls),
        **record_values(run, recipe, calls=calls, costs=costs, dead_letters=dead_letters),
        tables=table_counts(run, _TABLES),
        commands=[resume_command(run), compare_command(run, recipe)],
    )
    return html, summary


def _value(result: TaskResult, at: int) -> float | None:
    figure = (result.comparison.base, result.comparison.policy)[at]
    return figure.value if figure else None


def _comparisons(board: Scoreboard | None) -> list[Comparison]:
    if board is None:
        return []
    found = [Comparison(label, board.mean(BASE, name), board.mean(POLICY, name)) for name, label in _FIGURES.items()]
    return [one for one in found if one.base or one.policy]


def _curves(steps: list[Step], alarm: Alarm | None) -> list[LineChart]:
    marks = [(float(alarm.step), f"alarm, step {alarm.step}")] if alarm else []
    judged = [(float(step.step), step.reward) for step in steps if step.reward is not None]
    charts = [line_chart("Reward", judged, bounds=(0.0, 1.0), marks=marks)]
    for title, statistic in (("Saturation", SATURATION), ("High frequencies", HIGH_FREQUENCY), ("Drawn on", DRAWN)):
        points = [(float(step.step), step.values[statistic.name]) for step in steps if statistic.name in step.values]
        charts.append(line_chart(title, points, marks=marks))
    return [chart for chart in charts if chart]


def _watched(run: Path, alarm: Alarm | None) -> list[LineChart]:
    """Curves of what the training itself measured for the alarm, beside the statistics of single images."""
    marks = [(float(alarm.step), f"alarm, step {alarm.step}")] if alarm else []
    file = run / "train_generator" / "steps.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    charts = []
    for name, title in _WATCHED.items():
        points = [(float(line["step"]), line[name]) for line in lines if line.get(name) is not None]
        charts.append(line_chart(title, points, marks=marks) if points else None)
    return [chart for chart in charts if chart]
