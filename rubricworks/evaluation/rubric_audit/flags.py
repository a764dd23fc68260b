"""Flags on a rubric, from its text and from the credits of its probes.

Flags of a criterion:
    compound       it asks for several things at once
    always met     an empty text, another sample's and one with everything thrown in meet it, and all others but one
    never met      none of the sample's own responses meets it
    overlaps       another criterion passes for the same, by its rule or its words, and verdicts do not tell them apart
    contradicts    another one asks for another value of the same, and no probe but one meets both
    leaks          its text states its own reference, or quotes a response of the sample word by word
    parroted       it asks for an act ("explains how …"), and the claim alone, that it is done, meets it; of an image:
                   its words, written on white, meet it
A negated criterion, which is met where its statement does not hold, is neither "always met" nor "parroted".
Flags of the rubric:
    presence only  a response with everything thrown in keeps its reward
    not about it   another sample's response gets nearly as much as the best one
    indifferent    half the response gets nearly as much as the whole

A judge that errs now and then must not hide a fault, nor make one: hence the one probe of grace, and `_KEPT`. Each flag
comes from those of its probes that were judged; one that they cannot decide is `untested`, which is not sound.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from rubricworks.data.rubric_sets.entries import NEGATED
from rubricworks.evaluation.rubric_audit.probes import Probe, is_negated, statements
from rubricworks.grading.requests import describe_target
from rubricworks.grading.text_criteria import TEXT_KEY
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Criterion, Rubric, Scorecard
from rubricworks.synthesis.checklist_lint import joins_assertions
from rubricworks.synthesis.leaks import gives_away

FlagName = Literal[
    "compound",
    "always met",
    "never met",
    "overlaps",
    "contradicts",
    "leaks",
    "parroted",
    "presence only",
    "not about it",
    "indifferent",
]
ADVICE: Mapping[str, str] = {
    "presence only": "naming everything at random keeps the reward: add criteria that inventions fail",
    "not about it": "another sample's response does nearly as well: ask for what this sample has",
    "indifferent": "half the response does nearly as well: ask for the rest of it",
    "always met": "any text meets it: drop it, or ask for more",
    "never met": "no response of the sample meets it: check that it can be met, and is judged",
    "contradicts": "it and another one cannot both be met",
    "overlaps": "it counts what another one counts already",
    "compound": "it joins several assertions: split it",
    "leaks": "its text states the reference, or quotes a response: ask for what is to be found, in other words",
    "parroted": "saying that it is done meets it: ask for what is to be said",
}
"""Flag → advice for the rubric's author."""
_QUOTED = 8
"""Words in a row that a criterion and a response have in common by quoting, not by chance."""
_DIFFER = 0.2
"""Share of verdicts by which two criteria with one rule differ through a judge's errors."""
_KEPT = 0.8
"""Share of the best response's reward from which a worse response counts as rewarded like it."""
_OPENING = re.compile(
    r"^(?:\w+ criteri(?:a|on):\s*)?(?:(?:the|its?|a) \w+\s+)?(?:(?:should|must|has to)\s+|\w+ly\s+)*"
    r"(?P<verb>[a-z]+)\b\s*(?P<object>.*)",
    re.IGNORECASE | re.DOTALL,
)
"""Verb of a criterion, after its category, its subject and adverbs, and what follows it."""
_TELLS = re.compile(
    r"(?:advis|ask|call|cit|claim|conclud|contain|correct|count|enumerat|find|get|giv|has|identif|includ|indicat|is|are|list|"
    r"mention|nam|not|point|quot|read|recogni[sz]|recommend|report|say|specif|stat|suggest|tell|us|warn|writ|calculat|"
    r"comput|determin|deriv|avoid|refrain|fail|do)(?:e|s|es|y|ies)?",
    re.IGNORECASE,
)
"""Verbs whose claim states the content: "says that the cup is red"."""
_TOLD = re.compile(r"(?:\w+ ){0,4}that\b|(?:it )?(?:clear|plain|known)\b", re.IGNORECASE)
"""What follows a verb of any kind where it introduces what is told: "makes it clear that …"."""
_TOPIC = re.compile(
    r"an? (?:\w+ )?(?:account|analysis|description|discussion|explanation|overview|summary)\b", re.IGNORECASE
)
_LIGHT = re.compile(
    r"(?:do|get|giv|has)(?:e|s|es)?\s(?:(?!(?:an?|the|its?|no|that)\b)[a-z]+\s){1,3}(?:about|into|of|on|to|with)\b|"
    r"(?:is|are)\s(?:\w+\s){1,3}about\b",
    re.IGNORECASE,
)
"""A verb that means little, and a noun or adjective without an article: "has much to say about", "does justice to"."""
_DRAWN = 0.5
"""Reward that the best image earns if the generator draws what the prompt asks for."""
_OF_THE_JUDGE = ("reversed", "impossible")
"""Kinds of probes that test the judge, not the rubric."""
_WORD = re.compile(r"\w+")
_NEGATION = re.compile(r"\b(?:not?|none|never|nothing|without|avoids?|refrains?)\b", re.IGNORECASE)


