"""Careless executions of checklists: what a small model learns first, so that it stands for a general instruct model.

A laptop has no instruct model that follows a scoring prompt as well, and as badly, as the paper's base does: schema and
criteria nearly right, paths and verifiers often wrong (Table 4). This stand-in is ours. Some faults are habits, bound
to a kind of criterion, because noise that strikes at random is what a trained model averages away.
"""

import random
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.grading.scoring_answers import ScoredItem, Scoring
from rubricworks.methods.rlr3.genrm_labels import write_scoring
from rubricworks.rubrics import Rubric


class Carelessness(BaseModel):
    """Chances, per criterion unless said otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    truncated: float = Field(default=0.05, ge=0, le=1)
    """Per output: the JSON ends early."""
    paraphrased: float = Field(default=0.05, ge=0, le=1)
    """The criterion in other words."""
    judged: float = Field(default=0.1, ge=0, le=1)
    """A number where a call belongs."""
    judged_habit: tuple[str, ...] = ("bbox_verify", "text_verify")
    """Verifiers that are not known to it: with them `habit` is the chance of a number."""
    wrong_verifier: float = Field(default=0.1, ge=0, le=1)
    """The call of another verifier."""
    wrong_value: float = Field(default=0.1, ge=0, le=1)
    """The value of another response."""
    wrong_credit: float = Field(default=0.1, ge=0, le=1)
    """Another credit."""
    all_or_nothing: bool = True
    """Half credit is rounded up, as a habit."""
    habit: float = Field(default=0.7, ge=0, le=1)
    """How often it does what is its habit."""


_VERIFIERS = ("text_verify", "expr_verify", "bbox_verify")


def careless_execution(
    label: Scoring, rubric: Rubric, others: Callable[[str], str], faults: Carelessness, rng: random.Random
) -> str:
    """What a careless model writes where the label would be right; the same for the same state of `rng`.

    Args:
        others: verifier → a call of it about some other response.
    """
    verifiers = {criterion.criterion: criterion.verifier for criterion in rubric.criteria}

    def spoilt(items: tuple[ScoredItem, ...]) -> tuple[ScoredItem, ...]:
        return tuple(_spoilt(item, verifiers[item.criterion], others, faults, rng) for item in items)

    text = write_scoring(Scoring(thought="", essential=spoilt(label.essential), additional=spoilt(label.additional)))
    return text[: rng.randrange(1, len(text))] if rng.random() < faults.truncated else text


def _spoilt(
    item: ScoredItem, verifier: str | None, others: Callable[[str], str], faults: Carelessness, rng: random.Random
) -> ScoredItem:
    credit = item.credit
    if verifier is None:
        if credit == 0.5 and faults.all_or_nothing and rng.random() < faults.habit:
            credit = 1.0
        elif rng.random() < faults.wrong_credit:
            credit = rng.choice([other for other in (0.0, 0.5, 1.0) if other != credit])
    elif rng.random() < (faults.habit if verifier in faults.judged_habit else faults.judged):
        credit = rng.choice((0.0, 1.0))
    elif rng.random() < faults.wrong_verifier:
        other = rng.choice([name for name in _VERIFIERS if name != verifier])
        credit = str(credit).replace(verifier, other, 1)
    elif rng.random() < faults.wrong_value:
        credit = others(verifier)
    criterion = item.criterion
    if rng.random() < faults.paraphrased:
        criterion = _paraphrase(criterion)
    return ScoredItem(criterion=criterion, rationale="", credit=credit)


def _paraphrase(criterion: str) -> str:
    words = criterion.rstrip(".").split()
    return " ".join(words[1:] if len(words) > 1 else [*words, *words])
