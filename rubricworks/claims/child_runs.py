"""Runs in processes of their own, a few at a time, each made as a user makes it: `rubricworks run`.

What is finished is not run again, what was interrupted goes on, and an arm waits until the run that it shares its work
with is finished. `NAME.log` beside a run's folder holds what it said.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rubricworks.claims.planned_runs import PlannedRun
from rubricworks.claims.run_progress import last_words, stage_now, state_line, time_left
from rubricworks.errors import UserError
from rubricworks.reports.formats import duration

COMMAND = (sys.executable, "-m", "rubricworks.cli")
_FAREWELLS = ((signal.SIGINT, 12.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 2.0))
"""A run is asked to stop, which takes up to ten seconds, before it is made to; its guard then ends its stage."""
_NAMED = 6
"""So many runs are named; more are counted."""


class Child(NamedTuple):
    """A run in its own process."""

    run: PlannedRun
    process: subprocess.Popen[bytes]
    start: float


def make_runs(
    runs: Sequence[PlannedRun],
    *,
    at_once: int = 2,
    say: Callable[[str], None],
    command: Sequence[str] = (),
    every: float = 30.0,
) -> None:
    """Make every run that is not finished. An exception (Ctrl-C, SIGTERM) ends the runs, which can go on later.

    Args:
        runs: in the order in which they are started, those that have nothing to wait for first.
        say: called with lines of progress.
        command: how `rubricworks` is called; by default as a module of this Python.
        every: seconds between two lines on the same stage.
    Raises:
        UserError: a run failed; those beside it are run to their end, and no more are started.
        ValueError: a run waits for one that is neither finished nor among them.
    """
    waiting = [run for run in runs if not run.is_finished]
    to_come = {run.folder for run in waiting}
    if lost := [run for run in waiting if run.after and run.after not in to_come and not run.finished(run.after)]:
        raise ValueError(f"{lost[0].called} waits for {lost[0].after}, which nobody makes")
    if done := [run.called for run in runs if run.folder not in to_come]:
        say(f"{_together(done)}: finished in an earlier call")
    failed: list[str] = []
    running: list[Child] = []
    shown: dict[Path, tuple[str, float]] = {}
    with _ending(running):
        while running or (waiting and not failed):
            while not failed and len(running) < at_once and (run := _next(waiting, running)):
                waiting.remove(run)
                running.append(_start(run, command or COMMAND))
                say(f"{run.called}: started, log in {run.log}")
            time.sleep(0.2)
            for child in list(running):
                if child.process.poll() is not None:
                    running.remove(child)
                    failed += _end(child, say)
                    continue
                run, now, stage = child.run, time.monotonic(), stage_now(child.run.folder)
                before, at = shown.get(run.folder, ("starting", child.start))
                if stage != before or now - at >= every:
                    shown[run.folder] = (stage, now)
                    so_far = duration(now - child.start)
                    say(f"{run.called}: {so_far}{time_left(run, runs)}: {state_line(run)}")
    if failed:
        raise UserError("; ".join(failed) + "; mend it and give the same command again: what is done is kept")


def _next(waiting: Sequence[PlannedRun], running: Sequence[Child]) -> PlannedRun | None:
    """The first that has nothing to wait for."""
    busy = {child.run.folder for child in running}
    return next(
        (run for run in waiting if run.after is None or (run.after not in busy and run.finished(run.after))), None
    )


def _start(run: PlannedRun, command: Sequence[str]) -> Child:
    try:
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        with run.log.open("ab") as log:
            process = subprocess.Popen(
                [*command, *run.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Several trainings share the cores, and threads that wait for each other are slower than one.
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # a Ctrl-C reaches it once, from us
            )
    except OSError as error:
        raise UserError(f"{run.folder.parent} cannot be written: {error.strerror}; give another with --runs") from error
    return Child(run, process, time.monotonic())


def _end(child: Child, say: Callable[[str], None]) -> list[str]:
    """Why the run failed, if it did."""
    run, code = child.run, child.process.returncode
    if run.is_finished:
        after = f", though it ended with exit code {code} after what the claims read ({run.log})" if code else ""
        say(f"{run.called}: done in {duration(time.monotonic() - child.start)}{after}")
        return []
    said = last_words(run.log).removeprefix("error: ")
    say(f"{run.called}: failed: {said}")
    return [f"{run.called} failed: {said} (log: {run.log})"]


@contextmanager
def _ending(running: list[Child]) -> Iterator[None]:
    """End the children when the block is left early, by Ctrl-C, by a signal, or because the terminal was closed."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        # An impatient second Ctrl-C must not leave runs behind.
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
        _stop([child.process for child in running])
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for farewell, seconds in _FAREWELLS:
        deadline = time.monotonic() + seconds
        for process in processes:
            if process.poll() is None:
                process.send_signal(farewell)
        while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
            time.sleep(0.05)


def _together(called: Sequence[str]) -> str:
    """`seeds 1, 2`; more than a few runs are counted."""
    if len(called) > _NAMED:
        return f"{len(called)} runs"
    if len(called) > 1 and all(name.removeprefix("seed ").isdecimal() for name in called):
        return f"seeds {', '.join(name.removeprefix('seed ') for name in called)}"
    return "; ".join(called)