_FAILS = re.compile(r"(?<=[.;])\s+(?:it |the \w+ |otherwise,? )*fails\b|(?<=[.;])\s+otherwise\b")
_SMALL = frozenset({"a", "an", "any", "the", "do", "does"})
"""Words that a negation brings along."""


class CriterionFlag(BaseModel):
    """A flag, on a criterion or on the whole rubric."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    flag: FlagName
    criterion: str = ""
    """Title; empty for a flag of the rubric."""
    reason: str


class RubricFinding(BaseModel):
    """Audit of one rubric."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_id: str
    flags: tuple[CriterionFlag, ...]
    rewards: dict[str, float | None]
    """Reward of each kind of probe; for `response`, of the first one, which the changed ones are made of."""
    claimed: float | None = None
    """Reward of the parroted text for acts alone: the claim that a fact holds states the fact."""
    criteria: int = 0
    """Criteria that were judged in both orders."""
    order_changes: int
    """Criteria whose verdict changes when the list is reversed."""
    impossible_credited: bool | None
    """True if the judge credits what no response can meet."""
    unjudged: int
    """Probes that could not be judged; they count in no flag."""
    untested: tuple[FlagName, ...] = ()
    """Flags that the judged probes cannot decide, neither for nor against."""

    @property
    def undecided(self) -> bool:
        """True if nothing is flagged, and something could not be tested."""
        return not self.flags and bool(self.untested)

    @property
    def gap(self) -> float | None:
        """Reward of the best response minus that of the best-rewarded bad probe."""
        bad = [*(self.rewards[kind] for kind in ("everything", "other", "empty")), self.claimed]
        judged = [reward for reward in bad if reward is not None]
        best = self.rewards["response"]
        return None if best is None or not judged else best - max(judged)


class _Outcome(NamedTuple):
    flags: list[CriterionFlag]
    untested: list[FlagName]


def examine(sample_id: str, rubric: Rubric, probes: Sequence[Probe], cards: Sequence[Scorecard]) -> RubricFinding:
    """Judge a rubric by the scorecards of its probes, which are in their order."""
    both = list(zip(probes, cards, strict=True))
    pairs = [(probe, card) for probe, card in both if card.complete]
    own = [probe.text for probe in probes if probe.kind == "response"]
    acts = [_claim_says_nothing(one, in_image=probes[0].image is not None) for one in rubric.criteria]
    plain = [(probe, card.credits) for probe, card in pairs if probe.kind not in _OF_THE_JUDGE]
    everything = [(probe, card.credits) for probe, card in both if probe.kind not in _OF_THE_JUDGE]
    rewards: dict[str, float | None] = dict.fromkeys(
        ("response", "half", "padded", "shuffled", "everything", "other", "empty", "parroted")
    )
    for probe, credits in plain:
        if rewards[probe.kind] is None:
            rewards[probe.kind] = signed_reward(credits, rubric.weights)
    least = _DRAWN if probes[0].image is not None else 0.0
    outcomes = [_verdict_flags(rubric.criteria, everything, acts), _reward_flags(rewards, len(rubric.criteria), least)]
    flags = [*_text_flags(rubric.criteria, own), *(flag for outcome in outcomes for flag in outcome.flags)]
    untested = dict.fromkeys(name for outcome in outcomes for name in outcome.untested)
    best = next((credits for probe, credits in plain if probe.kind == "response"), None)
    turned = next((card.credits[::-1] for probe, card in pairs if probe.kind == "reversed"), None)
    impossible = next((card.credits[-1] for probe, card in pairs if probe.kind == "impossible"), None)
    return RubricFinding(
        sample_id=sample_id,
        flags=tuple(flags),
        rewards=rewards,
        claimed=_claimed_reward(rubric, plain, acts),
        criteria=len(rubric.criteria) if best and turned else 0,
        order_changes=sum(a != b for a, b in zip(best, turned, strict=True)) if best and turned else 0,
        impossible_credited=None if impossible is None else impossible > 0,
        unjudged=len(probes) - len(pairs),
        untested=tuple(untested),
    )


