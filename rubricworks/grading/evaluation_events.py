"""Verdicts as OpenTelemetry events `gen_ai.evaluation.result`, one per criterion; none without a logger provider.

An event belongs to the span that is current when the response is graded, for example the caller's span of its
generation. A criterion that could not be judged has `error.type` and no score. Source: the semantic conventions for
generative AI (gen-ai-events.md of open-telemetry/semantic-conventions-genai), whose names are still in development.
"""

import os

from rubricworks.llm import telemetry
from rubricworks.redaction import redact
from rubricworks.rubrics import Scorecard

EVENT = "gen_ai.evaluation.result"
_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_WITH_CONTENT = {"true", "event_only", "span_and_event"}


def emit_verdicts(card: Scorecard) -> None:
    """Emit an event for each verdict of a scorecard.

    The judge's reasoning is included as `gen_ai.evaluation.explanation` if the environment requests contents. An
    error's text, which may be a server's, does not.
    """
    logger = telemetry.event_logger("rubricworks.grading")
    if logger is None:
        return
    explains = os.environ.get(_CONTENT_VARIABLE, "").lower() in _WITH_CONTENT
    for verdict in card.verdicts:
        attributes: dict[str, str | float] = {
            "gen_ai.evaluation.name": verdict.criterion,
            "rubricworks.judge": card.judge,
            "rubricworks.sample_id": card.sample_id,
        }
        if verdict.credit is None:
            attributes["error.type"] = str(verdict.error)
        else:
            attributes["gen_ai.evaluation.score.value"] = verdict.credit
            attributes["gen_ai.evaluation.score.label"] = score_label(verdict.credit)
            if explains and verdict.reasoning:
                attributes["gen_ai.evaluation.explanation"] = redact(verdict.reasoning)
        logger.emit(event_name=EVENT, attributes=attributes)


def score_label(credit: float) -> str:
    """Label of a credit in [0, 1]: `met`, `not_met`, or `partly_met` between them. A pitfall that is met takes away."""
    return "met" if credit == 1 else "not_met" if credit == 0 else "partly_met"
