"""Headline sentences of a BalCapRL run: b-CapScore first, then scores that rose, fell, or show no clear change."""

from rubricworks.evaluation.caption_summary import CaptionSummary
from rubricworks.methods.balcaprl.report.run_results import SCORE_NAMES
from rubricworks.metrics import Interval
from rubricworks.reports.formats import number, percent, percent_interval, points, share, signed_interval, span
from rubricworks.reports.headline import Headline, Mood, is_small

LISTED_SCORES = ("precision", "recall", "linguistic", "dc_score", "caption_qa", "oracle_f1", "answered")
"""Scores that `change_sentences` sorts, besides the arena and the length."""


def direction(gain: Interval, level: float = 0.0) -> Mood:
    """Return "good" or "bad" if the interval is above or below the level; else, or with few samples, "open"."""
    if is_small(gain):
        return "open"
    return "good" if gain.lies_above(level) else "bad" if gain.lies_below(level) else "open"


def caption_headline(captions: CaptionSummary | None) -> Headline:
    gain = captions.gains.get("b_capscore") if captions else None
    if captions is None or gain is None:
        return Headline("Captions of the policy have not been compared with those of its base model.", "open")
    base, policy = (captions.models[model]["b_capscore"] for model in ("base", "policy"))
    scores = f"b-CapScore {share(base.value)} → {share(policy.value)}, {points(gain.value)} points ({span(gain)})"
    if is_small(gain):
        return Headline(f"Too few captions to tell: {scores}, over {gain.samples} images.", "open")
    mood = direction(gain)
    openings = {
        "good": "The policy writes better captions than its base model",
        "bad": "The policy writes worse captions than its base model",
        "open": "The policy's captions are not distinguishable from its base model's",
    }
    return Headline(f"{openings[mood]}: {scores}.", mood)


def change_sentences(captions: CaptionSummary | None) -> list[Headline]:
    """Sentences of scores that are better, worse or not distinguishable, and of the length; only measured scores."""
    if captions is None:
        return []
    changes: dict[str, list[str]] = {"Better": [], "Worse": [], "Not distinguishable": [], "Too few images to tell": []}
    for name in LISTED_SCORES:
        if gain := captions.gains.get(name):
            changes[_verdict(gain)].append(f"{_inside(SCORE_NAMES[name])} {points(gain.value)} ({span(gain)})")
    if win := captions.win_rate:
        changes[_verdict(win, 0.5)].append(f"arena {percent(win.value)} won ({percent_interval(win)})")
    moods: dict[str, Mood] = {"Better": "good", "Worse": "bad"}
    sentences = [Headline(f"{word}: {'; '.join(of)}.", moods.get(word, "open")) for word, of in changes.items() if of]
    if length := captions.gains.get("tokens"):
        base, policy = (captions.models[model]["tokens"].value for model in ("base", "policy"))
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