def _claim_says_nothing(criterion: Criterion, *, in_image: bool) -> bool:
    """Return True if a claim that the criterion is met is no response to it: in an image, unless text is asked for."""
    return criterion.key != TEXT_KEY and not is_negated(criterion) if in_image else asks_for_act(criterion)


def _claimed_reward(
    rubric: Rubric, plain: Sequence[tuple[Probe, list[float | None]]], acts: Sequence[bool]
) -> float | None:
    """Reward of a text that only claims the acts that are asked for; what takes away is left as it is judged."""
    credits = next((credits for probe, credits in plain if probe.kind == "parroted"), None)
    if credits is None:
        return None
    kept = [
        credit if one.weight < 0 or act else 0.0
        for one, act, credit in zip(rubric.criteria, acts, credits, strict=True)
    ]
    return signed_reward(kept, rubric.weights)


def asks_for_act(criterion: Criterion) -> bool:
    """Return True if a criterion asks for an act about a topic, whose claim states nothing: "explains how …".

    It opens with a verb in the third person, or after "should", that is none of telling, and no clause with "that".
    """
    opening = _OPENING.match(statements(criterion)[-1].strip())
    if opening is None or is_negated(criterion):
        return False
    verb, rest = opening["verb"], opening["object"]
    if _TOLD.match(rest) or not rest:
        return False
    if _TELLS.fullmatch(verb):
        return _TOPIC.match(rest) is not None or _LIGHT.match(f"{verb} {rest}") is not None
    demanded = re.search(r"\b(?:should|must|has to)\b", opening[0][: opening.start("object")]) is not None
    return (demanded or verb.endswith("s")) and not verb.endswith("ss")


def _text_flags(criteria: Sequence[Criterion], responses: Sequence[str]) -> list[CriterionFlag]:
    flags = []
    quotable = {words for text in responses for words in _runs(text)}
    for one in criteria:
        if any(map(joins_assertions, statements(one))):
            flags.append(CriterionFlag(flag="compound", criterion=one.criterion, reason="it joins several assertions"))
        target = describe_target(one.reference) if one.verifier else one.reference
        text = f"{one.criterion} {one.description}"
        if target and gives_away(text, target):
            flags.append(CriterionFlag(flag="leaks", criterion=one.criterion, reason=f"it states {target!r:.60}"))
        elif quote := next((words for words in _runs(text) if words in quotable), None):
            reason = f"it quotes a response: {' '.join(quote)!r:.80}"
            flags.append(CriterionFlag(flag="leaks", criterion=one.criterion, reason=reason))
    return flags


