"""Sections of RLR³'s stages, on their own pages and in the report: Tables 1 and 3 to 5."""

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from pydantic import JsonValue, RootModel

from rubricworks.evaluation.audit.summary import SUMMARY_FILE, AuditSummary
from rubricworks.evaluation.audit.values import FAILURE_MODES
from rubricworks.evaluation.corpus_statistics import CorpusStatistics, SourceCounts
from rubricworks.evaluation.rubric_audit import RubricAudit
from rubricworks.grading import Scoring
from rubricworks.methods.rlr3.genrm_report import MEASURES, GenrmReport
from rubricworks.methods.rlr3.genrm_statistics import DataStatistics
from rubricworks.reports.data import criteria_of, question_text
from rubricworks.reports.formats import number, percent, share, span, whole
from rubricworks.reports.judge_audit import audit_figure, audit_headline, audit_sentences, audit_table
from rubricworks.reports.page import Block
from rubricworks.reports.parts import (
    Card,
    Cards,
    Cell,
    Check,
    CheckList,
    Entry,
    Html,
    Lane,
    Mark,
    Part,
    Passage,
    Table,
    Text,
    Tile,
    Tiles,
    WhiskerRow,
    Whiskers,
)
from rubricworks.reports.rubric_audit import AUDIT_FILE
from rubricworks.reports.run_folder import RunFolder, read_value, table_rows
from rubricworks.reports.training import training
from rubricworks.rubrics import Rubric

NAMES = {"base": "Base", "sft": "SFT", "rlvr": "RLVR", "rlr3": "RLR³"}
"""Model → display name."""
GENRM_MODELS = ("base", "sft", "rlvr")
GENRM_COLUMNS = dict(
    zip(
        MEASURES,
        ("Schema", "Criterion", "Execution", "Arguments", "Credit", "Criterion-level", "Sample-level"),
        strict=True,
    )
)
"""Measure → column of Table 4."""
_OPTIONS = ["sample_id", "options"]
_TABLE_1 = ("Dataset", "Raw", "De-dup.", "Filtered, any", "Filtered, essential")
_MCQ = ("MCQ ratio, de-dup.", "MCQ ratio, converted", "MCQ ratio, filtered")
_REWARD = ("Initial reward, converted", "Initial reward, filtered")
_COUNTS = (
    "Raw and de-duplicated: all splits together. Filtered: training questions on which some of the base model's "
    "rollouts fails any criterion (credit below 0.5), or an essential one. Ratios in percent."
)
_TABLE_3 = (*("Criteria", "Per instance", "Instances with a verifier", "Criteria with a verifier", "Lose credit"),)
_EXECUTION = (
    "Execution: the right verifier's call, or a number where a judge decides. Arguments and credit: of executed "
    "criteria, those that a verifier checks and the others. Criterion-level: executed, and argument or credit right. "
    "Sample-level: the whole output right."
)
_TABLE_5 = (
    "Average (arguments / credit), then the interval and the counts. Regular is the accuracy against the labels, "
    "higher is better; the others are false-positive rates, lower is better. Red: more than 2 points worse than the "
    "default."
)


class _Splits(RootModel[dict[str, DataStatistics]]):
    pass


class _Models(RootModel[dict[str, GenrmReport]]):
    pass


def opened_questions(run: RunFolder) -> Block:
    """Multiple-choice questions before and after their conversion."""
    choices = {row["sample_id"] for row in table_rows(run.inputs["samples"], _OPTIONS) if row["options"]}
    converted = choices - {row["sample_id"] for row in table_rows(run.out, _OPTIONS) if row["options"]}
    ids = run.draw(sorted(converted)) or run.draw_from(run.out)
    before = run.samples(ids)
    cards = [
        Card(
            key,
            run.picture(before.get(key, {}).get("image")),
            [
                *([Passage("Before", question_text(before[key]), kind="base")] if key in converted else []),
                Passage("Now", question_text(row), kind="policy"),
            ],
        )
        for key, row in run.samples_of(run.out, ids).items()
    ]
    outcomes = run.last_counts(run.stage, "multiple_choice")
    return Block(
        "questions",
        "Before and after" if converted else "Questions",
        [
            Text(f"{whole(len(converted))} of {whole(len(choices))} multiple-choice questions became open ones."),
            *([Table(("The opener's word", "Questions"), outcomes)] if outcomes else []),
            Cards(cards),
        ],
        metrics={"multiple_choice": len(choices), "opened": len(converted)},
    )


