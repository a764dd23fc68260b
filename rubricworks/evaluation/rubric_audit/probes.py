"""Probes of one rubric: responses of its sample, and changed ones of which the right reward is known to be lower.

A good rubric gives less for half a response, another sample's, an empty one, and one with everything thrown in; as much
for a response in another order; and nothing for a text that only claims to have done what the criteria ask for.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from rubricworks.data.rubric_sets.entries import NEGATED
from rubricworks.rubrics import Criterion, Response, Rubric

ProbeKind = Literal[
    "response", "half", "padded", "shuffled", "everything", "other", "empty", "parroted", "reversed", "impossible"
]

IMPOSSIBLE = Criterion(
    criterion="Gives the serial number 7Q-31-Z that nothing shows",
    description="No response can know this serial number; one that does not state it does not meet the criterion.",
    evaluation_rule="Passes if the response gives the serial number 7Q-31-Z. Fails if it does not.",
    weight=1,
)
"""Criterion that no response meets: a judge that credits it credits anything."""
_PADDING = (
    "Overall, this is worth noting in every respect.",
    "All things considered, the description is thorough, precise and complete.",
    "In summary, nothing of importance is left out.",
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class Probe(NamedTuple):
    """One text or image to grade by a rubric."""

    kind: ProbeKind
    text: str
    """Empty for an image."""
    rubric: Rubric
    """The rubric, its criteria in reverse (`reversed`), or with one that no response meets (`impossible`)."""
    image: Response | None = None

    @property
    def response(self) -> str | Response:
        return self.image or self.text


def make_probes(
    rubric: Rubric, responses: Sequence[str], others: Sequence[str], acts: Sequence[bool | None] | None = None
) -> list[Probe]:
    """Probes of a rubric, in a fixed order.

    Args:
        responses: of the sample, the best first, at least one.
        others: responses to other samples; without one, no probe is made of another sample's.
        acts: False for each criterion whose claim states what it asks for. No probe claims it, as its content could
            meet another criterion. By default all are claimed.
    """
    best = responses[0]
    parts = sentences(best)
    turned = Rubric(criteria=rubric.criteria[::-1])
    extended = Rubric(criteria=(*rubric.criteria, IMPOSSIBLE))
    claimed = _claimed(rubric, acts or [None] * len(rubric.criteria))
    claims = " ".join(f"The response meets this: {': '.join(statements(criterion))}." for criterion in claimed)
    claims = claims or "The response meets every criterion."
    of_others: list[tuple[ProbeKind, str]] = []
    if others:
        of_others = [("everything", " ".join([best, *others])), ("other", others[0])]
    return [
        *(Probe("response", text, rubric) for text in responses),
        Probe("half", " ".join(parts[: len(parts) // 2]), rubric),
        Probe("padded", " ".join([*parts, *_PADDING]), rubric),
        Probe("shuffled", " ".join([*parts[1::2], *parts[::2]]), rubric),
        *(Probe(kind, text, rubric) for kind, text in of_others),
        Probe("empty", "", rubric),
        Probe("parroted", claims, rubric),
        Probe("reversed", best, turned),
        Probe("impossible", best, extended),
    ]


def lone_claim(criterion: Criterion) -> str:
    """The claim of one act, without the others, in other words than in `parroted`."""
    return f"This has been done: {': '.join(statements(criterion))}."


def _claimed(rubric: Rubric, acts: Sequence[bool | None]) -> list[Criterion]:
    return [
        criterion
        for criterion, act in zip(rubric.criteria, acts, strict=True)
        if act is not False and criterion.weight > 0 and not is_negated(criterion)
    ]


def statements(criterion: Criterion) -> list[str]:
    """Texts that say what is asked: the title, and the description of a criterion without a rule of its own.

    Rubrics as Rewards, rewardkit and verifiers have a name for the title, and the statement in the description.
    """
    has_rule = criterion.evaluation_rule not in ("", NEGATED)
    return [criterion.criterion, *([criterion.description] if criterion.description and not has_rule else [])]


def is_negated(criterion: Criterion) -> bool:
    """Return True if a criterion is met where its statement does not hold."""
    return criterion.evaluation_rule == NEGATED


def sentences(text: str) -> list[str]:
    """Sentences of a text; its words where it is one sentence."""
    parts = [part for part in _SENTENCE.split(text.strip()) if part]
    return parts if len(parts) > 1 else text.split()
