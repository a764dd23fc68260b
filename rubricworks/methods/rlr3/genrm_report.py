"""Reliability of a GenRM's checklist executions: the seven measures of RLR³'s Table 4.

Each measure is the share of right ones among

    schema           all outputs: one JSON object with every field of the right type, and nothing around it
    criterion        all criteria of the rubrics: the slot at its position holds the criterion word for word
    execution        all criteria: its slot is right, and its credit is a runnable call of the right verifier, or a
                     number for a fuzzy criterion
    arguments        executed verifiable criteria: the verifier scores the value 1 with the label's value as target
    credit           executed fuzzy criteria: the credit equals the label's
    criterion_level  all criteria: executed, and the argument or credit is right
    sample_level     all outputs: valid, every criterion right, no entry too many

A broken output fails all its criteria. Arguments and credit are measured over executed criteria only: the paper's base
model has more right arguments (91.5 %) than executions (82.0 %), and its criterion-level accuracy (71.7 %) is about
their product. Intervals (95 %) are bootstrapped over whole outputs, because the criteria of an output are correlated;
where all are right, or none, they are Wilson's.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from rubricworks.grading.genrm_answers import AnswerCheck, check_answer
from rubricworks.grading.scoring_answers import Scoring
from rubricworks.metrics import Interval, share_interval
from rubricworks.rubrics import Rubric

_WHOLE = 1 - 1e-9


class GenrmReport(BaseModel):
    """Row of Table 4. A measure is None if there is nothing to take a share of."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    outputs: int
    criteria: int
    schema_accuracy: Interval | None
    criterion: Interval | None
    execution: Interval | None
    arguments: Interval | None
    credit: Interval | None
    criterion_level: Interval | None
    sample_level: Interval | None

    def metrics(self) -> dict[str, float]:
        """Values of the measures by name, for tracking."""
        estimates = {name: getattr(self, name) for name in MEASURES}
        return {name: estimate.value for name, estimate in estimates.items() if estimate is not None}


MEASURES = ("schema_accuracy", "criterion", "execution", "arguments", "credit", "criterion_level", "sample_level")


class LabelledOutput(NamedTuple):
    """Output of a GenRM for a response, with its label."""

    output: str
    label: Scoring
    rubric: Rubric


def genrm_report(rows: Iterable[LabelledOutput | tuple[str, Scoring, Rubric]], *, seed: int = 0) -> GenrmReport:
    """Compute the seven measures of these outputs, with 95 % intervals."""
    return checks_report([check_answer(*row) for row in rows], seed=seed)


def checks_report(checks: list[AnswerCheck], *, seed: int = 0) -> GenrmReport:
    """`genrm_report` for outputs that were checked already."""
    criteria = [(number, criterion) for number, check in enumerate(checks) for criterion in check.criteria]
    executed = [(number, criterion) for number, criterion in criteria if criterion.executed]

    def share(results: Iterable[tuple[int, bool]]) -> Interval | None:
        pairs = list(results)
        if not pairs:
            return None
        return share_interval([float(right) for _, right in pairs], clusters=[number for number, _ in pairs], seed=seed)

    return GenrmReport(
        outputs=len(checks),
        criteria=len(criteria),
        schema_accuracy=share((number, check.valid) for number, check in enumerate(checks)),
        criterion=share((number, criterion.slot) for number, criterion in criteria),
        execution=share((number, criterion.executed) for number, criterion in criteria),
        arguments=share((number, criterion.score >= _WHOLE) for number, criterion in executed if criterion.verifiable),
        credit=share((number, criterion.score >= _WHOLE) for number, criterion in executed if not criterion.verifiable),
        criterion_level=share((number, criterion.score >= _WHOLE) for number, criterion in criteria),
        sample_level=share((number, _all_right(check)) for number, check in enumerate(checks)),
    )


def _all_right(check: AnswerCheck) -> bool:
    return check.valid and not check.surplus and all(criterion.score >= _WHOLE for criterion in check.criteria)
