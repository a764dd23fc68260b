"""Audit set of a failure-mode audit: regular responses, and abnormal ones that are generated, checked and balanced.

Abnormal responses are generated in passes (`evaluation.audit.sampling`), each with a table of candidates from which an
interrupted run resumes. The attacks of the adversarial ones come from a search on the judge under audit.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rubricworks.data.tables import build_table, read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.audit.candidates import Candidate, CandidateGenerator
from rubricworks.evaluation.audit.prompts import INSTRUCTIONS
from rubricworks.evaluation.audit.red_team import AttackPattern
from rubricworks.evaluation.audit.sampling import Attempt, draw_number, missing_counts, next_pass, shuffle_inputs
from rubricworks.evaluation.audit.summary import ResponseCount
from rubricworks.evaluation.audit.values import (
    ANNOTATIONS,
    FAILURE_MODES,
    Annotation,
    Case,
    Failure,
    FailureMode,
    label_annotations,
)
from rubricworks.rubrics import Rubric
from rubricworks.runtime.call_table import Row, dead_letter
from rubricworks.runtime.job import Job

RESPONSE_COLUMNS = ("sample_id", "mode", "attack", "pattern", "question", "response", "rubric", "annotations")
"""Columns of an audit row that do not depend on judge and setting."""


@dataclass
class AuditSet:
    """Annotated responses, ready to be judged."""

    responses: list[Row]
    """Rows with RESPONSE_COLUMNS."""
    counts: dict[str, ResponseCount]
    """Mode → target and actual number of responses."""
    rejections: dict[str, dict[str, int]]
    """Mode → rejection → number of candidates."""

    def with_regular(self, regular: list[Row]) -> "AuditSet":
        """Return the set with the regular responses before the abnormal ones."""
        counts = {"regular": ResponseCount(wanted=len(regular), found=len(regular))}
        return AuditSet([*regular, *self.responses], counts | self.counts, self.rejections)


def read_cases(table: Path) -> dict[str, list[Case]]:
    """Read the labelled responses: split (train, test) → cases.

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
    """Draw one case per input, in the order of the seed's draw."""
    by_input: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_input[case.sample_id].append(case)
    return {
        name: by_input[name][draw_number(len(by_input[name]), seed, name)] for name in shuffle_inputs(by_input, seed)
    }


def regular_responses(cases: Sequence[Case], count: int | None, seed: int) -> list[Row]:
    """Rows of the test responses, or of those of `count` inputs drawn with the seed.

    Raises:
        UserError: a label does not fit its rubric.
    """
    inputs = shuffle_inputs((case.sample_id for case in cases), seed)[:count]
    sample_ids = set(inputs)
    rows = []
    for case in cases:
        if case.sample_id in sample_ids:
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
    """Generate `per_category` responses of each failure mode, from different inputs.

    Args:
        cases: input → case to rewrite, in the order in which inputs are used.
        patterns: attacks of the adversarial responses.
    """
    attempts: list[Attempt] = []
    rows: list[Row] = []
    number = 1
    while trials := next_pass(list(cases), attempts, per_category):
        numbered = _number_tries(trials, attempts)

        async def make_rows(items: list[tuple[str, FailureMode, int]]) -> dict[str, list[Row]]:
            calls = (
                generator.generate(cases[name], _failure(name, mode, patterns, seed, tried), tried)
                for name, mode, tried in items
            )
            candidates = await job.calls.gather_all(calls)
            letters = [_letter(job, candidate) for candidate in candidates if candidate.error is not None]
            return {
                "audit_candidates": [_candidate_row(candidate) for candidate in candidates],
                "dead_letters": letters,
            }

        folder = job.out / "candidates" / f"pass-{number:02}"
        await build_table(
            folder,
            "audit_candidates",
            numbered,
            make_rows,
            made_by=job.made_by,
            shard_size=shard_size,
            side_tables={"dead_letters": folder / "dead_letters"},
            progress=job.progress(len(trials), f"candidates, pass {number}").at,
        )
        pass_rows = list(read_rows(folder))
        attempts += [Attempt(row["sample_id"], row["mode"], row["rejected"] is None) for row in pass_rows]
        rows += pass_rows
        number += 1
    lacking = missing_counts(attempts, per_category)
    rejections: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["rejected"] is not None:
            rejections[row["mode"]][row["rejected"]] += 1
    return AuditSet(
        responses=[{name: row[name] for name in RESPONSE_COLUMNS} for row in rows if row["rejected"] is None],
        counts={mode: ResponseCount(wanted=per_category, found=per_category - lacking[mode]) for mode in FAILURE_MODES},
        rejections={mode: dict(reasons.most_common()) for mode, reasons in rejections.items()},
    )


def _number_tries(
    trials: Sequence[tuple[str, FailureMode]], attempts: Sequence[Attempt]
) -> list[tuple[str, FailureMode, int]]:
    """Add to each trial how often it was tried before."""
    tries = Counter((attempt.sample_id, attempt.mode) for attempt in attempts)
    return [(name, mode, tries[name, mode]) for name, mode in trials]


def _failure(sample_id: str, mode: FailureMode, patterns: Sequence[AttackPattern], seed: int, attempt: int) -> Failure:
    if mode != "adversarial":
        return Failure(mode, INSTRUCTIONS[mode])
    return patterns[(draw_number(len(patterns), seed, "pattern", sample_id) + attempt) % len(patterns)].failure()


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
