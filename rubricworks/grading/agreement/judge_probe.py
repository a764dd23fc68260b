"""Probe of a judge: the same responses asked again, in another order, and criterion by criterion.

Tells what stored verdicts cannot: how many flip when the same is asked again, how many depend on the order of the
criteria, what one call for all criteria of a response costs beside one for each, and as which model the judge answers.
No answer comes from the cache, so all figures describe new calls.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.grading.grader import CallPer, Grader, Subject
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.identity import PinnedEntry
from rubricworks.llm.usage import Totals
from rubricworks.metrics import Interval, flip_rate, share_interval
from rubricworks.rubrics import Rubric, Scorecard


class ProbeRow(NamedTuple):
    """A text and the rubric that it is graded by."""

    sample: Sample
    text: str
    rubric: Rubric


class ResponsePrice(BaseModel):
    """Mean of what the grading of one response took."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: float = Field(examples=[1.0])
    prompt_tokens: float = Field(examples=[410.0])
    cached_tokens: float = Field(examples=[128.0])
    """Prompt tokens that the provider had cached."""
    completion_tokens: float = Field(examples=[96.0])
    dollars: float = Field(examples=[0.0004])

    @classmethod
    def of(cls, totals: Totals, responses: int) -> Self:
        return cls(
            calls=totals.calls / responses,
            prompt_tokens=totals.prompt_tokens / responses,
            cached_tokens=totals.cached_tokens / responses,
            completion_tokens=totals.completion_tokens / responses,
            dollars=totals.cost / responses,
        )


class JudgeProbe(BaseModel):
    """Figures of a probe; None if no verdict was given twice."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str = Field(examples=["judge@1"])
    revision: str = Field(examples=["3f5a9c"])
    identity: PinnedEntry
    """Model and fingerprint as the answers state them, and the version of the prompt."""
    responses: int = Field(examples=[40])
    verdicts: int = Field(examples=[160])
    unjudged: int = Field(examples=[2])
    """Verdicts that the judge failed to give, in any of the gradings."""
    repeats: int = Field(examples=[2])
    temperature: float = Field(examples=[0.0])
    flips: Interval | None
    """Probability that two draws of a verdict differ."""
    order_changes: Interval | None
    """Share of verdicts that change when the criteria are listed in reverse, those that flip anyhow among them."""
    call_changes: Interval | None
    """The same with one call per criterion."""
    per_response: ResponsePrice
    """One call for all criteria of a response."""
    per_criterion: ResponsePrice
    """One call for each criterion."""


async def probe_judge(
    endpoint: Endpoint,
    rows: Sequence[ProbeRow],
    *,
    subject: Subject = "caption",
    repeats: int = 3,
    progress: Callable[[int], object] = lambda _: None,
) -> JudgeProbe:
    """Grade rows `repeats` times, once with the criteria reversed, and once criterion by criterion.

    Args:
        subject: what the texts are.
        progress: called with the number of gradings done, of `(repeats + 2) * len(rows)`.
    Raises:
        UserError: there is no row, the judge answers nothing, or a rubric is a checklist, which has no call per
            criterion.
    """
    if not rows:
        raise UserError("no response to probe the judge with")
    reversed_rows = [row._replace(rubric=Rubric(criteria=row.rubric.criteria[::-1])) for row in rows]
    done = 0

    async def grade(
        rows: Sequence[ProbeRow], seed: int, call_per: CallPer = "response"
    ) -> tuple[list[Scorecard], ChatClient]:
        nonlocal done
        cards = []
        async with ChatClient(endpoint, purpose="judge") as judge:
            grader = Grader(judge, subject=subject, seed=seed, call_per=call_per)
            async for card in grader.grade_many((row.sample, row.text, row.rubric) for row in rows):
                cards.append(card)
                done += 1
                progress(done)
        return cards, judge

    first, judge = await grade(rows, 0)
    if not any(credit is not None for card in first for credit in card.credits):
        raise UserError(f"{endpoint.label}: no probe could be judged: {first[0].verdicts[0].reasoning}")
    others = [(await grade(rows, seed))[0] for seed in range(1, repeats)]
    backwards = [
        card.model_copy(update={"verdicts": card.verdicts[::-1]}) for card in (await grade(reversed_rows, 0))[0]
    ]
    apart, apart_judge = await grade(rows, 0, "criterion")
    names = [(row.sample.sample_id, row.text) for row in rows]
    clusters = [name for name, card in zip(names, first, strict=True) for _ in card.verdicts]
    draws = list(zip(*(_credits(cards) for cards in (first, *others)), strict=True))
    gradings = (first, *others, backwards, apart)
    return JudgeProbe(
        judge=endpoint.model,
        revision=endpoint.revision,
        identity=judge.pinned,
        responses=len(rows),
        verdicts=len(clusters),
        unjudged=sum(credit is None for cards in gradings for credit in _credits(cards)),
        repeats=repeats,
        temperature=endpoint.temperature,
        flips=flip_rate([[credit for credit in several if credit is not None] for several in draws], clusters),
        order_changes=_changes(first, backwards, clusters),
        call_changes=_changes(first, apart, clusters),
        per_response=ResponsePrice.of(judge.totals, len(rows)),
        per_criterion=ResponsePrice.of(apart_judge.totals, len(rows)),
    )


def _credits(cards: Sequence[Scorecard]) -> list[float | None]:
    return [credit for card in cards for credit in card.credits]


def _changes(first: Sequence[Scorecard], second: Sequence[Scorecard], clusters: Sequence[Hashable]) -> Interval | None:
    """Share of the verdicts of both gradings that differ."""
    pairs = zip(_credits(first), _credits(second), strict=True)
    changes = [None if credit is None or other is None else float(credit != other) for credit, other in pairs]
    return share_interval(changes, clusters=clusters) if any(change is not None for change in changes) else None