def corpus(run: RunFolder) -> Block:
    """Table 1, and what the base model's rollouts earned on some questions."""
    source = read_value(run.path / "prepare_questions" / "data.json", SourceCounts)
    statistics = read_value(run.out / "statistics.json", CorpusStatistics)
    parts: list[Part] = []
    if rows := corpus_rows(source, statistics):
        parts.append(Table((*_TABLE_1, *_MCQ, *_REWARD), rows, "Table 1. The training corpus", _COUNTS))
    if not source:
        missing = "No counts of the source: the prepare_questions stage has not finished in this run."
        parts.append(Text(missing, "missing"))
    elif source.unusable:
        parts.append(Text(f"{whole(source.unusable)} rows of the source could not be used."))
    if outcomes := run.last_counts("open_questions", "multiple_choice"):
        counted = ", ".join(f"{name or 'judged'} {whole(count)}" for name, count in outcomes)
        parts.append(Text(f"Multiple-choice questions that the opener was asked about: {counted}."))
    if not statistics:
        missing = "No filtered corpus: the offline_filter stage has not finished in this run."
        return Block("corpus", "Training corpus", [*parts, Text(missing, "missing")], name="Data")
    sentence = (
        f"In use: “{statistics.rule}”, which keeps {whole(statistics.kept)} of {whole(statistics.graded)} graded "
        f"questions ({whole(statistics.train)} to train on)."
    )
    if audit := read_value(run.out / AUDIT_FILE, RubricAudit):
        flagged = f"{percent(audit.flagged.value)} of {whole(len(audit.findings))} audited checklists are flagged."
        parts.append(Text(flagged))
    return Block(
        "corpus",
        "Training corpus",
        [Text(sentence), *parts, Cards(_filtered_cards(run))],
        name="Data",
        metrics={
            **statistics.model_dump(include={"train", "graded", "kept", "filtered_any", "filtered_essential"}),
            "initial_reward": statistics.initial_reward_converted,
            "initial_reward_kept": statistics.initial_reward_filtered,
            **({"flagged_rubrics": audit.flagged.value} if audit else {}),
        },
    )


def corpus_rows(source: SourceCounts | None, statistics: CorpusStatistics | None) -> list[Sequence[Entry]]:
    """Rows of Table 1: one for each source of the run, and one for all where there are several."""
    sources, corpora = source.corpora if source else (), statistics.corpora if statistics else ()
    rows = [_corpus_row(*pair) for pair in zip_longest(sources, corpora)]
    return [row for row in (*rows, _corpus_row(source, statistics)) if row is not None]


def _corpus_row(source: SourceCounts | None, statistics: CorpusStatistics | None) -> Sequence[Entry] | None:
    if source is None and statistics is None:
        return None
    of_corpus = statistics.model_dump() if statistics else {}
    ratios = [
        source.mcq_ratio if source else of_corpus.get("mcq_deduplicated"),
        of_corpus.get("mcq_converted"),
        of_corpus.get("mcq_filtered"),
    ]
    rewards = [of_corpus.get("initial_reward_converted"), of_corpus.get("initial_reward_filtered")]
    return [
        (statistics.name if statistics else "") or (source.name if source else ""),
        source.raw if source else of_corpus.get("raw"),
        source.deduplicated if source else of_corpus.get("deduplicated"),
        of_corpus.get("filtered_any"),
        of_corpus.get("filtered_essential"),
        *map(share, ratios),
        *(number(reward, 4) for reward in rewards),
    ]


def _filtered_cards(run: RunFolder) -> list[Card]:
    rows = {row["sample_id"]: row for row in table_rows(run.out) if row["initial_reward"] is not None}
    ids = run.draw(sorted(rows))
    samples = run.samples(ids)
    return [
        Card(
            key,
            run.picture(samples.get(key, {}).get("image")),
            [Passage("Question", question_text(samples.get(key, {})), _rewards(rows[key]["rewards"]))],
            note="kept" if rows[key]["kept"] else "left out",
        )
        for key in ids
    ]


def _rewards(rewards: str) -> str:
    return "rollouts earned " + ", ".join(number(reward) for reward in json.loads(rewards))


def labels(run: RunFolder) -> Block:
    """Table 3: the GenRM's data, and some of its labels."""
    title = "The GenRM's data"
    read = read_value(run.out / "statistics.json", _Splits)
    if read is None:
        missing = "No data of the GenRM: the genrm_data stage has not finished in this run."
        return Block("labels", title, [Text(missing, "missing")], name="Labels")
    splits = {split: read.root[split] for split in ("train", "test") if split in read.root}
    tasks = sorted({task for statistics in splits.values() for task in statistics.tasks})
    rows = [_split_row(split, statistics, tasks) for split, statistics in splits.items()]
    columns = ("Split", "Instances", *(task or "no task" for task in tasks), *_TABLE_3)
    ids = run.draw_from(run.out)
    labelled = {row["sample_id"]: row for row in table_rows(run.out) if row["sample_id"] in ids}
    samples = run.samples(ids)
    cards = [_label(run, key, labelled[key], samples.get(key, {})) for key in ids if key in labelled]
    total = sum(statistics.instances for statistics in splits.values())
    return Block(
        "labels",
        title,
        [
            Text(f"{whole(total)} responses have a label of several teachers."),
            Table(columns, rows, "Table 3. The GenRM's data"),
            Cards(cards),
        ],
        name="Labels",
        metrics={split: statistics.instances for split, statistics in splits.items()},
    )


