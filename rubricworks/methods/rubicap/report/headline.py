"""A RubiCap run in a sentence: the first thing that people read, so it claims no more than the intervals carry."""

from rubricworks.evaluation.summary import EvaluationSummary, MeanScore
from rubricworks.reports.formats import percent
from rubricworks.reports.headline import FEW, Headline


def headline(win: MeanScore | None) -> Headline:
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


def shown_decoding(evaluation: EvaluationSummary | None) -> str:
    """Greedy captions are what the page shows, if there are any."""
    decodings = list(evaluation.models) if evaluation else []
    return "greedy" if "greedy" in decodings or not decodings else decodings[0]
