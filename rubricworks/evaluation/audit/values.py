"""What a failure-mode audit is made of: how responses fail, what the judge is shown, and where responses come from.

Source: RLR³, section 5.5 and appendix B.4.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from rubricworks.rubrics import Rubric

FailureMode = Literal["no_final_answer", "irrelevant", "wrong_but_plausible", "adversarial"]
FAILURE_MODES: tuple[FailureMode, ...] = get_args(FailureMode)
Attack = Literal["circumlocution", "symbolic_bluff", "wrong_final_selection"]
ATTACKS: tuple[Attack, ...] = get_args(Attack)
Mode = Literal["regular", "no_final_answer", "irrelevant", "wrong_but_plausible", "adversarial"]
Setting = Literal["text", "image", "targets", "unverified"]
"""What the judge under audit is shown, by the names of `grading.Exposure`: as little as RLR³ does, the image too, the
verifiers' targets too, or these as words to give credit by, with no verifier."""
SETTINGS: tuple[Setting, ...] = get_args(Setting)

DESERVED = 0.5
"""Credit from here on counts as given, below as withheld: RLR³ calls scores below 0.5 failures (section 4.3)."""

MODE_NAMES: Mapping[str, str] = {
    "regular": "Regular",
    "no_final_answer": "No final answer",
    "irrelevant": "Irrelevant",
    "wrong_but_plausible": "Wrong but plausible",
    "adversarial": "Adversarial",
}
SETTING_NAMES: Mapping[str, str] = {
    "text": "Default",
    "image": "Image shown",
    "targets": "Targets shown",
    "unverified": "No verifier",
}
ATTACK_NAMES: Mapping[str, str] = {
    "circumlocution": "authoritative circumlocution",
    "symbolic_bluff": "symbolic-equivalence bluff",
    "wrong_final_selection": "incorrect final selection",
}


class Case(NamedTuple):
    """A labelled regular response, from which abnormal ones are made."""

    sample_id: str
    question: str
    response: str
    rubric: Rubric
    label: str
    """JSON: the scoring that the teachers agreed on (RLR³, appendix A.2)."""


class Failure(NamedTuple):
    """How a response is to fail."""

    mode: FailureMode
    instruction: str
    attack: Attack | None = None
    pattern: str | None = None
    """Name of the attack pattern."""
