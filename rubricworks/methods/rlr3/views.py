"""Views of RLR³'s stages in the Kubeflow UI."""

import json
from typing import Any

from rubricworks.data.alarm import read_alarm
from rubricworks.evaluation.audit.summary import SUMMARY_FILE
from rubricworks.evaluation.corpus_statistics import CorpusStatistics
from rubricworks.evaluation.rubric_audit import RubricAudit
from rubricworks.methods.rlr3.genrm_statistics import DataStatistics
from rubricworks.reports.curves import read_steps
from rubricworks.reports.formats import number, percent, share, whole
from rubricworks.reports.rubric_audit import AUDIT_FILE
from rubricworks.reports.run_folder import (
    read_value,
    table_rows,
)
from rubricworks.reports.samples import draw_samples, sample_rows
from rubricworks.reports.views.data import last_counts, question_text
from rubricworks.reports.views.parts import (
    CARD_COUNT,
    SAMPLE_COLUMNS,
    SEED,
    Card,
    Check,
    FinishedStage,
    Passage,
    Table,
    Tile,
    View,
    criteria_of,
    draw_ids,
    picture,
)
from rubricworks.reports.views.training import reward_curves, reward_ends
from rubricworks.rubrics import Rubric

_OPTIONS = ["sample_id", "options"]


def opened_questions(stage: FinishedStage) -> View:
    """View of `open_questions`: multiple-choice questions before and after."""
    choices = {row["sample_id"] for row in table_rows(stage.inputs["samples"], _OPTIONS) if row["options"]}
    converted = choices - {row["sample_id"] for row in table_rows(stage.out, _OPTIONS) if row["options"]}
    ids = draw_samples(sorted(converted), CARD_COUNT, SEED) or draw_ids(stage.out)
    before, after = stage.samples(ids), sample_rows(stage.out, set(ids), SAMPLE_COLUMNS)
    outcomes = last_counts(stage, "multiple_choice")
    return View(
        sentence=f"{whole(len(converted))} of {whole(len(choices))} multiple-choice questions became open ones.",
        metrics={"multiple_choice": len(choices), "opened": len(converted)},
        tables=[Table("Multiple-choice questions", ("The opener's word", "Questions"), outcomes)] if outcomes else [],
        cards_title="Before and after" if converted else "Questions",
        cards=[
            Card(
                key,
                picture(before.get(key)),
                [
                    *([Passage("Before", question_text(before[key]), kind="base")] if key in converted else []),
                    Passage("Now", question_text(row), kind="policy"),
                ],
            )
            for key in ids
            if (row := after.get(key))
        ],
    )


def filtered_samples(stage: FinishedStage) -> View:
    """View of `offline_filter`: counts before and after the filter, and rewards of the base model on some samples."""
    statistics = read_value(stage.out / "statistics.json", CorpusStatistics)
    if statistics is None:
        return View("No statistics were written.")
    rows = {row["sample_id"]: row for row in table_rows(stage.out) if row["initial_reward"] is not None}
    ids = draw_samples(sorted(rows), CARD_COUNT, SEED)
    samples = stage.samples(ids)
    audit = read_value(stage.out / AUDIT_FILE, RubricAudit)
    flagged = [Tile("Flagged checklists", percent(audit.flagged.value), f"of {len(audit.findings)}")] if audit else []
    return View(
        sentence=f"The rule “{statistics.rule}” keeps {whole(statistics.kept)} of {whole(statistics.graded)} "
        "graded questions.",
        metrics={
            **statistics.model_dump(include={"train", "graded", "kept", "filtered_any", "filtered_essential"}),
            "initial_reward": statistics.initial_reward_converted,
            "initial_reward_kept": statistics.initial_reward_filtered,
            **({"flagged_rubrics": audit.flagged.value} if audit else {}),
        },
        tiles=[
            Tile("Kept", whole(statistics.kept), f"of {whole(statistics.graded)}"),
            Tile("Initial reward", number(statistics.initial_reward_converted), "of all that were graded"),
            Tile("Initial reward", number(statistics.initial_reward_filtered), "of those kept"),
            Tile("Multiple choice", percent(statistics.mcq_filtered), "of those kept"),
            *flagged,
        ],
        cards_title="Questions, and what the base model's rollouts earned on them",
        cards=[
            Card(
                key,
                picture(samples.get(key)),
                [Passage("Question", question_text(samples.get(key, {})), _rewards(rows[key]["rewards"]))],
                note="kept" if rows[key]["kept"] else "left out",
            )
            for key in ids
        ],
    )


