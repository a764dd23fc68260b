"""Views of the stages that measure and decide: captions before and after, answers, audits, the gate, the run's page.

What the page of one pipeline is made of is loaded by the view that shows it.
"""

import json

from rubricworks.reports.examples import Example, read_examples
from rubricworks.reports.formats import number, share
from rubricworks.reports.headline import headline, promotion_sentence, shown_decoding
from rubricworks.reports.results import decoding_results
from rubricworks.reports.run_folder import read_evaluation, read_promotion, read_value
from rubricworks.reports.views.parts import (
    MAX_CHECKS,
    SEED,
    SHOWN,
    Card,
    Check,
    FinishedStage,
    Passage,
    Table,
    Tile,
    View,
    picture,
)

MAX_PAGE_BYTES = 4_000_000
"""A run's page that is larger is not shown in the Kubeflow UI, which reads it whole."""
_PICTURED = ("b_capscore", "precision", "recall", "linguistic", "dc_score", "caption_qa", "oracle_f1")


def evaluated(stage: FinishedStage) -> View:
    """Of `evaluate`: base and policy by rubrics, oracle and pairwise judge, and their captions side by side."""
    summary = read_evaluation(stage.run)
    if summary is None:
        return View("There is no evaluation.")
    decoding = shown_decoding(summary)
    shown = next((one for one in decoding_results(summary) if one.decoding == decoding), None)
    said = headline(summary.win_rate.get(decoding))
    examples = read_examples(stage.run, SHOWN, decoding=decoding, seed=SEED)
    asked = stage.pictures(one.sample_id for one in examples)
    return View(
        sentence=said.text,
        mood=said.mood,
        metrics=summary.metrics(),
        compared=shown.comparisons if shown else (),
        won=shown.win_rate if shown else None,
        cards_title=f"Before and after: {decoding} captions of held-out images",
        cards=[_before_and_after(one, picture(asked.get(one.sample_id))) for one in examples],
    )


def captions_scored(stage: FinishedStage) -> View:
    """Of `evaluate_captions`: the scores of base and policy, and their captions with what the judge made of them."""
    from rubricworks.evaluation.caption_summary import CaptionSummary
    from rubricworks.reports.balcaprl_examples import read_caption_examples
    from rubricworks.reports.balcaprl_headline import caption_headline
    from rubricworks.reports.balcaprl_page import score_rows

    summary = read_value(stage.out / "captions.json", CaptionSummary)
    rows, said = score_rows(summary), caption_headline(summary)
    examples = read_caption_examples(stage.run, SHOWN, seed=SEED)
    asked = stage.pictures(one.sample_id for one in examples)
    return View(
        sentence=said.text,
        mood=said.mood,
        metrics=summary.metrics() if summary else {},
        compared=[row.comparison for row in rows if row.score in _PICTURED],
        won=summary.win_rate if summary else None,
        cards_title="Before and after: captions of held-out images",
        cards=[
            Card(
                one.sample_id,
                picture(asked.get(one.sample_id)),
                [
                    Passage(
                        caption.name,
                        caption.row["caption"],
                        f"b-CapScore {share(caption.row['b_capscore'])}, {caption.row['tokens']} tokens",
                        caption.kind,
                        "preferred" if one.preferred == caption.kind else "",
                    )
                    for caption in one.captions
                ],
                [
                    Check("", claim.text, marks=[("verified", float(claim.holds))])
                    for caption in one.captions
                    if caption.kind == "policy"
                    for claim in caption.claims[:MAX_CHECKS]
                ],
                checks_title="What the trained policy claims, verified in the image or not",
                judgment=one.judgment,
            )
            for one in examples
        ],
    )


