"""Values of a failure-mode audit: failure modes, attacks, the judge's settings, and the cases (RLR³, 5.5 and B.4)."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from rubricworks.rubrics import Rubric

FailureMode = Literal["no_final_answer", "irrelevant", "wrong_but_plausible", "adversarial"]
FAILURE_MODES: tuple[FailureMode, ...] = get_args(FailureMode)
Attack = Literal["circumlocution", "symbolic_bluff", "wrong_final_selection"]
ATTACKS: tuple[Attack, ...] = get_args(Attack)
Mode = Literal["regular", "no_final_answer", "irrelevant", "wrong_but_plausible", "adversarial"]
Setting = Literal["text", "image", "targets", "unverified"]
"""Exposure of the judge under audit, as in `grading.Exposure`: `text` is RLR³'s minimal exposure, `image` adds the
image, `targets` the verifiers' targets; `unverified` shows the targets as words to credit by, without verifiers."""
SETTINGS: tuple[Setting, ...] = get_args(Setting)

CREDIT_THRESHOLD = 0.5
"""Lowest credit that counts as given: RLR³ calls scores below 0.5 failures (section 4.3)."""

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
    """Labelled regular response, from which abnormal ones are written."""

    sample_id: str
    question: str
    response: str
    rubric: Rubric
    label: str
    """Consensus scoring of the teachers, as JSON (RLR³, appendix A.2)."""


class Failure(NamedTuple):
    """Failure that a response is written to have."""

    mode: FailureMode
    instruction: str
    attack: Attack | None = None
    pattern: str | None = None
    """Name of the attack pattern."""