def labelled_responses(stage: FinishedStage) -> View:
    """View of `genrm_data`: statistics of the labels, and some of them."""
    splits = {
        split: DataStatistics.model_validate(of)
        for split, of in json.loads((stage.out / "statistics.json").read_bytes()).items()
    }
    ids = draw_ids(stage.out)
    rows = {row["sample_id"]: row for row in table_rows(stage.out) if row["sample_id"] in ids}
    samples = stage.samples(ids)
    columns = ("Split", "Responses", "Criteria", "Each", "With a verifier", "Lose credit")
    return View(
        sentence=f"{whole(sum(one.instances for one in splits.values()))} responses have a label of several teachers.",
        metrics={split: one.instances for split, one in splits.items()},
        tables=[
            Table(
                "The GenRM's data",
                columns,
                [
                    (
                        split,
                        one.instances,
                        one.criteria,
                        number(one.criteria_each),
                        one.verifiable_criteria,
                        one.losing_instances,
                    )
                    for split, one in splits.items()
                ],
            )
        ],
        cards_title="Labels",
        cards=[_label(key, rows[key], samples.get(key)) for key in ids if key in rows],
    )


def _label(sample_id: str, row: dict[str, Any], sample: dict[str, Any] | None) -> Card:
    from rubricworks.grading import Scoring

    label, rubric = Scoring.model_validate_json(row["label"]), Rubric.model_validate_json(row["rubric"])
    credits = {item.criterion: item.credit for item in (*label.essential, *label.additional)}

    def labelled_as(check: Check) -> Check:
        credit = credits.get(check.title)
        if isinstance(credit, str):
            return check._replace(note=f"{check.note} · label {credit}")
        return check._replace(marks=[("the label", credit)])

    return Card(
        sample_id,
        picture(sample),
        [Passage("Question", row["question"]), Passage("Response", row["response"])],
        [labelled_as(check) for check in criteria_of(rubric)],
        note=row["split"],
    )


def _rewards(rewards: str) -> str:
    return "rollouts earned " + ", ".join(number(reward) for reward in json.loads(rewards))


def genrm(stage: FinishedStage) -> View:
    """View of `train_genrm`: test measures of base, SFT and RLVR, and the reward curve of the training."""
    from rubricworks.methods.rlr3.genrm_report import MEASURES
    from rubricworks.methods.rlr3.report.run_results import GENRM_MODELS, NAMES
    from rubricworks.methods.rlr3.report.tables import GENRM_COLUMNS

    reports = json.loads((stage.out / "genrm.json").read_bytes())
    models = [model for model in GENRM_MODELS if model in reports]
    value = {model: {name: (reports[model][name] or {}).get("value") for name in MEASURES} for model in models}
    steps = read_steps(stage.run, stage.name)
    curves = reward_curves(steps, read_alarm(stage.run / stage.name))
    return View(
        sentence=f"Of the test's whole outputs {share(value['rlvr']['sample_level'])} % are right.",
        metrics={f"{model}/{name}": one for model in models for name, one in value[model].items()}
        | reward_ends(curves),
        tiles=[Tile(NAMES[model], share(value[model]["criterion_level"]), "criteria right, %") for model in models],
        curves=curves,
        tables=[
            Table(
                "On the test, in percent",
                ("GenRM", *GENRM_COLUMNS.values()),
                [(NAMES[model], *(share(value[model][name]) for name in GENRM_COLUMNS)) for model in models],
            )
        ],
    )


def audit(stage: FinishedStage) -> View:
    """View of `audit`: undeserved credit for abnormal responses, in each setting."""
    from rubricworks.evaluation.audit.summary import AuditSummary
    from rubricworks.reports.audit.page import audit_figure, audit_headline, audit_sentences

    summary = read_value(stage.out / SUMMARY_FILE, AuditSummary)
    if summary is None or not summary.settings:
        return View("No abnormal response was found to audit the judge with.")
    return View(
        sentence=audit_headline(summary),
        notes=audit_sentences(summary),
        metrics=summary.metrics(),
        figure=audit_figure(summary),
    )
