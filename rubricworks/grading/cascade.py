"""Cascade of two judges: a strong judge decides the criteria on which a cheap judge is unsure or has failed.

A verdict's confidence is the cheap judge's probability of its score, or the share of repeated draws that agree. Below a
limit the strong judge decides, all such criteria of a response in one call. Source: FrugalGPT (Chen et al., 2023, LLM
cascade), with the judge's own confidence, as in Cascaded Selective Evaluation (Jung et al., 2024).
"""

from typing import TYPE_CHECKING

from rubricworks.errors import UserError
from rubricworks.grading.evaluation_events import emit_verdicts
from rubricworks.grading.grader import Grader
from rubricworks.grading.prompts import Judgment, check_ids, judge_messages
from rubricworks.llm import ChatClient, ChatError, Endpoint, NoLogprobs
from rubricworks.rubrics import Criterion, Response, Rubric, Scorecard, Verdict

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample

_PASSING = (408, 429)
"""Statuses below 500 of a server that may answer the same request in a moment."""


class Cascade:
    """Two graders as one."""

    def __init__(self, cheap: Grader, strong: Grader, *, below: float) -> None:
        """
        Args:
            cheap: grader of everything, with a source of confidence.
            strong: grader of what the cheap one is unsure of.
            below: confidence below which a cheap verdict does not stand.
        """
        if not 0.5 < below <= 1:
            raise UserError(f"below is {below:g}; a confidence lies above 0.5, and is 1 at most")
        if len(cheap.judges) != 1:
            raise UserError(f"the cheap grader has {len(cheap.judges)} judges; a cascade has one that may be unsure")
        if cheap.confidence is None:
            raise UserError(
                "the cheap grader has no confidence, and a cascade would ask the strong one about failures only; "
                'make it as Grader(judge, confidence="logprob"), or "repeats" with repeats=3'
            )
        self.cheap, self.strong, self.below = cheap, strong, below
        self.exposure, self.subject = cheap.exposure, cheap.subject
        self.judges = (*cheap.judges, *strong.judges)

    async def grade(self, sample: "Sample", response: str | Response, rubric: Rubric) -> Scorecard:
        """Return one verdict per criterion, as `Grader.grade` does. The strong judge's verdicts have no confidence."""
        card = await self._judge(sample, response, rubric)
        emit_verdicts(card)
        return card

    async def _judge(self, sample: "Sample", response: str | Response, rubric: Rubric) -> Scorecard:
        card = await self.cheap.judge_response(sample, response, rubric)
        unsure = tuple(
            criterion
            for criterion, verdict in zip(rubric.criteria, card.verdicts, strict=True)
            if self._is_unsure(verdict)
        )
        if not unsure:
            return card
        # The part of a rubric may have pitfalls alone, which no rubric may.
        second = await self.strong.judge_response(sample, response, Rubric.model_construct(criteria=unsure))
        decided = {verdict.criterion: verdict for verdict in second.verdicts}
        verdicts = tuple(decided.get(verdict.criterion, verdict) for verdict in card.verdicts)
        judge = f"{card.judge} > {second.judge}"
        return card.model_copy(update={"verdicts": verdicts, "judge": judge, "raw": (*card.raw, *second.raw)})

    def _is_unsure(self, verdict: Verdict) -> bool:
        return verdict.error is not None or (verdict.confidence is not None and verdict.confidence < self.below)


async def require_logprobs(judge: ChatClient) -> None:
    """Ask a judge about one caption, to find before anything else is paid for that it gives no log-probabilities.

    Raises:
        UserError: it gives none, or refuses the question.
    """
    criterion = Criterion(criterion="Names a cat", evaluation_rule="Passes if a cat is named.", weight=1)
    messages = judge_messages("A cat sleeps.", [criterion])
    try:
        await judge.chat(messages, Judgment, check=lambda judgment: check_ids(judgment, 1), probabilities_of="score")
    except NoLogprobs as error:
        raise UserError(error.message) from None
    except ChatError as error:
        if refused := judge.access_refused(error):
            raise UserError(refused) from None
        if 400 <= error.status < 500 and error.status not in _PASSING:
            reason = error.message.removeprefix(f"{judge.endpoint.label}: ")
            raise UserError(
                f"{judge.endpoint.model} refuses a question about log-probabilities, which credits and confidences of "
                f"them need: {reason}; take an endpoint that gives them (vLLM, OpenAI), or leave them out"
            ) from None
        # Otherwise a server that does not answer now; the grading tells.


async def check_gives_logprobs(judge: Endpoint) -> None:
    """Ask an endpoint once for log-probabilities, before a run.

    Raises:
        UserError: it gives none, or refuses the question.
    """
    async with ChatClient(judge, attempts=1, patience_s=15.0) as client:
        await require_logprobs(client)
