"""Report of an RLR³ run as one HTML file: headline, Figure 2, Tables 1 to 5, and questions with their answers.

Questions, answers and error messages are untrusted text: Jinja escapes all of it, and the page's own security policy
allows nothing but its inline styles and images.
"""

from pathlib import Path
from typing import Any

from rubricworks.evaluation.audit.values import MODE_NAMES
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.methods.rlr3.accuracy import ARMS
from rubricworks.methods.rlr3.report.curves import macro_chart, task_charts, training_charts
from rubricworks.methods.rlr3.report.examples import read_questions
from rubricworks.methods.rlr3.report.headline import rlr3_headline
from rubricworks.methods.rlr3.report.run_results import NAMES, Rlr3Run, read_rlr3_run
from rubricworks.methods.rlr3.report.settings import reward_sentence, rlr3_commands, rlr3_tables
from rubricworks.methods.rlr3.report.summary import alarm_sentence, rlr3_details
from rubricworks.methods.rlr3.report.tables import (
    GENRM_COLUMNS,
    answer_columns,
    corpus_rows,
    gain_rows,
    genrm_chart,
    genrm_tasks,
    task_rows,
)
from rubricworks.reports.audit.page import audit_figure, audit_headline, audit_sentences, table_rows
from rubricworks.reports.costs import model_calls, stage_costs
from rubricworks.reports.curves import read_steps
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
from rubricworks.reports.settings import recipe_text
from rubricworks.runtime.stage_table import REPORTS
from rubricworks.stages.release.judge_trust import audit_details, judge_trust_values, read_audit


def build_rlr3_report(run: Path, *, examples: int, seed: int) -> tuple[str, RunSummary]:
    """Build the page and the summary of a run's folder.

    Args:
        examples: number of held-out questions to show.
        seed: seed of their draw.
    """
    recipe, ledger = read_recipe(run), read_ledger(run)
    results, promotion = read_rlr3_run(run, ledger), read_promotion(run)
    calls = model_calls(read_spending(run / SPENDING_FILE))
    costs, dead_letters = stage_costs(ledger, calls, exclude=REPORTS), read_dead_letters(run)
    details = rlr3_details(results)
    checklist_audit = read_audit(run, "offline_filter")
    summary = run_summary(
        run,
        recipe=recipe,
        method="rlr3",
        board=results.board,
        promotion=promotion,
        alarm=alarm_sentence(results),
        costs=costs,
        dead_letters=dead_letters,
        details={**details.model_dump(mode="json"), **audit_details(checklist_audit)},
    )
    steps = {arm: read_steps(run, f"train_{arm}") for arm in ARMS}
    lanes, axis = genrm_chart(results.genrm)
    html = render(
        "page.html",
        folder=Path(__file__).parent,
        styles=("report.css", "audit.css", "tables.css"),
        run=run,
        recipe=recipe,
        recipe_text=recipe_text(recipe),
        summary=summary,
        results=results,
        genrm_right=details.genrm,
        names=NAMES,
        headline=rlr3_headline(results.answers),
        promotion=promotion,
        promotion_sentence=promotion_sentence(promotion),
        alarms=[(f" in {NAMES[arm]}", alarm) for arm, alarm in results.alarms.items()],
        responses="answers",
        macro=macro_chart(results.answers),
        tasks=task_charts(results.answers),
        columns=answer_columns(results.answers),
        rows=task_rows(results.answers),
        gains=gain_rows(results.answers),
        curves=training_charts(steps, results.alarms),
        unjudged={arm: (sum(one.unjudged for one in of), sum(one.rollouts for one in of)) for arm, of in steps.items()},
        corpora=corpus_rows(results.source, results.corpus),
        genrm_tasks=genrm_tasks(results),
        genrm_columns=GENRM_COLUMNS,
        lanes=lanes,
        axis=axis,
        **_audit(results),
        **judge_trust_values(
            run, recipe, checklist_audit, audited_in="offline_filter", stages=("train_rlr3", "rlr3_report")
        ),
        questions=read_questions(run, results.board, examples, seed=seed),
        reward_sentence=reward_sentence(recipe),
        **record_values(
            run, recipe, calls=calls, costs=costs, dead_letters=dead_letters, noun="question", stage="prepare_questions"
        ),
        tables=rlr3_tables(run),
        commands=rlr3_commands(run, recipe),
    )
    return html, summary


def _audit(results: Rlr3Run) -> dict[str, Any]:
    """Template values of Table 5 and its chart, as on the audit's own page."""
    if results.audit is None or not results.audit.settings:
        return {"audit": None}
    return {
        "audit": audit_figure(results.audit),
        "audit_headline": audit_headline(results.audit),
        "audit_sentences": audit_sentences(results.audit),
        "audit_rows": table_rows(results.audit),
        "mode_names": MODE_NAMES,
    }
