"""Rivals timed side by side: in alternating rounds, so that a slow minute is slow for all; and the table of it.

A lap is one round of one rival. A rival that opens something for its lap also closes it inside the time, so that work
put off until then (a cache's last writes) counts.
"""

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Self

Call = Callable[[int], Awaitable[object]]
"""Asks the question of that number; a new number is a new question."""


class Lap(NamedTuple):
    done: int
    seconds: float
    cpu_seconds: float
    """Of the process that asks, all its threads."""


@dataclass(frozen=True)
class Laps:
    """Measurements of one rival, in order."""

    laps: tuple[Lap, ...]

    @property
    def rates(self) -> list[float]:
        return [lap.done / lap.seconds for lap in self.laps]

    @property
    def rate(self) -> float:
        """Per second, the median."""
        return statistics.median(self.rates)

    @property
    def cpu_ms(self) -> float:
        """For one, the median."""
        return statistics.median(1e3 * lap.cpu_seconds / lap.done for lap in self.laps)

    @property
    def busy(self) -> float:
        """The part of the time for which the asking process had a core; close to 1, it is the bottleneck."""
        return statistics.median(lap.cpu_seconds / lap.seconds for lap in self.laps)

    def __str__(self) -> str:
        return f"{self.rate:,.0f} ({min(self.rates):,.0f}..{max(self.rates):,.0f})"


async def alternate(rivals: Mapping[str, Callable[[], Awaitable[Lap]]], rounds: int) -> dict[str, Laps]:
    """The laps of each rival, by its name."""
    laps: dict[str, list[Lap]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, lap in rivals.items():
            laps[name].append(await lap())
    return {name: Laps(tuple(of_one)) for name, of_one in laps.items()}


class Watch:
    """Measures from its making."""

    def __init__(self) -> None:
        gc.collect()
        self._cpu, self._began = time.process_time(), time.perf_counter()

    def lap(self, done: int) -> Lap:
        return Lap(done, time.perf_counter() - self._began, time.process_time() - self._cpu)


async def lap_of(
    client: AbstractAsyncContextManager[Call], numbers: Iterator[int], calls: int, *, workers: int, warm_up: int
) -> Lap:
    """Open, warm up, then time so many calls and the closing."""
    async with client as call:
        await rush(call, numbers, warm_up, workers)
        watch = Watch()
        await rush(call, numbers, calls, workers)
    return watch.lap(calls)


async def rush(call: Call, numbers: Iterator[int], calls: int, workers: int) -> None:
    """Make `calls` calls with `workers` at once."""
    left = iter([next(numbers) for _ in range(calls)])

    async def worker() -> None:
        for number in left:
            await call(number)

    await asyncio.gather(*(worker() for _ in range(workers)))


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    own: str
    peer: str = "-"
    ratio: str = "-"
    target: str = "-"
    met: str = "-"
    by_cpu: str = "-"
    cpu: str = "-"

    HEAD = (
        "| what, per second | ours | peer | ratio | target | met? | ratio by CPU | CPU ms each, busy |\n"
        "|---|---|---|---|---|---|---|---|"
    )

    def __str__(self) -> str:
        cells = (self.what, self.own, self.peer, self.ratio, self.target, self.met)
        cells += (self.by_cpu, self.cpu)
        return f"| {' | '.join(cells)} |"

    @classmethod
    def compare(cls, what: str, own: Laps, peer: Laps, target: float | None = None) -> Self:
        """The median of the rounds' ratios; without a target the line is for information."""
        ratios = [own_rate / peer_rate for own_rate, peer_rate in zip(own.rates, peer.rates, strict=True)]
        ratio = statistics.median(ratios)
        return cls(
            what,
            str(own),
            str(peer),
            f"{ratio:.3g} ({min(ratios):.3g}..{max(ratios):.3g})",
            "-" if target is None else f"≥ {target:g}",
            "-" if target is None else _met(ratio >= target),
            f"{peer.cpu_ms / own.cpu_ms:.3g}",
            f"{own.cpu_ms:.3f} {own.busy:.0%} / {peer.cpu_ms:.3f} {peer.busy:.0%}",
        )

    @classmethod
    def below(cls, what: str, value: float, unit: str, limit: float, detail: str = "") -> Self:
        """A figure that has a limit and no rival."""
        return cls(what, f"{value:.1f} {unit}{detail}", target=f"< {limit:g} {unit}", met=_met(value < limit))

    @classmethod
    def missing(cls, what: str, why: str) -> Self:
        return cls(what, f"not measured: {why}")


def _met(is_met: bool) -> str:
    return "met" if is_met else "MISSED"
