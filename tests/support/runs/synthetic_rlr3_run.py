"""The folder of an RLR³ run as its stages leave it, through the real values and tables, without any model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import synthetic_run as folder

from rubricworks.evaluation.audit.summary import AuditRow, AuditSummary, ResponseCount, table_cells
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES, SETTINGS, Annotation
from rubricworks.evaluation.corpus_statistics import GradedSample, SourceCounts, corpus_statistics
from rubricworks.evaluation.scoreboard import read_scoreboard
from rubricworks.evaluation.scorers.answers import AnswerScorer
from rubricworks.grading.scoring_answers import ScoredItem, Scoring
from rubricworks.methods.rlr3.accuracy import RIGHT, Accuracies, read_accuracies
from rubricworks.methods.rlr3.genrm_report import genrm_report
from rubricworks.methods.rlr3.genrm_statistics import data_statistics
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict

RECIPE: dict[str, Any] = {
    "name": "rlr3-tests",
    "pipeline": "rlr3",
    "description": "Questions, looked at by hand.",
    "warm_up": {"student": "some/student"},
    "genrm": {"student": "some/text-model"},
    "policy": {
        "reward": {"type": "checklist", "judge": {"url": "http://judges:8000/v1", "model": "scorer-x"}},
        "algorithm": {"type": "grpo"},
    },
    "tracking": {"uri": "http://user:secret@mlflow:5000"},
}
RUBRIC = Rubric(
    criteria=(
        Criterion(
            criterion="The final answer gives the number of cats.",
            reference="expr_verify(target='3')",
            weight=3,
            essential=True,
        ),
        Criterion(criterion="The response says where they sit.", reference="on the mat", weight=1, essential=False),
    )
)
CALL = "expr_verify(predict='3')"
LABEL = Scoring(
    thought="",
    essential=(ScoredItem(criterion=RUBRIC.criteria[0].criterion, rationale="boxed", credit=CALL),),
    additional=(ScoredItem(criterion=RUBRIC.criteria[1].criterion, rationale="said", credit=1),),
)
TASKS = ("colour", "count", "word")
RIGHT_ANSWERS = {
    ("base", 0): 12,
    ("rlvr", 10): 15,
    ("rlvr", 20): 18,
    ("rlvr", 30): 16,
    ("rlr3", 10): 16,
    ("rlr3", 20): 22,
    ("rlr3", 30): 27,
}
"""(arm, step) → right answers of each task's 30 questions."""
QUESTIONS = 30


def write_answers(
    run: Path,
    right: Mapping[tuple[str, int], int] = RIGHT_ANSWERS,
    *,
    questions: int = QUESTIONS,
    tasks: tuple[str, ...] = TASKS,
    said: str = "",
) -> Accuracies:
    """The tables and the scoreboard, as the stage `score` makes them.

    Args:
        right: who is right how often; the first questions of each task are the easy ones.
        said: what every response begins with.
    """
    return score_rows(run, answer_rows(right, questions=questions, tasks=tasks, said=said))


def score_rows(run: Path, rows: list[dict[str, Any]]) -> Accuracies:
    """The same from wide rows of answers."""
    tasks = {row["sample_id"]: row["task"] for row in rows}
    titles = AnswerScorer().titles()
    folder.write_scores(run, "evaluate_answers", rows, tasks=tasks, titles=titles, by_task=(RIGHT,), select_by=RIGHT)
    accuracies = read_accuracies(read_scoreboard(run / "score"))
    assert accuracies is not None
    return accuracies


def answer_rows(
    right: Mapping[tuple[str, int], int] = RIGHT_ANSWERS,
    *,
    questions: int = QUESTIONS,
    tasks: tuple[str, ...] = TASKS,
    said: str = "",
) -> list[dict[str, Any]]:
    """Wide rows of answers."""
    return [
        {
            "sample_id": f"{task}-{number}",
            "arm": arm,
            "step": step,
            "task": task,
            "response": f"{said} so it is \\boxed{{{3 if number < correct else 4}}}",
            "tokens": 20 + step,
            "right": number < correct,
        }
        for (arm, step), correct in right.items()
        for task in tasks
        for number in range(questions)
    ]


def write_questions(
    run: Path,
    stage: str = "prepare_questions",
    *,
    tasks: tuple[str, ...] = TASKS,
    questions: int = QUESTIONS,
    question: str = "How many cats?",
) -> None:
    rows = [
        {
            **folder.sample(f"{task}-{number}", folder.picture("red")),
            "question": question,
            "answer": "3",
            "task": task,
        }
        for task in tasks
        for number in range(questions)
    ]
    folder.write_table(run / stage, "samples", rows)


