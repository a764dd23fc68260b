"""Audit of a set of rubrics: their probes graded by a judge, one summary with intervals, and the cost."""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from pydantic import BaseModel

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.errors import UserError
from rubricworks.evaluation.rubric_audit.flags import RubricFinding, credited_acts, examine
from rubricworks.evaluation.rubric_audit.probes import Probe, lone_claim, make_image_probes, make_probes
from rubricworks.evaluation.rubric_audit.reading import Reading, acts_of, read_pitfalls, read_rubric
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.llm.identity import PinnedEntry
from rubricworks.metrics import Interval, flip_rate, mean_interval, share_interval, wilson_interval
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Response, Rubric, Scorecard


class AuditCost(BaseModel, extra="forbid", frozen=True):
    """Calls, tokens and seconds of one model in an audit; cached answers cost nothing."""

    calls: int
    """Calls, those that failed and those that the cache answered among them."""
    cached: int
    """Calls that the cache answered."""
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens that the provider had cached."""
    completion_tokens: int
    dollars: float | None
    """None if the endpoint has no prices."""
    seconds: float
    """Time by the clock."""

    @classmethod
    def of(cls, client: ChatClient, seconds: float) -> Self:
        """Cost of all calls of a client so far.

        Args:
            seconds: time by the clock that they took together.
        """
        totals, endpoint = client.totals, client.endpoint
        return cls(
            calls=totals.calls,
            cached=totals.cached,
            prompt_tokens=totals.prompt_tokens,
            cached_tokens=totals.cached_tokens,
            completion_tokens=totals.completion_tokens,
            dollars=totals.cost if endpoint.is_priced else None,
            seconds=round(seconds, 3),
        )


_OTHERS = 3
"""Other samples whose responses are thrown in."""
_RESPONSES = 5
"""Responses of a sample that are graded."""
MAX_PROBES = _RESPONSES + 10
"""Usual number of gradings of one rubric: the responses, one of each other kind of probe, and one claimed act."""
MAX_READINGS = 2
"""Calls that read one rubric; one more if the phrasing of its pitfalls does not tell whether they name a fault."""
MAX_CALLS = MAX_PROBES + MAX_READINGS


class RubricAudit(BaseModel, extra="forbid", frozen=True):
    """Audit of a set of rubrics by one judge."""

    judge: str
    findings: tuple[RubricFinding, ...]
    criteria: int
    calls: int
    """Gradings; one call each with `call_per: response`."""
    readings: int = 0
    """Calls to read the rubrics, one or two each, and one for open pitfalls; none for images."""
    unread: int = 0
    """Rubrics that the judge could not read."""
    unaudited: int = 0
    """Rubrics of the set whose samples have neither a response nor a reference answer to try them on."""
    flips: Interval | None = None
    """Share of verdicts that change between two draws of the same question, if draws were repeated."""
    identities: tuple[PinnedEntry, ...] = ()
    """Models that the judge's answers stated, and versions of its prompts. Several if servers of one name were asked
    into one cache. Empty in a run, whose report has them.
    """
    cost: AuditCost | None = None
    """Calls, tokens and dollars of the judge; None in a run, whose ledger has them."""

    @property
    def several_models(self) -> bool:
        """True if the judge's answers stated more than one model, so that its verdicts do not compare."""
        return (
            len({identity for entry in self.identities for identity in (entry.identity, *entry.others) if identity}) > 1
        )

    @property
    def flagged(self) -> Interval:
        """Share of rubrics with a flag."""
        return wilson_interval(sum(bool(finding.flags) for finding in self.findings), len(self.findings))

    @property
    def undecided(self) -> int:
        """Rubrics without a flag of which some flag could not be tested, because its probes were not judged."""
        return sum(finding.undecided for finding in self.findings)

    @property
    def untested(self) -> dict[str, int]:
        """Rubrics in which each flag could not be tested, the most frequent first."""
        return dict(Counter(name for finding in self.findings for name in finding.untested).most_common())

    @property
    def gap(self) -> Interval | None:
        """Mean distance between the best response and the best-rewarded bad text; 0 or less can be gamed."""
        return mean_interval([finding.gap for finding in self.findings], share=False)

    @property
    def by_flag(self) -> dict[str, int]:
        """Rubrics that have each flag, the most frequent first."""
        # Not a set, whose order of strings changes with the process: the order of ties is that of the findings.
        counts = Counter(
            name for finding in self.findings for name in dict.fromkeys(flag.flag for flag in finding.flags)
        )
        return dict(counts.most_common())

    @property
    def impossible_credited(self) -> float | None:
        """Share of the rubrics in which the judge credits a criterion that no response can meet."""
        known = [finding.impossible_credited for finding in self.findings if finding.impossible_credited is not None]
        return sum(known) / len(known) if known else None

    @property
    def form_changes(self) -> Interval | None:
        """Share of rubrics whose reward changes when the response is padded with praise, or its sentences shuffled."""
        known = [
            (finding.rewards["response"], finding.rewards["padded"], finding.rewards["shuffled"])
            for finding in self.findings
        ]
        judged = [rewards for rewards in known if None not in rewards]
        return wilson_interval(sum(len(set(rewards)) > 1 for rewards in judged), len(judged)) if judged else None

    @property
    def order_changes(self) -> Interval:
        """Share of verdicts that change when the criteria are listed in reverse, those that flip anyhow among them."""
        changes = [
            (finding.sample_id, at < finding.order_changes)
            for finding in self.findings
            for at in range(finding.criteria)
        ]
        if not changes:
            return Interval(value=0.0)
        return share_interval([float(changed) for _, changed in changes], clusters=[name for name, _ in changes])

    @property
    def unjudged(self) -> int:
        return sum(finding.unjudged for finding in self.findings)

    @property
    def worst(self) -> list[RubricFinding]:
        """Findings with flags, the smallest gap first."""
        return sorted(
            (finding for finding in self.findings if finding.flags),
            key=lambda finding: (finding.gap or 0, -len(finding.flags)),
        )


