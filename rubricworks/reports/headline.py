"""The run in a sentence or two: what people read first, so it claims no more than the intervals carry."""

from typing import Literal, NamedTuple

from rubricworks.reports.run_folder import Promotion

FEW = 20
"""Below this many samples a bootstrap interval is too narrow to lean on: three wins in three have no spread at all."""

Mood = Literal["good", "bad", "open"]


class Headline(NamedTuple):
    text: str
    mood: Mood


def promotion_sentence(promotion: Promotion | None) -> Headline:
    """What became of the model in the registry."""
    if promotion is None:
        return Headline("Not promoted: the promote stage has not finished.", "open")
    version = f"{promotion.model_name} version {promotion.version}" if promotion.version else promotion.model_name
    if promotion.promoted:
        return Headline(f"Promoted: {version} is the champion now.", "good")
    held = "passed the gate but was not made champion" if promotion.passed else "did not pass the gate"
    return Headline(f"Not promoted: {version or 'the policy'} {held}.", "bad")


def gate_sentence(promotion: Promotion | None) -> str:
    return "; ".join(promotion.reasons) if promotion else "the promote stage has not finished"
