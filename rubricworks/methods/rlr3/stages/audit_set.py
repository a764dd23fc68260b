"""The audit set of a failure-mode audit: regular responses as they are, abnormal ones made, checked and balanced.

Responses are made in passes, each a table of candidates that an interrupted run takes up again: see
`evaluation.audit.sampling`. Which attacks the adversarial ones use is found by a search on the judge itself.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rubricworks.data.tables import build_table, read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.audit.annotations import ANNOTATIONS, Annotation, label_annotations
from rubricworks.evaluation.audit.candidates import Candidate, CandidateGenerator
from rubricworks.evaluation.audit.prompts import INSTRUCTIONS
from rubricworks.evaluation.audit.red_team import AttackPattern
from rubricworks.evaluation.audit.sampling import Attempt, draw_number, missing_counts, next_pass, shuffle_inputs
from rubricworks.evaluation.audit.summary import ResponseCount
from rubricworks.evaluation.audit.values import FAILURE_MODES, Case, Failure, FailureMode
from rubricworks.rubrics import Rubric
from rubricworks.runtime.call_table import Row, dead_letter
from rubricworks.runtime.job import Job

RESPONSE_COLUMNS = ("sample_id", "mode", "attack", "pattern", "question", "response", "rubric", "annotations")
"""What of a row is the response, whoever judges it and in whichever setting."""


@dataclass
class AuditSet:
    """Responses with what they deserve, ready to be judged."""

    responses: list[Row]
    """With RESPONSE_COLUMNS."""
    collected: dict[str, ResponseCount]
    turned_away: dict[str, dict[str, int]]
    """Mode → reason → how often."""

    def after(self, regular: list[Row]) -> "AuditSet":
        """With the regular responses before the abnormal ones."""
        counted = {"regular": ResponseCount(wanted=len(regular), found=len(regular))}
        return AuditSet([*regular, *self.responses], counted | self.collected, self.turned_away)


def read_cases(table: Path) -> dict[str, list[Case]]:
    """Split → labelled responses: train and test.

    Raises:
        UserError: the table has no test responses.
    """
    cases: dict[str, list[Case]] = defaultdict(list)
    for row in read_rows(table, columns=["sample_id", "split", "question", "response", "rubric", "label"]):
        rubric = Rubric.model_validate_json(row["rubric"])
        case = Case(row["sample_id"], row["question"], row["response"], rubric, row["label"])
        cases[row["split"]].append(case)
    if not cases["test"]:
        raise UserError(f"{table}: no response of the split test to audit with; make more GenRM data")
    return cases


def one_per_input(cases: Sequence[Case], seed: int) -> dict[str, Case]:
    """Input → the response to start from, drawn where it has several; in the order of the seed's draw."""
    by_input: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_input[case.sample_id].append(case)
    return {
        name: by_input[name][draw_number(len(by_input[name]), seed, name)] for name in shuffle_inputs(by_input, seed)
    }


def regular_responses(cases: Sequence[Case], count: int | None, seed: int) -> list[Row]:
    """Rows of the test responses, or of so many inputs' in the order of the seed's draw.

    Raises:
        UserError: a label does not fit its rubric.
    """
    inputs = shuffle_inputs((case.sample_id for case in cases), seed)[:count]
    chosen = set(inputs)
    rows = []
    for case in cases:
        if case.sample_id in chosen:
            try:
                annotations = label_annotations(case.label, case.rubric)
            except ValueError as error:
                raise UserError(f"the label of a response to {case.sample_id}: {error}; make the data again") from error
            rows.append(_row(case, "regular", None, case.response, annotations))
    return rows


async def abnormal_responses(
    job: Job,
    generator: CandidateGenerator,
    cases: dict[str, Case],
    patterns: Sequence[AttackPattern],
    *,
    per_category: int,
    shard_size: int,
    seed: int,
) -> AuditSet:
    """So many responses of each failure mode, from different inputs.

    Args:
        cases: input → response to start from, in the order in which inputs are used.
        patterns: attacks of the adversarial ones.
    """
    attempts: list[Attempt] = []
    rows: list[Row] = []
    number = 1
    while chosen := next_pass(list(cases), attempts, per_category):

        async def make_rows(items: list[tuple[str, FailureMode]]) -> dict[str, list[Row]]:
            asked = (generator.generate(cases[name], _failure(name, mode, patterns, seed)) for name, mode in items)
            made = await job.calls.gather_all(asked)
            letters = [_letter(job, candidate) for candidate in made if candidate.error is not None]
            return {"audit_candidates": [_candidate_row(one) for one in made], "dead_letters": letters}

        folder = job.out / "candidates" / f"pass-{number:02}"
        await build_table(
            folder,
            "audit_candidates",
            chosen,
            make_rows,
            made_by=job.made_by,
            shard_size=shard_size,
            side_tables={"dead_letters": folder / "dead_letters"},
            progress=job.progress(len(chosen), f"candidates, pass {number}").at,
        )
        made = list(read_rows(folder))
        attempts += [Attempt(row["sample_id"], row["mode"], row["rejected"] is None) for row in made]
        rows += made
        number += 1
    lacking = missing_counts(attempts, per_category)
    turned_away: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["rejected"] is not None:
            turned_away[row["mode"]][row["rejected"]] += 1
    return AuditSet(
        responses=[{name: row[name] for name in RESPONSE_COLUMNS} for row in rows if row["rejected"] is None],
        collected={
            mode: ResponseCount(wanted=per_category, found=per_category - lacking[mode]) for mode in FAILURE_MODES
        },
        turned_away={mode: dict(reasons.most_common()) for mode, reasons in turned_away.items()},
    )


def _failure(sample_id: str, mode: FailureMode, patterns: Sequence[AttackPattern], seed: int) -> Failure:
    if mode != "adversarial":
        return Failure(mode, INSTRUCTIONS[mode])
    return patterns[draw_number(len(patterns), seed, "pattern", sample_id)].failure()


def _letter(job: Job, candidate: Candidate) -> Row:
    assert candidate.error is not None
    purpose = f"{candidate.failure.mode}: {candidate.rejection}"
    return dead_letter(candidate.case.sample_id, job, purpose, candidate.error)


def _candidate_row(candidate: Candidate) -> Row:
    case, failure = candidate.case, candidate.failure
    row = _row(case, failure.mode, failure, candidate.response, candidate.annotations)
    return {**row, "rejected": candidate.rejection, "details": candidate.details or None}


def _row(case: Case, mode: str, failure: Failure | None, response: str, annotations: tuple[Annotation, ...]) -> Row:
    return {
        "sample_id": case.sample_id,
        "mode": mode,
        "attack": failure and failure.attack,
        "pattern": failure and failure.pattern,
        "question": case.question,
        "response": response,
        "rubric": case.rubric.model_dump_json(),
        "annotations": ANNOTATIONS.dump_json(annotations).decode(),
    }