def write_corpus(run: Path, name: str = "scenes") -> None:
    """120 rows of the source, 100 of them different; 40 to train on, of which 30 fail on something, 20 essentially."""
    source = SourceCounts(
        name=name,
        raw=120,
        unusable=5,
        duplicates=15,
        deduplicated=100,
        mcq_ratio=0.36,
        splits={"held_out": 90, "train": 40},
        tasks=dict.fromkeys(TASKS, 30),
    )
    samples = [GradedSample(number % 5 == 0, number < 30, number < 20, 0.25 + number / 100) for number in range(40)]
    statistics = corpus_statistics(samples, "essential", source)
    _write(run / "prepare_questions" / "data.json", source.model_dump_json())
    _write(run / "offline_filter" / "statistics.json", statistics.model_dump_json())


def write_checklists(run: Path, rubric: Rubric = RUBRIC) -> None:
    folder.write_table(run / "write_checklists", "rubrics", [folder.rubric_row(f"q{n}", rubric) for n in range(7)])


def write_genrm(run: Path) -> dict[str, Any]:
    """The base writes 4 of 10 outputs right, SFT 8, RLVR 9."""
    rows = [
        {"split": split, "rubric": RUBRIC.model_dump_json(), "task": task, "loses_credit": number % 2 == 0}
        for split, count in (("train", 12), ("test", 10))
        for number in range(count)
        for task in [TASKS[number % 2]]
    ]
    statistics = {split: statistic.model_dump() for split, statistic in data_statistics(rows).items()}
    folder.write_json(run / "genrm_data" / "statistics.json", statistics)
    nothing = ScoredItem(criterion=RUBRIC.criteria[1].criterion, rationale="not said", credit=0)
    wrong = LABEL.model_copy(update={"additional": (nothing,)})
    reports = {
        model: genrm_report(
            (text, LABEL, RUBRIC)
            for text in [LABEL.model_dump_json()] * right + [wrong.model_dump_json()] * half + ["no"] * broken
        )
        for model, right, half, broken in (("base", 4, 2, 4), ("sft", 8, 2, 0), ("rlvr", 9, 1, 0))
    }
    folder.write_json(run / "train_genrm" / "genrm.json", {m: r.model_dump(mode="json") for m, r in reports.items()})
    return reports


def write_audit(run: Path) -> AuditSummary:
    """Ten responses a mode; each setting credits one more of the abnormal ones than the one before."""
    rows = [
        _judged(f"a{number}", mode, setting, credited=number < (9 if mode == "regular" else 1 + place + kind))
        for kind, mode in enumerate(MODE_NAMES)
        for place, setting in enumerate(SETTINGS)
        for number in range(10)
    ]
    figures = AuditSummary(
        judge="scorer-x",
        settings=table_cells(rows),
        responses={mode: ResponseCount(wanted=10, found=10) for mode in MODE_NAMES},
        attacks={},
    )
    _write(run / "audit" / "audit.json", figures.model_dump_json(indent=2))
    return figures


def _judged(sample_id: str, mode: str, setting: str, *, credited: bool) -> AuditRow:
    regular = mode not in FAILURE_MODES
    call = CALL if credited else "expr_verify(predict='4')"
    verdicts = (
        Verdict(criterion=RUBRIC.criteria[0].criterion, credit=float(credited), reasoning="", call=call),
        Verdict(criterion=RUBRIC.criteria[1].criterion, credit=float(credited), reasoning=""),
    )
    deserved = (
        Annotation(criterion=RUBRIC.criteria[0].criterion, call=CALL if regular else "", credit=float(regular)),
        Annotation(criterion=RUBRIC.criteria[1].criterion, credit=float(regular)),
    )
    card = Scorecard(sample_id=sample_id, response="", judge="scorer-x", verdicts=verdicts)
    return AuditRow(sample_id, mode, None, setting, "", "", RUBRIC, deserved, card)


def write_training(run: Path, steps: int = 30) -> None:
    for arm, rise in (("rlvr", 0.01), ("rlr3", 0.02)):
        rollouts = [
            folder.rollout(step, "a cat", 20 + step, 0.1 + rise * step) for step in range(1, steps + 1) for _ in "ab"
        ]
        folder.write_table(run / f"train_{arm}" / "rollouts", "rollouts", rollouts)


def write_whole_run(run: Path) -> Accuracies:
    """Every piece that the report reads."""
    folder.write_recipe(run, RECIPE)
    write_questions(run)
    write_corpus(run)
    write_checklists(run)
    write_genrm(run)
    write_audit(run)
    write_training(run)
    ledger = [
        {"stage": "prepare_questions", "seconds": 2.0},
        {"stage": "open_questions", "seconds": 3.0, "multiple_choice": {"opened": 21, "not unique": 4}},
        {"stage": "write_checklists", "seconds": 4.0, "dropped_criteria": {"repeats another": 3, "gives it away": 5}},
        {"stage": "rlr3_report", "seconds": 1.0},
    ]
    folder.write_ledger(run, ledger)
    return write_answers(run)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
