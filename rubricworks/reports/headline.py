"""The run in a sentence or two: what people read first, so it claims no more than the intervals carry."""

from typing import Literal, NamedTuple

from rubricworks.evaluation.summary import EvaluationSummary, Figure
from rubricworks.reports.formats import percent
from rubricworks.reports.run_folder import Promotion

FEW = 20
"""Below this many samples a bootstrap interval is too narrow to lean on: three wins in three have no spread at all."""

Mood = Literal["good", "bad", "open"]


class Headline(NamedTuple):
    text: str
    mood: Mood


def headline(win: Figure | None) -> Headline:
    """Whether the policy beats the model that it was trained from."""
    if win is None:
        return Headline("The trained policy has not been compared with its base model.", "open")
    share = f"{percent(win.value)} of {win.samples} held-out comparisons"
    if win.samples < FEW:
        return Headline(f"Too few comparisons to tell: the trained policy wins {share}.", "open")
    if win.low > 0.5:
        return Headline(f"The trained policy beats its base model: it wins {share}.", "good")
    if win.high < 0.5:
        return Headline(f"The trained policy is worse than its base model: it wins only {share}.", "bad")
    return Headline(f"No clear winner: the trained policy wins {share}, which chance could explain.", "open")


def promotion_sentence(promotion: Promotion | None) -> Headline:
    """What became of the model in the registry."""
    if promotion is None:
        return Headline("Not promoted: the promote stage has not finished.", "open")
    version = f"{promotion.model_name} version {promotion.version}" if promotion.version else promotion.model_name
    if promotion.promoted:
        return Headline(f"Promoted: {version} is the champion now.", "good")
    held = "passed the gate but was not made champion" if promotion.passed else "did not pass the gate"
    return Headline(f"Not promoted: {version or 'the policy'} {held}.", "bad")


def shown_decoding(evaluation: EvaluationSummary | None) -> str:
    """Greedy captions are what the page shows, if there are any."""
    decodings = list(evaluation.models) if evaluation else []
    return "greedy" if "greedy" in decodings or not decodings else decodings[0]
