"""Time and money of a run by stage: seconds of finished attempts, calls and dollars of all attempts."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict


class ModelCalls(BaseModel):
    """The calls of one stage to one model for one purpose."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    purpose: str
    model: str
    calls: int = 0
    cached: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    cached_tokens: int = 0
    """Prompt tokens that the provider had cached, of `prompt_tokens`."""


class StageCost(BaseModel):
    """Time and cost of one stage, summed over its attempts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    seconds: float
    attempts: int
    calls: int
    cost: float
    figures: dict[str, Any]
    """The other fields of the last attempt's ledger line."""


def stage_costs(
    ledger: Iterable[dict[str, Any]], calls: Sequence[ModelCalls], *, exclude: Collection[str] = ()
) -> list[StageCost]:
    """One entry per stage, in order of first completion; unfinished stages with calls come last.

    Args:
        exclude: stages to leave out, such as those that make the page and are still running.
    """
    stages: dict[str, list[dict[str, Any]]] = {}
    for entry in ledger:
        stages.setdefault(str(entry["stage"]), []).append(entry)
    for call in calls:
        stages.setdefault(call.stage, [])
    return [
        StageCost(
            stage=stage,
            seconds=sum(_number(entry.get("seconds")) for entry in entries),
            attempts=len(entries),
            calls=sum(call.calls for call in calls if call.stage == stage),
            cost=sum(call.cost for call in calls if call.stage == stage),
            figures={key: value for key, value in entries[-1].items() if key not in ("stage", "seconds")}
            if entries
            else {},
        )
        for stage, entries in stages.items()
        if stage not in exclude
    ]


def seconds_by_stage(costs: Iterable[StageCost]) -> dict[str, float]:
    """`total`, and each stage's seconds; parallel stages both count in the total."""
    stages = {cost.stage: cost.seconds for cost in costs}
    return {"total": round(sum(stages.values()), 3), **{stage: round(seconds, 3) for stage, seconds in stages.items()}}


def model_calls(spending: Iterable[dict[str, Any]]) -> list[ModelCalls]:
    """Calls by stage, purpose and model, from `llm.read_spending`."""
    return [
        ModelCalls(**{**{name: row[name] for name in ModelCalls.model_fields}, "errors": sum(row["errors"].values())})
        for row in spending
    ]


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