def _verdict_flags(
    criteria: Sequence[Criterion], plain: Sequence[tuple[Probe, list[float | None]]], acts: Sequence[bool]
) -> _Outcome:
    flags: list[CriterionFlag] = []
    untested: list[FlagName] = []
    columns = [[_is_met(credits[at]) for _, credits in plain] for at in range(len(criteria))]
    kinds = [probe.kind for probe, _ in plain]
    # What an untrained generator does not draw says nothing of a rubric; texts have a reference beside them.
    in_image = plain[0][0].image is not None
    for criterion, act, met in zip(criteria, acts, columns, strict=True):
        title = criterion.criterion
        judged = [one for one in met if one is not None]
        own = [one for one, kind in zip(met, kinds, strict=True) if kind == "response" and one is not None]
        by_claim, when_empty = met[kinds.index("parroted")], met[kinds.index("empty")]
        by_any = [met[kinds.index(kind)] for kind in ("empty", "other", "everything")]
        # What guards against a fault is met by most texts, also by none: that is no fault of it.
        may_be_always = not is_negated(criterion) and False not in by_any and sum(judged) >= len(judged) - 1
        if may_be_always and None not in by_any:
            flags.append(CriterionFlag(flag="always met", criterion=title, reason="any text meets it, also none"))
            continue
        untested += ["always met"] * may_be_always
        if criterion.weight < 0:
            continue
        untested += ["never met"] * (not in_image and not own)
        if not in_image and own and not any(own):
            flags.append(CriterionFlag(flag="never met", criterion=title, reason="none of the sample's responses does"))
        elif act and by_claim is not False and when_empty is not True:
            if by_claim is None or when_empty is None:
                untested.append("parroted")
            else:
                flags.append(CriterionFlag(flag="parroted", criterion=title, reason="the claim alone meets it"))
    for (first, a), (second, b) in combinations(zip(criteria, columns, strict=True), 2):
        repeated, excluded = same_rule(first, second), _excludes(first, second)
        if not repeated and (not excluded or in_image):
            continue
        both = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
        together = sum(x and y for x, y in both)
        if 2 * len(both) < len(a):
            untested.append("overlaps" if repeated else "contradicts")
        elif repeated and sum(x != y for x, y in both) <= max(1, _DIFFER * len(both)):
            reason = f"it asks for the same as {first.criterion!r:.80}"
            flags.append(CriterionFlag(flag="overlaps", criterion=second.criterion, reason=reason))
        elif excluded and together <= 1:
            reason = f"no probe meets both it and {first.criterion!r:.80}"
            flags.append(CriterionFlag(flag="contradicts", criterion=second.criterion, reason=reason))
    return _Outcome(flags, untested)


def _is_met(credit: float | None) -> bool | None:
    return None if credit is None else credit == 1


def _reward_flags(rewards: dict[str, float | None], count: int, least: float) -> _Outcome:
    """Flags of the rubric.

    Args:
        least: reward below which the best response says nothing of the rubric.
    """
    best = rewards["response"]
    reasons: list[tuple[FlagName, str, str]] = [
        ("presence only", "everything", "a response with other samples' contents thrown in"),
        ("not about it", "other", "another sample's response"),
    ]
    if count > 1:
        reasons.append(("indifferent", "half", "half the response"))
    flags: list[CriterionFlag] = []
    untested: list[FlagName] = []
    for name, kind, text in reasons:
        reward = rewards[kind]
        if best is None or best < least or (reward is None and best):
            untested.append(name)
        elif best and reward is not None and reward >= _KEPT * best:
            reason = f"{text} gets {reward:.2f}, the best one {best:.2f}"
            flags.append(CriterionFlag(flag=name, reason=reason))
    return _Outcome(flags, untested)


def same_rule(first: Criterion, second: Criterion) -> bool:
    """Return True if two criteria pass for the same words of their rules, or of their texts where they have none."""
    return _bag(_passing(first)) == _bag(_passing(second))


def _excludes(first: Criterion, second: Criterion) -> bool:
    """Return True if one criterion negates what the other asks, or asks for another value of the same thing."""
    a, b = first.criterion.casefold(), second.criterion.casefold()
    if bool(_NEGATION.search(a)) != bool(_NEGATION.search(b)):
        return _bag(_NEGATION.sub("", a)) - _SMALL == _bag(_NEGATION.sub("", b)) - _SMALL
    words_a, words_b = _WORD.findall(_passing(first)), _WORD.findall(_passing(second))
    return len(words_a) == len(words_b) and len({(x, y) for x, y in zip(words_a, words_b, strict=True) if x != y}) == 1


def _passing(criterion: Criterion) -> str:
    """Words for which a criterion passes: its rule without the part that says when it fails, or all of its text."""
    rule = criterion.evaluation_rule
    if rule in ("", NEGATED):
        return f"{criterion.criterion} {criterion.description} {rule}".casefold()
    return _FAILS.split(rule.casefold(), maxsplit=1)[0]


def _runs(text: str) -> list[tuple[str, ...]]:
    """All runs of `_QUOTED` words of a text."""
    words = _WORD.findall(text.casefold())
    return [tuple(words[at : at + _QUOTED]) for at in range(len(words) - _QUOTED + 1)]


def _bag(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
