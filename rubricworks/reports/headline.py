"""Headline sentences of a run's page. People read them first, so they claim no more than the intervals support."""

from typing import Literal, NamedTuple

from rubricworks.metrics import Interval
from rubricworks.reports.run_folder import Promotion

FEW = 20
"""Below this many samples a bootstrap interval is too narrow to trust."""

Mood = Literal["good", "bad", "open"]


def is_small(figure: Interval) -> bool:
    """Return True if the figure is over few samples, or over an unknown number of them."""
    return (figure.samples or 0) < FEW


class Headline(NamedTuple):
    text: str
    mood: Mood


def promotion_sentence(promotion: Promotion | None) -> Headline:
    """The outcome of promotion in one sentence."""
    if promotion is None:
        return Headline("Not promoted: the promote stage has not finished.", "open")
    version = f"{promotion.model_name} version {promotion.version}" if promotion.version else promotion.model_name
    if promotion.promoted:
        return Headline(f"Promoted: {version} is the champion now.", "good")
    outcome = "passed the gate but was not made champion" if promotion.passed else "did not pass the gate"
    return Headline(f"Not promoted: {version or 'the policy'} {outcome}.", "bad")


def gate_sentence(promotion: Promotion | None) -> str:
    return "; ".join(promotion.reasons) if promotion else "the promote stage has not finished"
