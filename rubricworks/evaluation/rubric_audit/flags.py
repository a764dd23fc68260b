"""Flags on a rubric, from its text and from the credits of its probes.

Flags of a criterion:
    compound       it asks for several things that could be met one without the others
    always met     an empty text, another sample's and one with everything thrown in meet it, and all others but one
    never met      none of the sample's own responses meets it
    overlaps       another criterion passes for the same, by its rule or its words, and verdicts do not tell them apart
    contradicts    another one asks for another value of the same, and no probe but one meets both
    leaks          its text states its own reference, or quotes a response of the sample word by word
    parroted       it asks for an act ("explains how …"), and the claim alone, that it is done, meets it; of an image:
                   its words, written on white, meet it
    wrong sign     it takes away, and says what a response must not do, so that the best response meets it
What a criterion asks for is read by a judge (`reading`), in a rubric of images by rules. A negated criterion, which is
met where its statement does not hold, is neither "always met" nor "parroted".
Flags of the rubric:
    presence only  a response with everything thrown in keeps its reward
    not about it   another sample's response gets nearly as much as the best one
    indifferent    half the response gets nearly as much as the whole

A judge that errs now and then must not hide a fault, nor make one: hence the one probe of grace, and `_KEPT`. Each flag
is decided by its judged probes. If they cannot decide it, or the reading failed, it is `untested`, which does not count
as sound. So are "presence only" and "not about it" of a rubric that is audited alone: no other sample has a response to
try.
"""

import re
from collections.abc import Mapping, Sequence, Set
from itertools import combinations
from types import MappingProxyType
from typing import Literal, NamedTuple

from pydantic import BaseModel

from rubricworks.data.rubric_sets.entries import NEGATED
from rubricworks.data.rubric_sets.polarity import Polarity
from rubricworks.evaluation.rubric_audit.probes import Probe, is_negated, statements
from rubricworks.evaluation.rubric_audit.reading import CriterionReading, acts_of
from rubricworks.grading.images.text_criteria import TEXT_KEY
from rubricworks.grading.requests import describe_target
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
    "wrong sign",
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
    "wrong sign": "a good response meets it, and it takes away: name the fault instead, or let it earn",
}
"""Flag → advice for the rubric's author."""
_QUOTED = 8
"""Words in a row that a criterion and a response have in common by quoting, not by chance."""
_DIFFER = 0.2
"""Share of verdicts in which two criteria with the same rule differ because of the judge's errors."""
_KEPT = 0.8
"""Share of the best response's reward from which a worse response counts as rewarded like it."""
_DRAWN = 0.5
"""Reward that the best image earns if the generator draws what the prompt asks for."""
_NAMED = 4
"""Assertions of a compound criterion that are listed."""
_OF_THE_JUDGE = ("reversed", "impossible")
"""Kinds of probes that test the judge, not the rubric."""
_WORD = re.compile(r"\w+")
_NEGATION = re.compile(r"\b(?:not?|none|never|nothing|without|avoids?|refrains?)\b", re.IGNORECASE)


_FAILS = re.compile(r"(?<=[.;])\s+(?:it |the \w+ |otherwise,? )*fails\b|(?<=[.;])\s+otherwise\b")
_SMALL = frozenset({"a", "an", "any", "the", "do", "does"})
"""Words that a negation brings along."""


class CriterionFlag(BaseModel, extra="forbid", frozen=True):
    """A flag, on a criterion or on the whole rubric."""

    flag: FlagName
    criterion: str = ""
    """Title; empty for a flag of the rubric."""
    reason: str


class RubricFinding(BaseModel, extra="forbid", frozen=True):
    """Audit of one rubric."""

    sample_id: str
    flags: tuple[CriterionFlag, ...]
    rewards: dict[str, float | None]
    """Reward of each kind of probe; for `response`, of the first one, which the changed ones are made of."""
    texts: dict[str, str] = {}
    """Text of each kind of probe that was graded; none of images."""
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