async def audit_rubrics(
    entries: Sequence[RubricEntry],
    responses: Mapping[str, Sequence[str]],
    grader: Grader,
    *,
    repeated: Grader | None = None,
    judge: str = "",
    progress: Callable[[int], object] = lambda done: None,
) -> RubricAudit:
    """Audit rubrics by probes made of their samples' own responses, which are texts; see `audit_by_images`.

    The grader's first judge is asked to read each rubric, too.

    Args:
        entries: rubrics; those of samples without a response are probed with their reference answer, and those
            without either are `unaudited`.
        responses: of each sample, the best first; the changed ones are made of that.
        repeated: the same judge with repeated draws; it grades the first responses, for the share that flips.
        judge: name for the report.
        progress: called with the number of gradings and readings done.
    Raises:
        UserError: no sample has a response or a reference.
    """
    return await _audit(make_probes, entries, responses, grader, grader.judges[0], repeated, judge, progress)


async def audit_by_images(
    entries: Sequence[RubricEntry],
    images: Mapping[str, Sequence[bytes]],
    grader: Grader,
    *,
    judge: str = "",
    progress: Callable[[int], object] = lambda done: None,
) -> RubricAudit:
    """Audit rubrics of images, by images of each sample's prompt, of which the best-rewarded one is changed.

    Raises:
        UserError: no sample has an image.
    """
    without_answers = [replace(entry, reference="") for entry in entries]
    drawn = [(entry, image) for entry in without_answers for image in images.get(entry.sample_id, ())[:_RESPONSES]]
    rewards: dict[str, list[tuple[float, bytes]]] = defaultdict(list)
    rows = ((entry.to_sample(), Response.of_image(image), entry.rubric) for entry, image in drawn)
    cards = [card async for card in grader.grade_many(rows)]
    for (entry, image), card in zip(drawn, cards, strict=True):
        reward = signed_reward(card.credits, entry.rubric.weights)
        rewards[entry.sample_id].append((-math.inf if reward is None else reward, image))
    best_first = {
        name: [image for _, image in sorted(several, key=lambda pair: -pair[0])] for name, several in rewards.items()
    }
    # With a cache the same images cost nothing again.
    return await _audit(make_image_probes, without_answers, best_first, grader, None, None, judge, progress)


