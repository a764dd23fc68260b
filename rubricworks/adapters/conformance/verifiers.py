"""verifiers under the cases: whole rollouts by its `Agent`, with a harness that asks no model.

verifiers computes no advantages: it gives each rollout a `reward` and `ok`, and a trainer such as prime-rl compares
those that are ok. So do these advantages: the reward less the mean of the group's rollouts that are ok. A reward that
times out runs into verifiers' own deadline of scoring. Written against verifiers 0.4.
"""

import asyncio
import logging
import statistics
from collections.abc import Sequence
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.rollout import Rollout
from verifiers.v1.trace import Trace

from rubricworks.adapters.conformance.cases import Batch, Cell, Failure, number
from rubricworks.adapters.conformance.findings import Outcome, line_of

_DEADLINE_S = 0.2


class _CaseData(vf.TaskData):  # type: ignore[misc, unused-ignore]
    cells: tuple[Cell, ...] = ()


class _OneReward(vf.Task[_CaseData]):  # type: ignore[misc, unused-ignore]
    @vf.reward  # type: ignore[untyped-decorator, unused-ignore]
    async def first(self, trace: Any) -> float | None:
        return await _reward(self.data.cells[0])


class _TwoRewards(_OneReward):
    @vf.reward  # type: ignore[untyped-decorator, unused-ignore]
    async def second(self, trace: Any) -> float | None:
        return await _reward(self.data.cells[1])


class _SilentHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc, unused-ignore]
    """Ends without a word, so that only scoring is left of a rollout."""

    NEEDS_CONTAINER = False
    EXECUTES_CODE = False

    async def launch(self, *arguments: Any, **options: Any) -> Any:
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class VerifiersRollouts:
    """Rewards that verifiers gives to a batch, compared within the group."""

    package = "verifiers"
    left_out = Outcome.MARKED

    def advantages(self, batch: Batch) -> Sequence[float]:
        """Run a rollout per row, and compare the rewards of those that are ok."""
        if batch.aggregation == "decoupled":
            raise NotImplementedError("verifiers sums a rollout's rewards; a trainer normalises")
        logging.getLogger("verifiers").setLevel(logging.CRITICAL)
        traces = asyncio.run(_rollouts(batch))
        advantages: list[float] = []
        for start in range(0, len(traces), batch.group_size):
            group = traces[start : start + batch.group_size]
            compared = [trace.reward for trace in group if trace.ok]
            mean = statistics.fmean(compared) if compared else 0.0
            advantages += [trace.reward - mean if trace.ok else 0.0 for trace in group]
        return advantages

    def line(self, batch: Batch) -> str:
        """Line that sums the rewards, or that says that a rollout is ok."""
        cells = {cell for row in batch.rewards_NK for cell in row if isinstance(cell, Failure)}
        if Failure.NAN in cells:
            return line_of(Trace.reward.fget, "sum(")
        return line_of(Rollout.close, 'self.timeout("scoring")' if Failure.TIMEOUT in cells else "trace.ok =")


async def _rollouts(batch: Batch) -> list[Any]:
    timeout = vf.AgentConfig().timeout.model_copy(update={"scoring": _DEADLINE_S})
    agent = vf.Agent(vf.AgentConfig(model="none", runtime=vf.SubprocessConfig(), timeout=timeout))
    agent.harness = _SilentHarness(agent.harness.config)
    async with agent:
        tasks = [
            (_TwoRewards if len(row) > 1 else _OneReward)(_CaseData(idx=at, prompt="Describe it.", cells=row))
            for at, row in enumerate(batch.rewards_NK)
        ]
        return [await agent.run(task) for task in tasks]


async def _reward(cell: Cell) -> float | None:
    if cell is Failure.TIMEOUT:
        await asyncio.sleep(100 * _DEADLINE_S)
    return number(cell)
