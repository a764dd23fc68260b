"""Careless checklist executions: training data that makes a small model stand in for a general instruct model.

The paper's base model has schema and criteria nearly right, paths and verifiers often wrong (Table 4); no model of that
kind runs on a laptop. This stand-in is not in the paper. Some faults are habits tied to a kind of criterion, because a
trained model averages random noise away.
"""

import random
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.grading.scoring_answers import ScoredItem, Scoring
from rubricworks.methods.rlr3.genrm_labels import write_scoring
from rubricworks.rubrics import Rubric


class Carelessness(BaseModel):
    """Probabilities of faults, per criterion unless stated otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    truncated: float = Field(default=0.05, ge=0, le=1)
    """Per output: the JSON ends early."""
    paraphrased: float = Field(default=0.05, ge=0, le=1)
    """The criterion in other words."""
    judged: float = Field(default=0.1, ge=0, le=1)
    """A number where a call belongs."""
    judged_habit: tuple[str, ...] = ("bbox_verify", "text_verify")
    """Verifiers that the model does not know: for them the probability of a number is `habit`."""
    wrong_verifier: float = Field(default=0.1, ge=0, le=1)
    """The call of another verifier."""
    wrong_value: float = Field(default=0.1, ge=0, le=1)
    """The value of another response."""
    wrong_credit: float = Field(default=0.1, ge=0, le=1)
    """Another credit."""
    all_or_nothing: bool = True
    """Half credit is rounded up, as a habit."""
    habit: float = Field(default=0.7, ge=0, le=1)
    """Probability of a habit."""


_VERIFIERS = ("text_verify", "expr_verify", "bbox_verify")


def careless_execution(
    label: Scoring, rubric: Rubric, others: Callable[[str], str], faults: Carelessness, rng: random.Random
) -> str:
    """Write a label as a careless model would, deterministic for a given state of `rng`.

    Args:
        others: verifier → a call of it from another response.
    """
    verifiers = {criterion.criterion: criterion.verifier for criterion in rubric.criteria}

    def corrupt(items: tuple[ScoredItem, ...]) -> tuple[ScoredItem, ...]:
        return tuple(_corrupt(item, verifiers[item.criterion], others, faults, rng) for item in items)

    text = write_scoring(Scoring(thought="", essential=corrupt(label.essential), additional=corrupt(label.additional)))
    return text[: rng.randrange(1, len(text))] if rng.random() < faults.truncated else text


def _corrupt(
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