def answers(stage: FinishedStage) -> View:
    """Of `evaluate_answers`: accuracy over milestones, and answers side by side."""
    from rubricworks.evaluation.answer_summary import AnswerSummary
    from rubricworks.reports.rlr3_examples import read_questions
    from rubricworks.reports.rlr3_figures import macro_chart
    from rubricworks.reports.rlr3_folder import NAMES
    from rubricworks.reports.rlr3_headline import rlr3_headline
    from rubricworks.reports.rlr3_tables import answer_columns, task_rows

    summary = read_value(stage.out / "answers.json", AnswerSummary)
    said, chart, columns = rlr3_headline(summary), macro_chart(summary), answer_columns(summary)
    questions = read_questions(stage.run, summary, SHOWN, seed=SEED)
    asked = stage.pictures(one.sample_id for one in questions)
    best = {NAMES[arm]: summary.of(arm) for arm in ("base", *summary.arms)} if summary else {}
    return View(
        sentence=said.text,
        mood=said.mood,
        metrics={f"{arm}/macro": summary.of(arm).macro.value for arm in ("base", *summary.arms)} if summary else {},
        tiles=[Tile(name, share(one.macro.value), f"macro average, %, step {one.step}") for name, one in best.items()],
        series=[chart.chart] if chart else [],
        tables=[
            Table(
                "Right answers, in percent",
                ("Task", *(f"{column.name} {column.note}".strip() for column in columns)),
                [
                    (row.name, *(share(score.figure.value) if score.figure else None for score in row.scores))
                    for row in task_rows(summary)
                ],
            )
        ],
        cards_title="Held-out questions",
        cards=[
            Card(
                one.sample_id,
                picture(asked.get(one.sample_id)),
                [
                    Passage("Question", one.question, f"right: {one.reference}"),
                    *(
                        Passage(
                            said_by.name,
                            said_by.response,
                            f"{said_by.tokens} tokens",
                            "base" if said_by.kind == "base" else "policy",
                            {True: "right", False: "wrong", None: "not judged"}[said_by.right],
                        )
                        for said_by in one.answers
                    ),
                ],
                note=one.task,
            )
            for one in questions
        ],
    )


def audited(stage: FinishedStage) -> View:
    """Of `audit`: what the judge credits to abnormal responses, in each setting."""
    from rubricworks.evaluation.audit.figures import AuditFigures
    from rubricworks.reports.audit_page import audit_figure, audit_headline, audit_sentences

    found = read_value(stage.out / "audit.json", AuditFigures)
    if found is None or not found.settings:
        return View("No abnormal response was found to audit the judge with.")
    return View(
        sentence=audit_headline(found),
        notes=audit_sentences(found),
        metrics=found.metrics(),
        figure=audit_figure(found),
    )


def promoted(stage: FinishedStage) -> View:
    """Of `promote`: what the gate said."""
    promotion = read_promotion(stage.run)
    said = promotion_sentence(promotion)
    if promotion is None:
        return View(said.text, said.mood)
    return View(
        sentence=said.text,
        mood=said.mood,
        metrics={"gate_passed": float(promotion.passed), "promoted": float(promotion.promoted)},
        tables=[Table("The gate", ("What it looked at",), [(reason,) for reason in promotion.reasons])],
    )


def reported(stage: FinishedStage) -> View:
    """Of the reports: the run's page itself, and the numbers of its summary."""
    page = stage.run / "report.html"
    summary = json.loads((stage.out / "summary.json").read_bytes())
    metrics = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    if (size := page.stat().st_size) > MAX_PAGE_BYTES:
        where = f"report.html in its folder, has {size / 1e6:.1f} MB"
        return View(f"The run's page, {where}: too much to show here.", metrics=metrics)
    return View("", metrics=metrics, page=page.read_text(encoding="utf-8"))


def _before_and_after(example: Example, image: str | None) -> Card:
    passages = [
        Passage(
            name,
            row["caption"],
            f"reward {number(row['rubric_reward'])}, {row['tokens']} tokens",
            kind,
            "preferred" if example.preferred == kind else "",
        )
        for kind, name, row in (("base", "Base model", example.base), ("policy", "Trained policy", example.policy))
        if row
    ]
    checks = [
        Check(
            f"{one.weight:g}",
            one.title,
            "",
            [(who, verdict.credit) for who, verdict in (("base", one.base), ("policy", one.policy)) if verdict],
            one.change,
        )
        for one in (*example.telling, *example.met_by_both)
    ]
    judgment = (example.policy or {}).get("judgment") or ""
    return Card(example.sample_id, image, passages, checks[:MAX_CHECKS], judgment=judgment)
