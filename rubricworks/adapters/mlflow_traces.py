"""Gradings as traces of MLflow: `RubricReward(TracedGrader(Grader(judge)))`, wherever a grader is taken.

A grading is a span with prompt, response and criteria, the judges' call a span in it with their raw answers, and each
verdict an assessment of the trace, with the judge's rationale. A criterion that could not be judged has an error and no
value, and so has the reward. Within a trace of the caller's, such as that of the generation, it is a part of that one.
MLFLOW_TRACE_SAMPLING_RATIO traces a share.
"""

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import mlflow
from mlflow.entities import AssessmentError, AssessmentSource, Feedback, SpanType
from mlflow.utils.validation import path_not_unique, validate_param_and_metric_name

from rubricworks.grading import Cascade, Grader
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Response, Rubric, Scorecard, Verdict

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample

_MAX_NAME_CHARS = 200
"""Below MLflow's 250 for a metric, whose name is that of a feedback and of its aggregation."""


class TracedGrader:
    """Grader whose gradings are traces."""

    def __init__(self, grader: Grader | Cascade, *, name: str = "rubric") -> None:
        """
        Args:
            name: name of the span and of the reward's assessment, and the beginning of the others'.
        """
        self.grader, self.name = grader, name
        self.exposure, self.subject, self.judges = grader.exposure, grader.subject, grader.judges

    async def grade(self, sample: "Sample", response: str | Response, rubric: Rubric) -> Scorecard:
        """Grade as the grader does."""
        shown = Response.of(response)
        with mlflow.start_span(self.name, span_type=SpanType.EVALUATOR) as span:
            prompt = {"sample_id": sample.sample_id, "prompt": sample.prompt}
            span.set_inputs({**prompt, "response": shown.key, "rubric": rubric.model_dump(mode="json")})
            with mlflow.start_span("judge", span_type=SpanType.LLM) as call:
                call.set_inputs({"criteria": [criterion.criterion for criterion in rubric.criteria]})
                card = await self.grader.grade(sample, shown, rubric)
                call.set_attribute("judge", card.judge)
                call.set_outputs(list(card.raw))
            reward = signed_reward(card.credits, rubric.weights)
            span.set_outputs({"reward": reward, "credits": card.credits})
            for feedback in (reward_feedback(card, reward, self.name), *criterion_feedbacks(card, rubric, self.name)):
                feedback.span_id = span.span_id
                mlflow.log_assessment(span.trace_id, feedback)
        return card


def reward_feedback(card: Scorecard, reward: float | None, name: str) -> Feedback:
    """Assessment of a response: its reward, or an error if a criterion could not be judged."""
    failed = next((verdict for verdict in card.verdicts if verdict.error is not None), None)
    error = None if failed is None else _error(failed)
    return Feedback(name=name, value=reward, error=error, source=_source(card))


def criterion_feedbacks(card: Scorecard, rubric: Rubric, name: str) -> Iterator[Feedback]:
    """Assessment of each criterion, named by `criterion_name`: its credit and the judge's rationale, or an error."""
    for verdict, criterion in zip(card.verdicts, rubric.criteria, strict=True):
        yield Feedback(
            name=criterion_name(name, criterion.criterion),
            value=verdict.credit,
            error=None if verdict.error is None else _error(verdict),
            rationale=verdict.reasoning or None,
            source=_source(card),
            metadata={"criterion": criterion.criterion, "weight": f"{criterion.weight:g}"},
        )


def criterion_name(name: str, title: str) -> str:
    """Name of a criterion in MLflow, `NAME/TITLE`, as MLflow makes a metric of it.

    A title that no metric's name may hold is cut, without the characters that MLflow refuses, and ends in a digest of
    the whole, so that a criterion has the same name in all rows, and two have never one.
    """
    whole = f"{name}/{title}"
    if len(whole) <= _MAX_NAME_CHARS and validate_param_and_metric_name(whole) and not path_not_unique(whole):
        return whole
    admitted = "".join(
        character if character != "/" and validate_param_and_metric_name(character) else " " for character in title
    )
    digest = hashlib.sha256(title.encode()).hexdigest()[:8]
    beginning = f"{name}/{' '.join(admitted.split())}"[: _MAX_NAME_CHARS - len(digest) - 1]
    return f"{beginning.rstrip()} {digest}"


def _source(card: Scorecard) -> AssessmentSource:
    return AssessmentSource(source_type="LLM_JUDGE", source_id=card.judge)


def _error(verdict: Verdict) -> AssessmentError:
    code = "UNJUDGED" if verdict.error is None else verdict.error.value.upper()
    return AssessmentError(error_code=code, error_message=verdict.reasoning)
