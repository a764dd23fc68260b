"""Planned runs as child processes `rubricworks run`, a few at a time.

A finished run is not run again, an interrupted one is resumed, and an arm waits until the run whose stages it reuses is
finished. `NAME.log` beside a run's folder holds its output.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from rubricworks.claims.planned_runs import PlannedRun
from rubricworks.data.ledger import read_ledger
from rubricworks.errors import UserError
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.reports.formats import duration
from rubricworks.runtime.stage_table import NOT_REUSABLE

COMMAND = (sys.executable, "-m", "rubricworks.cli")
_STOP_SIGNALS = ((signal.SIGINT, 12.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 2.0))
"""Signals, each with seconds to wait. A run takes up to ten to stop; if it is killed, its guard ends its stage."""
_TAIL = 4096
_WIDTH = 80
_MOST_LABELS = 6
"""Runs that a line names; more are counted."""


class Child(NamedTuple):
    """A run in progress."""

    run: PlannedRun
    process: subprocess.Popen[bytes]
    start: float


def make_runs(
    runs: Sequence[PlannedRun],
    *,
    at_once: int = 2,
    say: Callable[[str], None],
    command: Sequence[str] = (),
    interval: float = 30.0,
) -> None:
    """Make every run that is not finished. An exception (Ctrl-C, SIGTERM) stops the runs, which can be resumed later.

    Args:
        runs: in the order in which they are started; those that wait for no other come first.
        say: called with lines of progress.
        command: program and first arguments of `rubricworks`; by default a module of this Python.
        interval: seconds between two lines on the same stage.
    Raises:
        UserError: a run failed; those in progress are finished, and no more are started.
        ValueError: a run waits for one that is neither finished nor among them.
    """
    waiting = [run for run in runs if not run.is_finished]
    pending = {run.folder for run in waiting}
    for run in waiting:
        if run.base_run and run.base_run not in pending and not run.folder_is_finished(run.base_run):
            raise ValueError(f"{run.label} waits for {run.base_run}, which nobody makes")
    if labels := [run.label for run in runs if run.folder not in pending]:
        say(f"{_label_list(labels)}: finished in an earlier call")
    failures: list[str] = []
    running: list[Child] = []
    last_report: dict[Path, tuple[str, float]] = {}
    """Folder → stage and time of the last line on it."""
    with _stop_on_exit(running):
        while running or (waiting and not failures):
            while not failures and len(running) < at_once and (ready := _next_run(waiting, running)):
                waiting.remove(ready)
                running.append(_start(ready, command or COMMAND))
                say(f"{ready.label}: started, log in {ready.log}")
            time.sleep(0.2)
            for child in list(running):
                if child.process.poll() is not None:
                    running.remove(child)
                    failures += _report_end(child, say)
                    continue
                run, now, stage = child.run, time.monotonic(), current_stage(child.run.folder)
                previous, at = last_report.get(run.folder, ("starting", child.start))
                if stage != previous or now - at >= interval:
                    last_report[run.folder] = (stage, now)
                    elapsed = duration(now - child.start)
                    say(f"{run.label}: {elapsed}{time_left(run, runs)}: {progress_line(run)}")
    if failures:
        raise UserError("; ".join(failures) + "; mend it and give the same command again: what is done is kept")


def _next_run(waiting: Sequence[PlannedRun], running: Sequence[Child]) -> PlannedRun | None:
    """The first run whose base run is finished, or that has none."""
    busy = {child.run.folder for child in running}
    return next(
        (
            run
            for run in waiting
            if run.base_run is None or (run.base_run not in busy and run.folder_is_finished(run.base_run))
        ),
        None,
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
                start_new_session=True,  # so that a Ctrl-C reaches it once, from this process
            )
    except OSError as error:
        raise UserError(f"{run.folder.parent} cannot be written: {error.strerror}; give another with --runs") from error
    return Child(run, process, time.monotonic())


def _report_end(child: Child, say: Callable[[str], None]) -> list[str]:
    """Report the end of a run; return the failure, if it failed."""
    run, code = child.run, child.process.returncode
    if run.is_finished:
        after = f", though it ended with exit code {code} after what the claims read ({run.log})" if code else ""
        say(f"{run.label}: done in {duration(time.monotonic() - child.start)}{after}")
        return []
    reason = last_line(run.log).removeprefix("error: ")
    say(f"{run.label}: failed: {reason}")
    return [f"{run.label} failed: {reason} (log: {run.log})"]


@contextmanager
def _stop_on_exit(running: list[Child]) -> Iterator[None]:
    """Stop the children when the block is left early: by Ctrl-C, a signal, or the end of the terminal."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        # An impatient second Ctrl-C must not leave runs behind.
        handlers[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
        _stop([child.process for child in running])
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for stop_signal, seconds in _STOP_SIGNALS:
        deadline = time.monotonic() + seconds
        for process in processes:
            if process.poll() is None:
                process.send_signal(stop_signal)
        while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
            time.sleep(0.05)


def _label_list(labels: Sequence[str]) -> str:
    """The labels in one phrase, such as `seeds 1, 2`; more than a few runs are counted."""
    if len(labels) > _MOST_LABELS:
        return f"{len(labels)} runs"
    if len(labels) > 1 and all(label.removeprefix("seed ").isdecimal() for label in labels):
        return f"seeds {', '.join(label.removeprefix('seed ') for label in labels)}"
    return "; ".join(labels)


def current_stage(run: Path) -> str:
    """The stage that wrote to its log last."""
    logs = [path for path in (run / "logs").glob("*.log") if path.stem != "kfp"]
    return max(logs, key=lambda path: path.stat().st_mtime_ns).stem if logs else "starting"


def progress_line(run: PlannedRun) -> str:
    """The current stage, the number of finished ones, and the run's last line."""
    stage, done = current_stage(run.folder), len(list(run.folder.glob("*/done.json")))
    line = last_line(run.log)
    message = line.partition("|")[2].strip() if line.startswith(stage) else ""
    stages = _count_stages(run.recipe, run.arm)
    return f"{stage} ({done} of {stages} stages done)" + (f" {message[:_WIDTH]}" if message else "")


def last_line(log: Path) -> str:
    """The last line of a log that is not blank."""
    if not log.is_file():
        return "it said nothing"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def time_left(run: PlannedRun, runs: Sequence[PlannedRun]) -> str:
    """Estimate of the time left, from the stages of finished runs of the same kind; empty before one is finished.

    All arms are of one kind: they share what is long before the training.
    """
    done = _stage_seconds(run.folder)
    others = [other for other in runs if other.folder != run.folder and other.is_finished]
    same_kind = [other for other in others if (other.arm is None) == (run.arm is None)]
    times = [seconds for other in same_kind if (seconds := _stage_seconds(other.folder))]
    if not times:
        return ""
    rest = mean(sum(took for stage, took in seconds.items() if stage not in done) for seconds in times)
    return f", about {duration(rest)} left"


def _stage_seconds(run: Path) -> dict[str, float]:
    """Stage → seconds that it took, for each finished stage."""
    return {str(entry["stage"]): float(entry.get("seconds") or 0) for entry in read_ledger(run)}


@cache
def _count_stages(recipe: str, arm: str | None) -> int:
    stages = load_recipe(recipe_path(recipe)).stage_configs().keys()
    return len(stages if arm is None else stages - NOT_REUSABLE)