def examine(
    sample_id: str,
    rubric: Rubric,
    probes: Sequence[Probe],
    cards: Sequence[Scorecard],
    readings: Sequence[CriterionReading] | None = None,
    lone_credits: Mapping[str, float | None] = MappingProxyType({}),
    pitfalls: Mapping[str, Polarity] = MappingProxyType({}),
) -> RubricFinding:
    """Judge a rubric by its probes and what it asks for.

    Args:
        cards: scorecards of the probes, in their order.
        readings: of the criteria, in their order; None for images, or if the rubric could not be read.
        lone_credits: credit of each of the `credited_acts` for its claim alone, by title.
        pitfalls: what meeting criteria of negative weight says of a response, by title.
    """
    both = list(zip(probes, cards, strict=True))
    pairs = [(probe, card) for probe, card in both if card.complete]
    own = [probe.text for probe in probes if probe.kind == "response"]
    in_image = probes[0].image is not None
    contents = _contents_of_images(rubric.criteria) if in_image else _contents_by_reading(rubric.criteria, readings)
    acts = [content.act for content in contents]
    plain = [(probe, card.credits) for probe, card in pairs if probe.kind not in _OF_THE_JUDGE]
    everything = [(probe, card.credits) for probe, card in both if probe.kind not in _OF_THE_JUDGE]
    rewards: dict[str, float | None] = dict.fromkeys(
        ("response", "half", "padded", "shuffled", "everything", "other", "empty", "parroted")
    )
    texts: dict[str, str] = {}
    for probe, credits in plain:
        if rewards[probe.kind] is None:
            rewards[probe.kind] = signed_reward(credits, rubric.weights)
            texts |= {} if in_image else {probe.kind: probe.text}
    outcomes = [
        _text_flags(rubric.criteria, contents, own),
        _sign_flags(pitfalls),
        _verdict_flags(rubric.criteria, everything, acts, lone_credits),
        _reward_flags(rewards, {probe.kind for probe in probes}, len(rubric.criteria), _DRAWN if in_image else 0.0),
    ]
    flags = [flag for outcome in outcomes for flag in outcome.flags]
    untested = dict.fromkeys(name for outcome in outcomes for name in outcome.untested)
    best = next((credits for probe, credits in plain if probe.kind == "response"), None)
    turned = next((card.credits[::-1] for probe, card in pairs if probe.kind == "reversed"), None)
    impossible = next((card.credits[-1] for probe, card in pairs if probe.kind == "impossible"), None)
    return RubricFinding(
        sample_id=sample_id,
        flags=tuple(flags),
        rewards=rewards,
        texts=texts,
        claimed=_claimed_reward(rubric, plain, acts, lone_credits),
        criteria=len(rubric.criteria) if best and turned else 0,
        order_changes=sum(a != b for a, b in zip(best, turned, strict=True)) if best and turned else 0,
        impossible_credited=None if impossible is None else impossible > 0,
        unjudged=len(probes) - len(pairs),
        untested=tuple(untested),
    )


class _Content(NamedTuple):
    """Assertions that a criterion asks for; None if unknown."""

    joined: str | None
    """Reason for which it asks for several things; empty if it asks for one."""
    act: bool | None
    """True if a claim that the criterion is met is no response to it."""


def _contents_of_images(criteria: Sequence[Criterion]) -> list[_Content]:
    """Contents by rules: no words in an image are a response, unless text is asked for."""
    return [
        _Content(
            joined="it joins several assertions" if any(map(joins_assertions, statements(criterion))) else "",
            act=criterion.key != TEXT_KEY and not is_negated(criterion),
        )
        for criterion in criteria
    ]


def _contents_by_reading(criteria: Sequence[Criterion], readings: Sequence[CriterionReading] | None) -> list[_Content]:
    joined = [None] * len(criteria) if readings is None else [_joined(reading.assertions) for reading in readings]
    return list(map(_Content, joined, acts_of(criteria, readings)))


def _joined(assertions: Sequence[str]) -> str:
    if len(assertions) == 1:
        return ""
    named = "; ".join(f"{assertion!r:.60}" for assertion in assertions[:_NAMED])
    more = f"; and {len(assertions) - _NAMED} more" if len(assertions) > _NAMED else ""
    return f"it asks for {len(assertions)} things: {named}{more}"


def credited_acts(
    rubric: Rubric,
    probes: Sequence[Probe],
    cards: Sequence[Scorecard],
    readings: Sequence[CriterionReading] | None,
) -> list[Criterion]:
    """Acts that a text of claims meets; none if the rubric was not read."""
    (credits,) = [card.credits for probe, card in zip(probes, cards, strict=True) if probe.kind == "parroted"]
    acts = acts_of(rubric.criteria, readings)
    return [
        criterion
        for criterion, act, credit in zip(rubric.criteria, acts, credits, strict=True)
        if act and criterion.weight > 0 and credit == 1
    ]


def _claimed_reward(
    rubric: Rubric,
    plain: Sequence[tuple[Probe, list[float | None]]],
    acts: Sequence[bool | None],
    lone_credits: Mapping[str, float | None],
) -> float | None:
    """Reward of a text that only claims the requested acts; criteria of negative weight keep their verdicts."""
    credits = next((credits for probe, credits in plain if probe.kind == "parroted"), None)
    if credits is None or None in acts:
        return None
    claimed = [
        lone_credits.get(criterion.criterion, credit) if criterion.weight < 0 or act else 0.0
        for criterion, act, credit in zip(rubric.criteria, acts, credits, strict=True)
    ]
    return signed_reward(claimed, rubric.weights)


