"""Report of a RubiCap run as one HTML file: no network, no script, readable on a phone and in the dark.

Captions, criteria and error messages are untrusted text: Jinja escapes all of it, and the page's own security policy
allows nothing but its inline styles and images.
"""

import shlex
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from rubricworks.data.alarm import Alarm, read_alarm
from rubricworks.evaluation.rubric_audit import ADVICE, RubricAudit
from rubricworks.evaluation.scoreboard import POLICY, WIN
from rubricworks.grading.agreement_report import AgreementReport, JudgeIdentity
from rubricworks.llm.identity import IDENTITY_FILE, read_identities
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.methods.rubicap.report.examples import read_examples
from rubricworks.methods.rubicap.report.results import (
    decoding_results,
    headline,
    shared_criteria,
)
from rubricworks.reports.agreement import errors_text, identity_text, probe_text
from rubricworks.reports.charts import LineChart, line_chart
from rubricworks.reports.costs import model_calls, stage_costs
from rubricworks.reports.curves import Step, read_steps
from rubricworks.reports.headline import promotion_sentence
from rubricworks.reports.record import record_values
from rubricworks.reports.rendering import render
from rubricworks.reports.rubric_audit import AUDIT_FILE
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
from rubricworks.rewards.noise import NoiseRates
from rubricworks.runtime.stage_table import REPORTS
from rubricworks.stages.training.canary import CANARY_FILE, CanaryRecord
from rubricworks.stages.training.measured_rates import AGREEMENT_FILE, stated_rates
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
    audit = read_value(run / "synthesize_rubrics" / AUDIT_FILE, RubricAudit)
    agreement = read_value(run / "train_policy" / AGREEMENT_FILE, AgreementReport)
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
        details={"rubric_audit": _audit_figures(audit)} if audit else {},
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
        noise_rates=_noise_rates(recipe, agreement),
        judge_sentences=_judge_sentences(run, recipe, agreement),
        responses="captions",
        steps=_sampled_steps(steps),
        unjudged=sum(step.unjudged for step in steps),
        rollouts=sum(step.rollouts for step in steps),
        curves=_curves(steps, alarm),
        audit=audit,
        flag_meanings=ADVICE,
        shared_criteria=shared_criteria(run, decoding=decoding),
        examples=read_examples(run, images, decoding=decoding, seed=seed),
        **record_values(run, recipe, calls=calls, costs=costs, dead_letters=dead_letters),
        tables=table_counts(run, RUBICAP_TABLES),
        commands=next_commands(run, recipe),
    )
    return html, summary


def _noise_rates(recipe: dict[str, Any], agreement: AgreementReport | None) -> list[tuple[str, NoiseRates]]:
    """Error rates of the judge that rewards are corrected for, each with the criteria that it holds for."""
    written = (recipe.get("policy") or {}).get("noise_correction") or {}
    if file := written.get("agreement"):
        by = written.get("by_weight", False)
        return stated_rates(agreement, _judge_name(recipe), file, by_weight=by) if agreement else []
    by_weight = {} if "false_positive" in written else written
    rates = {f"criteria of weight {weight}": one for weight, one in by_weight.items()} or {"all criteria": written}
    return [(criteria, NoiseRates.model_validate(one)) for criteria, one in rates.items() if one]


def _judge_name(recipe: dict[str, Any]) -> str:
    policy = recipe.get("policy") or {}
    judges = [policy.get("judge"), *(policy.get("more_judges") or ())]
    return " + ".join(str(one["model"]) for one in judges if one and "model" in one)


def _judge_sentences(run: Path, recipe: dict[str, Any], agreement: AgreementReport | None) -> list[str]:
    """Models that the policy's judges answered as, and what `rubricworks agreement` measured of them."""
    name, pinned = _judge_name(recipe), read_identities(run / IDENTITY_FILE)
    entries = tuple(entry for model in name.split(" + ") for entry in pinned.get(model, ()))
    sentences = [identity_text(JudgeIdentity(rater=name, judge=name, entries=entries))] if entries else []
    if agreement:
        sentences += [errors_text(one) for one in agreement.errors]
        sentences += [probe_text(agreement.probe)] if agreement.probe else []
    return sentences


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


def _audit_figures(audit: RubricAudit) -> dict[str, JsonValue]:
    return {
        "rubrics": len(audit.findings),
        "flagged": audit.flagged.value,
        **({"unaudited": audit.unaudited} if audit.unaudited else {}),
        **({"undecided": audit.undecided} if audit.undecided else {}),
        "gap": audit.gap.value if audit.gap else None,
        "flags": dict(audit.by_flag),
    }


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
