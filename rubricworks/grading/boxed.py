"""RLVR as a special case of RLR³: one verifiable criterion, and no model that reads the response (section 4.5).

The extractor is the last box of the response; its content goes to the criterion's verifier.
"""

from typing import TYPE_CHECKING

from rubricworks.rubrics import Criterion, ErrorClass, Response, Rubric, Scorecard, Verdict
from rubricworks.verifiers import CannotVerify, run_verifier
from rubricworks.verifiers.boxed import answer_call, answer_predict

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample

FINAL_ANSWER = "The final answer is right."


def answer_rubric(answer: str, *, options: bool = False) -> Rubric:
    """Build the rubric of RLVR: the final answer equals the reference answer.

    Raises:
        ValueError: the answer is empty, or no verifier accepts it as target.
    """
    if not answer.strip():
        raise ValueError("the reference answer is empty; there is nothing to verify against")
    return Rubric(
        criteria=(Criterion(criterion=FINAL_ANSWER, reference=answer_call(answer, options=options), weight=1),)
    )


class BoxedGrader:
    """Grader of verifiable criteria by the last box of a response; the interface of `Grader`, without model calls."""

    exposure = "text"
    judges = ()

    async def grade(self, sample: "Sample", response: str | Response, rubric: Rubric) -> Scorecard:
        """Give one verdict per criterion. Text must match exactly: a similar word is another answer.

        Raises:
            ValueError: a criterion has no verifier.
            UserError: the response is an image.
        """
        response = Response.of(response)
        text = response.require_text(f"sample {sample.label}: the last box")
        verdicts = tuple(_verdict(criterion, text) for criterion in rubric.criteria)
        return Scorecard(sample_id=sample.sample_id, response=response, judge="last box", verdicts=verdicts)


def _verdict(criterion: Criterion, response: str) -> Verdict:
    if criterion.verifier is None:
        raise ValueError(f"criterion {criterion.criterion!r} has no verifier; a box can only be verified")
    call = answer_predict(response, criterion.reference)
    try:
        score = run_verifier(criterion.reference, call)
    except CannotVerify as error:
        return Verdict(criterion=criterion.criterion, error=ErrorClass.UNVERIFIABLE, reasoning=str(error), call=call)
    credit = float(score == 1) if criterion.verifier == "text_verify" else score
    return Verdict(criterion=criterion.criterion, credit=credit, call=call)
