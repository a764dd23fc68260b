"""How reliably a GenRM executes checklists: the seven figures of RLR³'s Table 4.

With the outputs, their labels and rubrics at hand, each figure is a share of right ones among

    schema           all outputs: one JSON object, every field there and of its type, nothing around it
    criterion        all criteria of the rubrics: the slot at its position holds the criterion word for word
    execution        all criteria: its slot is right, and its credit is a call of the right verifier that can be run, or
                     a number where a judge decides
    arguments        verifiable criteria that were executed: the verifier scores the value 1 with the label's as target
    credit           fuzzy criteria that were executed: the credit is the label's
    criterion_level  all criteria: executed, and the argument or credit is right
    sample_level     all outputs: valid, every criterion right, no entry too many

A broken output fails all its criteria. Arguments and credit are taken of executed criteria only: the paper's base model
has more right arguments (91.5 %) than executions (82.0 %), and its criterion-level figure (71.7 %) is about their
product. Intervals (95 %) are bootstrapped over whole outputs, whose criteria stand and fall together.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from rubricworks.grading.genrm_answers import AnswerCheck, check_answer
from rubricworks.grading.scoring_answers import Scoring
from rubricworks.metrics import Estimate, clustered_interval
from rubricworks.rubrics import Rubric

_WHOLE = 1 - 1e-9


class GenrmReport(BaseModel):
    """One row of Table 4. A figure is None where there is nothing to take a share of."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    outputs: int
    criteria: int
    schema_accuracy: Estimate | None
    criterion: Estimate | None
    execution: Estimate | None
    arguments: Estimate | None
    credit: Estimate | None
    criterion_level: Estimate | None
    sample_level: Estimate | None

    def metrics(self) -> dict[str, float]:
        """The figures' values by name, for tracking."""
        found = {name: getattr(self, name) for name in FIGURES}
        return {name: interval.value for name, interval in found.items() if interval is not None}


FIGURES = ("schema_accuracy", "criterion", "execution", "arguments", "credit", "criterion_level", "sample_level")


class Executed(NamedTuple):
    """What a GenRM wrote for a response, and what it should have."""

    output: str
    label: Scoring
    rubric: Rubric


def genrm_report(rows: Iterable[Executed | tuple[str, Scoring, Rubric]], *, seed: int = 0) -> GenrmReport:
    """The seven figures of these outputs, with 95 % intervals."""
    return report_of([check_answer(*row) for row in rows], seed=seed)


def report_of(checks: list[AnswerCheck], *, seed: int = 0) -> GenrmReport:
    """The same of outputs that were checked already."""
    criteria = [(number, criterion) for number, check in enumerate(checks) for criterion in check.criteria]
    executed = [(number, criterion) for number, criterion in criteria if criterion.executed]

    def share(found: Iterable[tuple[int, bool]]) -> Estimate | None:
        listed = list(found)
        if not listed:
            return None
        return clustered_interval([float(value) for _, value in listed], [number for number, _ in listed], seed=seed)

    return GenrmReport(
        outputs=len(checks),
        criteria=len(criteria),
        schema_accuracy=share((number, check.valid) for number, check in enumerate(checks)),
        criterion=share((number, one.slot) for number, one in criteria),
        execution=share((number, one.executed) for number, one in criteria),
        arguments=share((number, one.score >= _WHOLE) for number, one in executed if one.verifiable),
        credit=share((number, one.score >= _WHOLE) for number, one in executed if not one.verifiable),
        criterion_level=share((number, one.score >= _WHOLE) for number, one in criteria),
        sample_level=share((number, _all_right(check)) for number, check in enumerate(checks)),
    )


def _all_right(check: AnswerCheck) -> bool:
    return check.valid and not check.surplus and all(criterion.score >= _WHOLE for criterion in check.criteria)
