"""Rubric behind a scorecard: what each criterion weighs in the reward, and what the judge reads of it.

A scorecard names criteria by their titles alone; the run's rubric tables hold the rest.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.grading.requests import describe_target
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.rubrics import rubric_sets
from rubricworks.platform_api.services.run_tables import list_tables
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.runs.store import RunStore


class MetWeight(NamedTuple):
    """Weight that the responses of a group have met, beside their rewards."""

    total: float
    """Sum of the positive weights: all that can be met."""
    met: list[float | None]
    """Sum of weight times credit of each response; None if a criterion of it could not be judged."""
    is_reward: bool
    """True if `met / total`, at least 0, is each reward; False where the training remaps, gates or corrects it."""


async def find_rubric(
    session: AsyncSession, store: RunStore, run: str, sample_id: str, titles: Sequence[str]
) -> Rubric | None:
    """Find the rubric of a run that has a sample's criteria in this order; None if no table of the run holds it."""
    for table in await list_tables(session, rubric_sets.KIND, run=run):
        try:
            rubric, _ = await rubric_sets.stage_rubric(store, table, sample_id)
        except (NotFound, ValidationError):  # a rubric of an older version may hold what none may now
            continue
        if [one.criterion for one in rubric.criteria] == list(titles):
            return rubric
    return None


def met_weight(rubric: Rubric, members: Sequence[dict[str, Any]]) -> MetWeight:
    """Weigh the credits of a group's responses.

    Args:
        members: the rollouts, as `rollouts.get_group` has them.
    """
    total = math.fsum(weight for weight in rubric.weights if weight > 0)
    met: list[float | None] = []
    is_reward = True
    for one in members:
        credits = [verdict["credit"] for verdict in one["verdicts"]]
        if len(credits) != len(rubric.weights) or None in credits:
            met.append(None)
            continue
        met.append(math.fsum(weight * credit for weight, credit in zip(rubric.weights, credits, strict=True)))
        reward = signed_reward(credits, rubric.weights)
        is_reward &= one["reward"] is not None and math.isclose(one["reward"], reward or 0.0, abs_tol=1e-5)
    return MetWeight(total, met, is_reward)


def judged_words(rubric: Rubric | None) -> dict[str, list[str]]:
    """Title → what decides the criterion beside its title, as the judge or the verifier has it."""
    if rubric is None:
        return {}
    return {one.criterion: _words(one) for one in rubric.criteria}


def _words(criterion: Criterion) -> list[str]:
    if criterion.verifier:
        return [f"Met if the response's value is this, by {criterion.verifier}: {describe_target(criterion.reference)}"]
    if criterion.reference:  # RLR³'s judge reads it in place of description and rule
        return [criterion.reference]
    return [text for text in (criterion.description, criterion.evaluation_rule) if text]