async def _audit(
    make: Callable[[Rubric, Sequence[Any], Sequence[Any], Sequence[bool | None]], list[Probe]],
    entries: Sequence[RubricEntry],
    responses: Mapping[str, Sequence[Any]],
    grader: Grader,
    reader: ChatClient | None,
    repeated: Grader | None,
    judge: str,
    progress: Callable[[int], object],
) -> RubricAudit:
    texts = {entry.sample_id: probe_responses(entry, responses) for entry in entries}
    probed = [entry for entry in entries if texts[entry.sample_id]]
    if not probed:
        raise UserError(
            f"none of {len(entries)} samples has a response or a reference answer to try its rubric on: give "
            "--responses with the columns sample_id and response"
        )
    done = 0

    async def read(rubric: Rubric) -> Reading:
        nonlocal done
        reading = await read_rubric(rubric, reader) if reader else Reading(None, 0)
        done += reading.calls
        progress(done)
        return reading

    readings = await asyncio.gather(*(read(entry.rubric) for entry in probed))
    pitfalls = await asyncio.gather(*(read_pitfalls(entry, reader) for entry in probed))
    progress(done := done + sum(pitfall.calls for pitfall in pitfalls))
    all_probes = []
    for at, (entry, reading) in enumerate(zip(probed, readings, strict=True)):
        others = [probed[(at + step) % len(probed)] for step in range(1, min(_OTHERS, len(probed) - 1) + 1)]
        bests = [texts[other.sample_id][0] for other in others]
        acts = acts_of(entry.rubric.criteria, reading.criteria)
        all_probes.append(make(entry.rubric, texts[entry.sample_id], bests, acts))
    rows = (
        (entry.to_sample(), probe.response, probe.rubric)
        for entry, probes in zip(probed, all_probes, strict=True)
        for probe in probes
    )
    cards: list[list[Scorecard]] = [[] for _ in probed]
    places = iter([at for at, probes in enumerate(all_probes) for _ in probes])
    async for card in grader.grade_many(rows):
        cards[next(places)].append(card)
        progress(done := done + 1)
    # An act may be met by what another claim says, or by an error of the judge: its claim has to meet it alone.
    credited = [
        (at, criterion)
        for at, (entry, reading) in enumerate(zip(probed, readings, strict=True))
        for criterion in credited_acts(entry.rubric, all_probes[at], cards[at], reading.criteria)
    ]
    alone = (
        (probed[at].to_sample(), lone_claim(criterion), Rubric(criteria=(criterion,))) for at, criterion in credited
    )
    lone_credits: list[dict[str, float | None]] = [{} for _ in probed]
    claims = [card async for card in grader.grade_many(alone)]
    for (at, criterion), card in zip(credited, claims, strict=True):
        lone_credits[at][criterion.criterion] = card.credits[0]
        progress(done := done + 1)
    findings = [
        examine(entry.sample_id, entry.rubric, probes, own_cards, reading.criteria, credits, signs.met)
        for entry, probes, own_cards, reading, credits, signs in zip(
            probed, all_probes, cards, readings, lone_credits, pitfalls, strict=True
        )
    ]
    criteria = sum(len(entry.rubric.criteria) for entry in probed)
    draws: list[tuple[str, tuple[float, ...]]] = []
    if repeated:
        firsts = [
            (entry.to_sample(), probes[0].response, entry.rubric)
            for entry, probes in zip(probed, all_probes, strict=True)
        ]
        async for card in repeated.grade_many(firsts):
            draws += [
                (card.sample_id, tuple(vote for vote in verdict.votes if vote is not None)) for verdict in card.verdicts
            ]
    return RubricAudit(
        judge=judge,
        findings=tuple(findings),
        criteria=criteria,
        calls=sum(map(len, cards)) + len(claims),
        readings=sum(reading.calls for reading in readings) + sum(pitfall.calls for pitfall in pitfalls),
        unread=sum(reading.criteria is None for reading in readings) if reader else 0,
        unaudited=len(entries) - len(probed),
        flips=flip_rate([votes for _, votes in draws], [name for name, _ in draws]),
    )


def probe_responses(entry: RubricEntry, responses: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Responses of a sample that its rubric is tried on, the best first; its reference answer comes last."""
    return [text for text in (*responses.get(entry.sample_id, ()), entry.reference) if text][:_RESPONSES]
