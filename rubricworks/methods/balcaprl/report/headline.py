"""A BalCapRL run in a few sentences: b-CapScore first, then what rose, what fell and what cannot be told apart."""

from rubricworks.evaluation.caption_summary import CaptionSummary
from rubricworks.evaluation.summary import MeanScore
from rubricworks.methods.balcaprl.report.run_results import SCORE_NAMES
from rubricworks.reports.formats import number, percent, points, share, signed, span
from rubricworks.reports.headline import FEW, Headline, Mood

TOLD = ("precision", "recall", "linguistic", "dc_score", "caption_qa", "oracle_f1", "answered")
"""Scores that the sentence sorts, beside the arena and the length."""


def direction(gain: MeanScore, level: float = 0.0) -> Mood:
    """Whether the interval lies above or below the level; open where it holds it, or tells of few samples."""
    if gain.samples < FEW:
        return "open"
    return "good" if gain.low > level else "bad" if gain.high < level else "open"


def caption_headline(captions: CaptionSummary | None) -> Headline:
    gain = captions.gains.get("b_capscore") if captions else None
    if captions is None or gain is None:
        return Headline("Captions of the policy have not been compared with those of its base model.", "open")
    base, policy = (captions.models[model]["b_capscore"] for model in ("base", "policy"))
    said = f"b-CapScore {share(base.value)} → {share(policy.value)}, {points(gain.value)} points ({span(gain)})"
    if gain.samples < FEW:
        return Headline(f"Too few captions to tell: {said}, over {gain.samples} images.", "open")
    mood = direction(gain)
    begin = {
        "good": "The policy writes better captions than its base model",
        "bad": "The policy writes worse captions than its base model",
        "open": "The policy's captions are not distinguishable from its base model's",
    }
    return Headline(f"{begin[mood]}: {said}.", mood)


def change_sentences(captions: CaptionSummary | None) -> list[Headline]:
    """Better, worse, not distinguishable, and the length, which is neither; what was not measured is left out."""
    if captions is None:
        return []
    told: dict[str, list[str]] = {"Better": [], "Worse": [], "Not distinguishable": [], "Too few images to tell": []}
    for name in TOLD:
        if gain := captions.gains.get(name):
            told[_told(gain)].append(f"{_inside(SCORE_NAMES[name])} {points(gain.value)} ({span(gain)})")
    if win := captions.win_rate:
        interval = f"{percent(win.low)} to {percent(win.high)}"
        told[_told(win, 0.5)].append(f"arena {percent(win.value)} won ({interval})")
    moods: dict[str, Mood] = {"Better": "good", "Worse": "bad"}
    sentences = [Headline(f"{word}: {'; '.join(of)}.", moods.get(word, "open")) for word, of in told.items() if of]
    if length := captions.gains.get("tokens"):
        interval = f"{signed(length.low, 1)} to {signed(length.high, 1)}"
        base, policy = (captions.models[model]["tokens"].value for model in ("base", "policy"))
        words = {"Better": "longer", "Worse": "shorter", "Not distinguishable": "no clear change"}
        word = words.get(_told(length), "too few images to tell")
        sentences.append(
            Headline(f"Length: {word}, {number(base, 1)} → {number(policy, 1)} tokens ({interval}).", "open")
        )
    return sentences


def _told(gain: MeanScore, level: float = 0.0) -> str:
    if gain.samples < FEW:
        return "Too few images to tell"
    return {"good": "Better", "bad": "Worse", "open": "Not distinguishable"}[direction(gain, level)]


def _inside(name: str) -> str:
    """The name within a sentence; names of scores keep their capitals."""
    return name.lower() if name in ("Precision", "Recall", "Linguistic", "Questions answered") else name