def _text_flags(criteria: Sequence[Criterion], contents: Sequence[_Content], responses: Sequence[str]) -> _Outcome:
    flags: list[CriterionFlag] = []
    untested: list[FlagName] = []
    quotable = {words for text in responses for words in _runs(text)}
    for criterion, content in zip(criteria, contents, strict=True):
        if content.joined is None:
            untested.append("compound")
        elif content.joined:
            flags.append(CriterionFlag(flag="compound", criterion=criterion.criterion, reason=content.joined))
        target = describe_target(criterion.reference) if criterion.verifier else criterion.reference
        text = f"{criterion.criterion} {criterion.description}"
        if target and gives_away(text, target):
            flags.append(CriterionFlag(flag="leaks", criterion=criterion.criterion, reason=f"it states {target!r:.60}"))
        elif quote := next((words for words in _runs(text) if words in quotable), None):
            reason = f"it quotes a response: {' '.join(quote)!r:.80}"
            flags.append(CriterionFlag(flag="leaks", criterion=criterion.criterion, reason=reason))
    return _Outcome(flags, untested)


def _sign_flags(pitfalls: Mapping[str, Polarity]) -> _Outcome:
    reason = "it takes away, and a good response meets it"
    flags = [
        CriterionFlag(flag="wrong sign", criterion=title, reason=reason)
        for title in pitfalls
        if pitfalls[title] == "good"
    ]
    return _Outcome(flags, ["wrong sign"] if "unknown" in pitfalls.values() else [])


def _verdict_flags(
    criteria: Sequence[Criterion],
    plain: Sequence[tuple[Probe, list[float | None]]],
    acts: Sequence[bool | None],
    lone_credits: Mapping[str, float | None],
) -> _Outcome:
    flags: list[CriterionFlag] = []
    untested: list[FlagName] = []
    columns = [[_is_met(credits[at]) for _, credits in plain] for at in range(len(criteria))]
    kinds = [probe.kind for probe, _ in plain]
    # What an untrained generator does not draw says nothing of a rubric; texts have a reference beside them.
    in_image = plain[0][0].image is not None
    for criterion, act, met in zip(criteria, acts, columns, strict=True):
        title = criterion.criterion
        judged = [credit for credit in met if credit is not None]
        own = [credit for credit, kind in zip(met, kinds, strict=True) if kind == "response" and credit is not None]
        of_kind = dict(zip(reversed(kinds), reversed(met), strict=True))  # the first of each kind
        by_claim, when_empty = of_kind["parroted"], of_kind["empty"]
        if title in lone_credits:
            by_claim = _is_met(lone_credits[title])
        by_any = [of_kind.get(kind) for kind in ("empty", "other", "everything")]
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
        elif act is not False and by_claim is not False and when_empty is not True:
            if None in (act, by_claim, when_empty):
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


def _reward_flags(rewards: dict[str, float | None], tried: Set[str], count: int, least: float) -> _Outcome:
    """Flags of the rubric.

    Args:
        tried: kinds of its probes.
        count: number of its criteria.
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
        if kind not in tried or best is None or best < least or (reward is None and best):
            untested.append(name)
        elif best and reward is not None and reward >= _KEPT * best:
            reason = f"{text} gets {reward:.2f}, the best one {best:.2f}"
            flags.append(CriterionFlag(flag=name, reason=reason))
    return _Outcome(flags, untested)


def same_rule(first: Criterion, second: Criterion) -> bool:
    """Return True if the rules of two criteria, or their texts without rules, pass for the same words."""
    return _bag(_passing(first)) == _bag(_passing(second))


def _excludes(first: Criterion, second: Criterion) -> bool:
    """Return True if one criterion negates what the other asks, or asks for another value of the same thing."""
    a, b = first.criterion.casefold(), second.criterion.casefold()
    if bool(_NEGATION.search(a)) != bool(_NEGATION.search(b)):
        return _bag(_NEGATION.sub("", a)) - _SMALL == _bag(_NEGATION.sub("", b)) - _SMALL
    words_a, words_b = _WORD.findall(_passing(first)), _WORD.findall(_passing(second))
    return len(words_a) == len(words_b) and len({(x, y) for x, y in zip(words_a, words_b, strict=True) if x != y}) == 1


def _passing(criterion: Criterion) -> str:
    """The part of a criterion that states when it passes: its rule without the conditions of failure, or all of its
    text.
    """
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
