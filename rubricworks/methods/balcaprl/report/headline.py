"""Headline sentences of a BalCapRL run: b-CapScore first, then scores that rose, fell, or show no clear change."""

from rubricworks.evaluation.scoreboard import BASE, LENGTH, POLICY, WIN, Scoreboard
from rubricworks.methods.balcaprl.report.run_results import SCORE_NAMES
from rubricworks.metrics import Interval
from rubricworks.reports.formats import number, percent, percent_interval, points, share, signed_interval, span
from rubricworks.reports.headline import Headline, Mood, is_small

LISTED_SCORES = (
    *("b_capscore_precision", "b_capscore_recall", "b_capscore_linguistic"),
    *("dc_score", "caption_qa", "oracle_f1", "visual_questions_right"),
)
"""Figures that `change_sentences` sorts, besides the arena and the length."""


def direction(gain: Interval, level: float = 0.0) -> Mood:
    """Return "good" or "bad" if the interval is above or below the level; else, or with few samples, "open"."""
    if is_small(gain):
        return "open"
    return "good" if gain.lies_above(level) else "bad" if gain.lies_below(level) else "open"


def caption_headline(board: Scoreboard | None) -> Headline:
    gain = board.gain(POLICY, "b_capscore") if board else None
    if board is None or gain is None:
        return Headline("Captions of the policy have not been compared with those of its base model.", "open")
    base, policy = (mean.value for model in (BASE, POLICY) if (mean := board.mean(model, "b_capscore")))
    scores = f"b-CapScore {share(base)} → {share(policy)}, {points(gain.value)} points ({span(gain)})"
    if is_small(gain):
        return Headline(f"Too few captions to tell: {scores}, over {gain.samples} images.", "open")
    mood = direction(gain)
    openings = {
        "good": "The policy writes better captions than its base model",
        "bad": "The policy writes worse captions than its base model",
        "open": "The policy's captions are not distinguishable from its base model's",
    }
    return Headline(f"{openings[mood]}: {scores}.", mood)


def change_sentences(board: Scoreboard | None) -> list[Headline]:
    """Sentences of scores that are better, worse or not distinguishable, and of the length; only measured scores."""
    if board is None:
        return []
    changes: dict[str, list[str]] = {"Better": [], "Worse": [], "Not distinguishable": [], "Too few images to tell": []}
    for name in LISTED_SCORES:
        if gain := board.gain(POLICY, name):
            changes[_verdict(gain)].append(f"{_inside(SCORE_NAMES[name])} {points(gain.value)} ({span(gain)})")
    if win := board.mean(POLICY, WIN):
        changes[_verdict(win, 0.5)].append(f"arena {percent(win.value)} won ({percent_interval(win)})")
    moods: dict[str, Mood] = {"Better": "good", "Worse": "bad"}
    sentences = [Headline(f"{word}: {'; '.join(of)}.", moods.get(word, "open")) for word, of in changes.items() if of]
    if length := board.gain(POLICY, LENGTH):
        base, policy = (mean.value for model in (BASE, POLICY) if (mean := board.mean(model, LENGTH)))
        words = {"Better": "longer", "Worse": "shorter", "Not distinguishable": "no clear change"}
        word = words.get(_verdict(length), "too few images to tell")
        tokens = f"{number(base, 1)} → {number(policy, 1)} tokens ({signed_interval(length, 1)})"
        sentences.append(Headline(f"Length: {word}, {tokens}.", "open"))
    return sentences


def _verdict(gain: Interval, level: float = 0.0) -> str:
    if is_small(gain):
        return "Too few images to tell"
    return {"good": "Better", "bad": "Worse", "open": "Not distinguishable"}[direction(gain, level)]


def _inside(name: str) -> str:
    """Write a score's name within a sentence; proper names keep their capitals."""
    return name.lower() if name in ("Precision", "Recall", "Linguistic", "Questions answered") else name
