"""Views of BalCapRL's stages in the Kubeflow UI."""

from typing import Any

from rubricworks.data.alarm import read_alarm
from rubricworks.data.question_text import option_lines
from rubricworks.evaluation.scorers.caption_prompts import StoredExam
from rubricworks.reports.formats import whole
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.samples import sample_rows
from rubricworks.reports.views.parts import (
    MAX_CHECKS,
    Card,
    FinishedStage,
    Passage,
    View,
    draw_ids,
    picture,
)
from rubricworks.reports.views.training import policy as policy_view


def rewritten_references(stage: FinishedStage) -> View:
    """View of `recap`: reference captions before and after."""
    recaptioned = {row["sample_id"] for row in table_rows(stage.out / "captions", ["sample_id"])}
    table = stage.out / "captions" if recaptioned else stage.out
    ids = draw_ids(table)
    before, after = stage.samples(ids), sample_rows(stage.out, set(ids), ["references"])
    rows = sum(1 for _ in table_rows(stage.out, ["sample_id"]))
    return View(
        sentence=f"{whole(len(recaptioned))} of {whole(rows)} reference captions were written anew."
        if recaptioned
        else f"{whole(rows)} samples keep the captions that they came with: no captioner was named.",
        metrics={"samples": rows, "rewritten": len(recaptioned)},
        cards_title="Before and after",
        cards=[
            Card(
                key,
                picture(before.get(key)),
                [
                    Passage("Came with the image", _first(before.get(key)), kind="base"),
                    Passage("Reference now", _first(after.get(key)), kind="policy"),
                ],
            )
            for key in ids
        ],
    )


def _first(row: dict[str, Any] | None) -> str:
    return next(iter(row["references"]), "") if row else ""


def exams(stage: FinishedStage) -> View:
    """View of `write_exams`: counts, and some exams with their right options."""
    exam_count = question_count = 0
    for row in table_rows(stage.out, ["questions"]):
        exam_count += 1
        question_count += len(StoredExam.model_validate_json(row["questions"]).questions)
    ids = draw_ids(stage.out)
    exam_texts = {row["sample_id"]: row["questions"] for row in table_rows(stage.out) if row["sample_id"] in ids}
    pictures = stage.samples(ids)
    return View(
        sentence=f"{whole(exam_count)} exams with {whole(question_count)} questions.",
        metrics={"exams": exam_count, "questions": question_count},
        cards_title="Exams",
        cards=[
            Card(key, picture(pictures.get(key)), _questions(StoredExam.model_validate_json(exam_texts[key])))
            for key in ids
        ],
    )


def _questions(exam: StoredExam) -> list[Passage]:
    return [
        Passage(
            one.question,
            option_lines(one.options),
            f"right: {one.answer}",
        )
        for one in exam.questions[:MAX_CHECKS]
    ]


_GRADES = ["step", "precision", "recall", "linguistic", "gated", "tokens", "reference_tokens"]


def policy(stage: FinishedStage) -> View:
    """View of `train_balcaprl`: curves of its three rewards, if captions were graded by them."""
    from rubricworks.methods.balcaprl.report.curves import caption_charts
    from rubricworks.methods.balcaprl.report.run_results import step_means

    grades = step_means(table_rows(stage.out / "caption_grades", _GRADES))
    graded = any(one.rewards for one in grades)
    return policy_view(
        stage,
        series=caption_charts(grades, None, read_alarm(stage.run / stage.name)) if graded else (),
        rewards={f"{name}_reward": value for name, value in (grades[-1].rewards if grades else {}).items()},
    )