def _split_row(split: str, statistics: DataStatistics, tasks: Sequence[str]) -> Sequence[Entry]:
    instances = statistics.instances

    def counted(count: int, whole_count: int) -> Cell:
        of_all = f"{share(count / whole_count if whole_count else None)}\N{NARROW NO-BREAK SPACE}%"
        return Cell(whole(count), of_all)

    return [
        split.capitalize(),
        instances,
        *(counted(statistics.tasks.get(task, 0), instances) for task in tasks),
        statistics.criteria,
        number(statistics.criteria_each),
        counted(statistics.verifiable_instances, instances),
        counted(statistics.verifiable_criteria, statistics.criteria),
        counted(statistics.losing_instances, instances),
    ]


def _label(run: RunFolder, sample_id: str, row: dict[str, Any], sample: dict[str, Any]) -> Card:
    label, rubric = Scoring.model_validate_json(row["label"]), Rubric.model_validate_json(row["rubric"])
    credits = {item.criterion: item.credit for item in (*label.essential, *label.additional)}

    def labelled_as(check: Check) -> Check:
        credit = credits.get(check.title)
        if isinstance(credit, str):
            return check._replace(note=f"{check.note} · label {credit}")
        return check._replace(marks=[Mark("the label", credit)])

    return Card(
        sample_id,
        run.picture(sample.get("image")),
        [Passage("Question", row["question"]), Passage("Response", row["response"])],
        [CheckList([labelled_as(check) for check in criteria_of(rubric)])],
        note=row["split"],
    )


def genrm(run: RunFolder) -> Block:
    """Table 4: how reliably base, SFT and RLVR execute checklists, and the curves of the training."""
    title = "GenRM: how reliably checklists are executed"
    read = read_value(run.out / "genrm.json", _Models)
    reports = {model: read.root[model] for model in GENRM_MODELS if read and model in read.root}
    details: dict[str, JsonValue] = {
        model: report.criterion_level.model_dump(mode="json")
        for model, report in reports.items()
        if report.criterion_level
    }
    if not reports:
        missing = "No figures of the GenRM: the train_genrm stage has not finished in this run."
        return Block("genrm", title, [Text(missing, "missing")], name="GenRM", details={"genrm": details})
    rows = [
        (
            NAMES[model],
            *(
                Cell(share(estimate.value), span(estimate)) if (estimate := getattr(report, name)) else None
                for name in GENRM_COLUMNS
            ),
            report.outputs,
            report.criteria,
        )
        for model, report in reports.items()
    ]
    best = reports.get("rlvr") or reports[list(reports)[-1]]
    curves = training(run)
    right = (
        f"Of the test's whole outputs {share(best.sample_level.value)}\N{NARROW NO-BREAK SPACE}% are right."
        if best.sample_level
        else ""
    )
    tiles = [
        Tile(NAMES[model], share(report.criterion_level.value), "criteria right, %")
        for model, report in reports.items()
        if report.criterion_level
    ]
    metrics: dict[str, float | None] = {
        f"{model}/{name}": estimate.value if (estimate := getattr(report, name)) else None
        for model, report in reports.items()
        for name in MEASURES
    }
    return Block(
        "genrm",
        title,
        [
            *([Text(right)] if right else []),
            Tiles(tiles),
            _whiskers(reports),
            Table(("GenRM", *GENRM_COLUMNS.values(), "Outputs", "Criteria"), rows, "Table 4. Percent", _EXECUTION),
            *(curves.parts if curves.metrics.get("steps") else ()),
        ],
        name="GenRM",
        metrics={**metrics, **{name: curves.metrics.get(name) for name in ("reward_first", "reward")}},
        details={"genrm": details},
    )


def _whiskers(reports: dict[str, GenrmReport]) -> Whiskers:
    rows = []
    for name, column in GENRM_COLUMNS.items():
        lanes = [
            Lane(f"genrm-{model}", NAMES[model], estimate)
            for model, report in reports.items()
            if (estimate := getattr(report, name))
        ]
        rows.append(WhiskerRow(column, lanes, share(lanes[-1].figure.value) if lanes else ""))
    lows = [lane.figure.value if lane.figure.low is None else lane.figure.low for row in rows for lane in row.lanes]
    return Whiskers(rows, low=min([0.9, *lows]))


def judge_audit(run: RunFolder) -> Block:
    """Table 5: undeserved credit for abnormal responses, in each setting."""
    title = "Audit: credit that is not deserved"
    summary = read_value(run.out / SUMMARY_FILE, AuditSummary)
    default = summary.settings.get("text", {}) if summary else {}
    rates: dict[str, JsonValue] = {
        mode: cell.average.value for mode in FAILURE_MODES if (cell := default.get(mode)) and cell.average
    }
    if summary is None or not summary.settings:
        finished = (run.out / SUMMARY_FILE).is_file()
        missing = (
            "No abnormal response was found to audit the judge with."
            if finished
            else "There is no audit: the audit stage has not finished in this run."
        )
        return Block("audit", title, [Text(missing, "missing")], name="Audit", details={"audit": rates})
    return Block(
        "audit",
        title,
        [
            Text(" ".join([audit_headline(summary), *audit_sentences(summary)])),
            Html(audit_figure(summary)),
            audit_table(summary, "Table 5. Percent", _TABLE_5),
        ],
        name="Audit",
        metrics=dict(summary.metrics()),
        details={"audit": rates},
    )
