"""Where a run's time and money went, from its ledger: one line per stage attempt that finished."""

from collections.abc import Iterable
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


class StageCost(BaseModel):
    """What one stage took, summed over its finished attempts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    seconds: float
    attempts: int
    calls: int
    cost: float
    figures: dict[str, Any]
    """What the last attempt said of itself."""


_SUMMED = ("calls", "cached", "prompt_tokens", "completion_tokens", "cost")


def stage_costs(ledger: Iterable[dict[str, Any]]) -> list[StageCost]:
    """One entry per stage, in the order in which the stages first finished."""
    stages: dict[str, list[dict[str, Any]]] = {}
    for entry in ledger:
        stages.setdefault(str(entry["stage"]), []).append(entry)
    return [
        StageCost(
            stage=stage,
            seconds=sum(_number(entry.get("seconds")) for entry in entries),
            attempts=len(entries),
            calls=int(sum(_number(call.get("calls")) for entry in entries for call in entry.get("calls", ()))),
            cost=sum(_number(call.get("cost")) for entry in entries for call in entry.get("calls", ())),
            figures={key: value for key, value in entries[-1].items() if key not in ("stage", "seconds", "calls")},
        )
        for stage, entries in stages.items()
    ]


def model_calls(ledger: Iterable[dict[str, Any]]) -> list[ModelCalls]:
    """Calls by stage, purpose and model."""
    totals: dict[tuple[str, str, str], dict[str, float]] = {}
    for entry in ledger:
        for call in entry.get("calls", ()):
            key = (str(entry["stage"]), str(call.get("purpose", "")), str(call.get("model", "")))
            total = totals.setdefault(key, dict.fromkeys((*_SUMMED, "errors"), 0.0))
            for name in _SUMMED:
                total[name] += _number(call.get(name))
            total["errors"] += _errors(call.get("errors"))
    return [
        ModelCalls(
            stage=stage,
            purpose=purpose,
            model=model,
            cost=total.pop("cost"),
            **{name: int(value) for name, value in total.items()},
        )
        for (stage, purpose, model), total in totals.items()
    ]


def _errors(value: Any) -> float:
    """Errors are counted by class."""
    return sum(map(_number, value.values())) if isinstance(value, dict) else _number(value)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
