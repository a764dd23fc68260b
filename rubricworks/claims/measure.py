"""Measurement of a registration: which runs are missing, what they cost, and one after another with progress.

A finished run is stored at once, so that a command that was killed goes on where it stopped.
"""

import time
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from rubricworks.claims.inference import planned_seeds
from rubricworks.claims.registration import OWN, Registration
from rubricworks.claims.run_results import ResultFolder, RunResult, scores_by_seed
from rubricworks.errors import UserError
from rubricworks.reports.formats import counted, duration

_UNMEASURED = 100.0
"""CPU-seconds of a run of which nothing is known."""


class PlannedRun(NamedTuple):
    """A run of a seed: the recipe's own, an arm, or a behavioural policy."""

    run: str
    seed: int


Execute = Callable[[PlannedRun, Callable[[str], None]], RunResult]
"""Makes a run; is given a function to call with the name of each stage before it starts."""


def missing_runs(
    registration: Registration, results: ResultFolder, seeds: Sequence[int], digest: Callable[[str], str]
) -> list[PlannedRun]:
    """Runs without a result, seed by seed.

    Args:
        digest: run → digest of its settings today.
    Raises:
        UserError: a result is of another registration or of other settings, or damaged.
    """
    digests = {run: digest(run) for run in registration.runs}
    return [
        PlannedRun(run, seed)
        for seed in seeds
        for run in registration.runs
        if results.load(run, seed, digests[run]) is None
    ]


class Cost(NamedTuple):
    """CPU-seconds of runs, from measured ones of the same name."""

    seconds: float
    measured: int
    """Runs whose name was measured."""


def cost_of(registration: Registration, runs: Sequence[PlannedRun], results: Sequence[RunResult]) -> Cost:
    """Estimate the CPU-seconds of runs: by stored results, else by the registration's figures."""
    by_run: dict[str, list[float]] = {}
    for result in results:
        by_run.setdefault(result.run, []).append(result.cpu_seconds)
    known = {**registration.cpu_seconds, **{run: fmean(values) for run, values in by_run.items()}}
    arms = [seconds for run, seconds in known.items() if run != OWN]
    usual = fmean(arms) if arms else _UNMEASURED
    return Cost(sum(known.get(planned.run, usual) for planned in runs), sum(planned.run in known for planned in runs))


def cost_text(registration: Registration, runs: Sequence[PlannedRun], results: Sequence[RunResult]) -> str:
    cost = cost_of(registration, runs, results)
    return (
        f"{counted(len(runs), 'run')}, about {cost.seconds:,.0f} CPU-seconds ({duration(cost.seconds)} of one core), "
        f"by measured runs of {cost.measured} of them"
    )


def measure(
    registration: Registration,
    results: ResultFolder,
    seeds: int | None,
    *,
    digest: Callable[[str], str],
    execute: Execute,
    say: Callable[[str], None],
    seed_is_done: Callable[[int], None] = lambda seed: None,
) -> None:
    """Make every missing run of the first seeds, and store its result.

    A run that fails is reported, and the others go on.

    Args:
        seeds: their number; None for the registered one, or the one that the first seeds' spread fixes.
        digest: run → digest of its settings today.
        seed_is_done: called with each seed of which all runs have a result.
    Raises:
        UserError: runs failed; names the first.
    """
    failures: dict[PlannedRun, str] = {}
    start, spent = time.monotonic(), 0.0
    while True:
        stored = results.results()
        number = seeds or planned_seeds(registration, scores_by_seed(stored))
        waiting = missing_runs(registration, results, range(1, number + 1), digest)
        waiting = [planned for planned in waiting if planned not in failures]
        if not waiting:
            break
        planned = waiting[0]
        left = cost_of(registration, waiting, stored).seconds
        rate = f", {duration(left * (time.monotonic() - start) / spent)} left" if spent else ""
        place = f"seed {planned.seed}, {planned.run} ({counted(len(waiting), 'run')} to go{rate})"

        def report(stage: str, place: str = place) -> None:
            say(f"{place}: {stage}")

        try:
            result = execute(planned, report)
        except Exception as error:  # hours of other runs must not end with it
            kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
            failures[planned] = kind + " ".join(str(error).split())
            say(f"{place}: failed: {failures[planned]}")
            continue
        results.save(result)
        spent += result.cpu_seconds
        say(f"{place}: done in {result.cpu_seconds:.0f} CPU-seconds")
        if all(results.path(run, planned.seed).is_file() for run in registration.runs):
            seed_is_done(planned.seed)
    if failures:
        (run, seed), reason = next(iter(failures.items()))
        raise UserError(
            f"{counted(len(failures), 'run')} failed, first seed {seed}, {run}: {reason}; mend it and give the same "
            "command again: results are kept"
        )
