"""Reward hacking: the reward beside what training does not see, the alarm's statistics, and the audit of the judge."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.data.alarm import ALARM_FILE
from rubricworks.errors import TransientError, UserError
from rubricworks.evaluation.audit.summary import AuditSummary, parse_audit_row
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.recent_values import RecentValues
from rubricworks.platform_api.services.run_copies import run_folder
from rubricworks.platform_api.services.run_tables import iterate_rows, list_tables, read_rows
from rubricworks.platform_api.services.runs import read_json, read_steps
from rubricworks.recipe.files import load_recipe
from rubricworks.reports.judge_audit_cases import BadCase, worst_cases
from rubricworks.runs.store import RunStore
from rubricworks.training.config import AlarmConfig
from rubricworks.training.policy.alarm import StepStats
from rubricworks.training.policy.alarm_traces import Trace, alarm_traces, known_statistics

AUDIT = "audit"
"""Schema of an audit's table; `audit.json` beside it has its figures."""
_MEASURES = (("oracle", "f1"), ("answers", "right"), ("geneval", "correct"), ("arena", "win"))
"""Scorers that training never asks, the most independent one first."""
_MOST_CASES = 400
_cases = RecentValues[list[BadCase]](8)


class Measure(NamedTuple):
    """A score that training does not see, over the steps of the training."""

    scorer: str
    part: str
    points: list[tuple[int, float]]


class Signals(NamedTuple):
    """Reward of a training, and the figures that watch it."""

    rewards: list[tuple[int, float]]
    held_out: list[tuple[int, float]]
    measure: Measure | None
    config: AlarmConfig
    traces: list[Trace]
    alarm: dict[str, Any] | None
    steps: int
    """Number of steps with statistics."""

    @property
    def least_steps(self) -> int:
        """Number of steps before which the alarm cannot fire: two windows, the last `patience` of them suspicious."""
        return 2 * self.config.window + self.config.patience - 1


async def training_signals(session: AsyncSession, store: RunStore, run: str, stage: str) -> Signals:
    """Signals of a training, from the statistics that it wrote at each step.

    Raises:
        NotFound: it wrote none.
    """
    rows = await read_steps(store, run, stage, 0)
    if not rows:
        raise NotFound(f"{stage} of {run} has no statistics of steps")
    steps = [_step(row) for row in rows]
    config = await asyncio.to_thread(_alarm_config, store, run, stage)
    names = dict.fromkeys(name for row in rows for name in row)
    known = known_statistics()
    alarm = await read_json(store, run, f"{stage}/{ALARM_FILE}")
    return Signals(
        rewards=[(one.step, one.reward) for one in steps if not math.isnan(one.reward)],
        held_out=[(one.step, one.held_out) for one in steps if not math.isnan(one.held_out)],
        measure=await _measure(session, store, run, stage, steps[-1].step),
        config=config,
        traces=alarm_traces(steps, config, [known[name] for name in names if name in known]),
        alarm=alarm if isinstance(alarm, dict) and isinstance(alarm.get("step"), int) else None,
        steps=len(steps),
    )


async def list_audits(session: AsyncSession, run: str) -> Sequence[RunTable]:
    """Audits of the judges of a run."""
    return await list_tables(session, AUDIT, run=run)


async def audit_summary(store: RunStore, audit: RunTable) -> AuditSummary:
    """Figures of an audit.

    Raises:
        NotFound: it has written none.
    """
    content = await read_json(store, audit.run, f"{audit.path}/audit.json")
    if content is None:
        raise NotFound(f"{audit.path} of {audit.run} has no figures yet")
    return AuditSummary.model_validate(content)


async def audit_cases(store: RunStore, audit: RunTable, mode: str | None) -> list[BadCase]:
    """Responses with credit that they do not deserve, the worst first; the failure modes take turns.

    Args:
        mode: name of a failure mode, for its cases alone.
    """
    cases = await _cases.of_table(store, audit, _worst)
    return [one for one in cases if mode is None or one.mode == mode]


def _worst(store: RunStore, audit: RunTable) -> list[BadCase]:
    return worst_cases(map(parse_audit_row, iterate_rows(store, audit)), {}, _MOST_CASES)


async def _measure(session: AsyncSession, store: RunStore, run: str, stage: str, last: int) -> Measure | None:
    values: dict[tuple[str, str], defaultdict[int, list[float]]] = {}
    trained = {"policy", stage.removeprefix("train_")}
    for table in await list_tables(session, "scores", run=run):
        for row in await read_rows(store, table):
            measure = (row["scorer"], row["part"])
            if measure not in _MEASURES or row["value"] is None or row["decoding"] != "greedy":
                continue
            if row["model"] == "base":
                step = 0
            elif row["model"] in trained:
                step = last if row["step"] is None else row["step"]
            else:
                continue
            values.setdefault(measure, defaultdict(list))[step].append(row["value"])
    for measure in _MEASURES:
        if measure in values:
            points = [(step, math.fsum(found) / len(found)) for step, found in sorted(values[measure].items())]
            if len(points) > 1:
                return Measure(*measure, points)
    return None


def _alarm_config(store: RunStore, run: str, stage: str) -> AlarmConfig:
    """The alarm's options in the run's recipe; the default ones if this version does not read the recipe any more.

    Raises:
        TransientError: the storage does not answer.
    """
    try:
        with run_folder(store, run) as folder:
            config = load_recipe(folder / "recipe.yaml").stage_configs().get(stage)
    except TransientError:
        raise
    except (UserError, OSError):
        return AlarmConfig()
    for part in (config, *vars(config).values()) if config is not None else ():
        if isinstance(found := getattr(part, "alarm", None), AlarmConfig):
            return found
    return AlarmConfig()


def _step(row: dict[str, Any]) -> StepStats:
    def figure(name: str) -> float:
        value = row.get(name)
        return float(value) if isinstance(value, int | float) else math.nan

    return StepStats(row["step"], figure("reward"), {name: figure(name) for name in row}, figure("held_out"))
