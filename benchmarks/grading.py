"""Our grading client beside its peers, in one run: `make bench-grading`, or `python -m benchmarks.grading [--quick]`.

Everything is measured here and now, ours and the peer in alternating rounds, against a canned judge in another process.
Where there are two cores, the judge has one and all that asks shares the other. Ours does its whole work: a new cache
file, answers validated, limiter, ledger and budget. autorubric runs in an environment of its own, which
`--install-peers` makes. `--quick` is for a look: its laps are so short that opening and closing files counts.

Rates are medians of the rounds, with their range; the ratio is the median of the rounds' ratios. The last columns are
of the asking process: its CPU time, and how much of its core it used. Near 100 %, it is what the rate depends on; far
below though nothing waits, something else was running, and only the ratio by CPU is worth reading.
"""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator

from benchmarks import measurements
from benchmarks.measurements import Plan
from benchmarks.peers import autorubric_python
from benchmarks.rounds import Row

_PARTS = {name: getattr(measurements, name) for name in ("calls", "images", "graders", "waiting", "memory", "hits")}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="a tenth of the calls")
    options.add_argument("--only", choices=_PARTS, action="append", metavar="PART", help=f"of {', '.join(_PARTS)}")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--autorubric", metavar="PYTHON", help="interpreter of an environment that has autorubric")
    options.add_argument("--install-peers", action="store_true", help="make that environment in the cache folder")
    arguments = options.parse_args()

    python = arguments.autorubric or autorubric_python(install=arguments.install_peers)
    plan = Plan(arguments.rounds, 0.1 if arguments.quick else 1.0, take_cores(), python)
    print(Row.HEAD, flush=True)
    for name, part in _PARTS.items():
        if not arguments.only or name in arguments.only:
            asyncio.run(_print_rows(name, part(plan)))


async def _print_rows(name: str, rows: AsyncIterator[Row]) -> None:
    """A part that fails leaves a line that says so, and the others are measured."""
    try:
        async for row in rows:
            print(row, flush=True)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        print(Row.missing(name, reason[:200]), flush=True)


def take_cores() -> int | None:
    """Keep this process and its children to one core; the judge's core is returned, if there is another."""
    if not hasattr(os, "sched_setaffinity") or len(cores := sorted(os.sched_getaffinity(0))) < 2:
        return None
    os.sched_setaffinity(0, {cores[0]})
    return cores[1]


if __name__ == "__main__":
    main()
