"""Headline of an RLR³ run: RLR³ against RLVR and the base model, claiming no more than the intervals support."""

from rubricworks.methods.rlr3.accuracy import ARM_GAIN, ARMS, Accuracies
from rubricworks.methods.rlr3.report.run_results import NAMES
from rubricworks.metrics import Interval
from rubricworks.reports.formats import points, share, span
from rubricworks.reports.headline import Headline, Mood, is_small


def rlr3_headline(answers: Accuracies | None) -> Headline:
    """Compare the arms' best milestones, or a single arm with the base model."""
    arms = [arm for arm in ARMS if answers and answers.arms.get(arm)]
    if answers is None or not arms:
        return Headline("Neither RLR³ nor RLVR has been evaluated in this run.", "open")
    if is_small(answers.base.macro):
        count = answers.base.macro.samples
        return Headline(f"Too few questions to tell: {_averages(answers, arms)}, over {count} questions.", "open")
    compared = "RLR³ {} RLVR" if len(arms) == 2 else f"{NAMES[arms[0]]} {{}} the base model"
    gain = answers.gains.get(ARM_GAIN if len(arms) == 2 else arms[0])
    if gain is None:
        return Headline(f"No question was judged for both: {_averages(answers, arms)}.", "open")
    mood, relation = _relation(gain)
    return Headline(
        f"{compared.format(relation)}: {_averages(answers, arms)} right on average over {_tasks(answers)}, "
        f"{_difference(gain)}.",
        mood,
    )


def _relation(gain: Interval) -> tuple[Mood, str]:
    if gain.lies_above(0):
        return "good", "is better than"
    if gain.lies_below(0):
        return "bad", "is worse than"
    return "open", "is not distinguishable from"


def _averages(answers: Accuracies, arms: list[str]) -> str:
    """Write the arms' macro averages, RLR³'s first, and the base model's last."""
    averages = [_percent(answers.accuracy(arm).macro.value) for arm in reversed(arms)]
    return f"{' against '.join(averages)} (base {_percent(answers.base.macro.value)})"


def _difference(gain: Interval) -> str:
    return f"{points(gain.value)} points ({span(gain)})"


def _percent(value: float) -> str:
    return f"{share(value)}\N{NARROW NO-BREAK SPACE}%"


def _tasks(answers: Accuracies) -> str:
    count = len(answers.base.tasks)
    return f"{count} task{'s' if count != 1 else ''}"
