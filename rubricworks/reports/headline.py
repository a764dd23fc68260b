"""Headline sentences of a page. People read them first, so they claim no more than the intervals support."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rubricworks.metrics import Interval
from rubricworks.reports.idle_training import learnt_nothing
from rubricworks.reports.page import Block
from rubricworks.reports.parts import Part, Text, Tile, Tiles
from rubricworks.reports.run_folder import Promotion, RunFolder

FEW = 20
"""Below this many samples a bootstrap interval is too narrow to trust."""

Mood = Literal["good", "bad", "open"]


class Headline(NamedTuple):
    text: str
    mood: Mood = "open"


def is_small(figure: Interval) -> bool:
    """Return True if the figure is over few samples, or over an unknown number of them."""
    return (figure.samples or 0) < FEW


def direction(gain: Interval | None, level: float = 0.0, *, lower_is_better: bool = False) -> Mood:
    """Return "good" or "bad" if the interval is on one side of the level; else, or with few samples, "open"."""
    if gain is None or is_small(gain) or not (gain.lies_above(level) or gain.lies_below(level)):
        return "open"
    return "bad" if gain.lies_above(level) == lower_is_better else "good"


def doubt(gain: Interval, level: float = 0.0, samples: str = "samples") -> str:
    """Reason why a gain cannot be distinguished from the level; empty if it can."""
    return f"few {samples}" if is_small(gain) else "not distinguishable" if direction(gain, level) == "open" else ""


def hero(
    run: RunFolder,
    headline: Headline,
    tiles: Sequence[Tile] = (),
    *,
    sentences: Sequence[Headline] = (),
    more: Sequence[Part] = (),
) -> Block:
    """Block that opens a report: headline, outcome of the promotion, figures in large print.

    Args:
        sentences: below the headline.
        more: below the tiles.
    """
    decision, reasons = promotion_sentence(run.promotion), "; ".join(_reasons(run.promotion))
    idle = learnt_nothing(run)
    return Block(
        "headline",
        parts=[
            *([Text(idle, "headline bad")] if idle else []),
            Text(headline.text, f"{'sorted' if idle else 'headline'} {headline.mood}"),
            *(Text(sentence.text, f"sorted {sentence.mood}") for sentence in sentences),
            Text(decision.text, f"verdict {decision.mood}"),
            *([Text(f"Gate: {reasons}.", "quiet")] if reasons else []),
            *([Tiles(tiles)] if tiles else []),
            *more,
        ],
    )


def promotion(run: RunFolder) -> Block:
    """Decision of the gate: page of `promote`."""
    decision = run.promotion
    sentence = promotion_sentence(decision)
    return Block(
        "gate",
        parts=[
            Text(sentence.text, f"headline {sentence.mood}"),
            *(Text(reason) for reason in _reasons(decision)),
        ],
        metrics={"gate_passed": float(decision.passed), "promoted": float(decision.promoted)} if decision else {},
    )


def promotion_sentence(decision: Promotion | None) -> Headline:
    """The outcome of promotion in one sentence."""
    if decision is None:
        return Headline("Not promoted: the promote stage has not finished.")
    version = f"{decision.model_name} version {decision.version}" if decision.version else decision.model_name
    if decision.promoted:
        return Headline(f"Promoted: {version} is the champion now.", "good")
    outcome = "passed the gate but was not made champion" if decision.passed else "did not pass the gate"
    return Headline(f"Not promoted: {version or 'the policy'} {outcome}.", "bad")


def _reasons(decision: Promotion | None) -> tuple[str, ...]:
    return decision.reasons if decision else ()
