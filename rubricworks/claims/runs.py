"""One run for each seed, made as a user makes it: `rubricworks run rlr3-laptop`, a few at a time.

All arms of a seed are in one run, so they share its world, its warm-up and its kept answers. What is finished is not
run again, what was interrupted goes on; `seed-N.log` beside a run's folder holds what it said.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rubricworks.claims.rlr3_folder import RECIPE, is_finished
from rubricworks.claims.run_progress import last_words, stage_now, state_line, time_left
from rubricworks.errors import UserError
from rubricworks.reports.formats import duration

COMMAND = (sys.executable, "-m", "rubricworks.cli")
_FAREWELLS = ((signal.SIGINT, 12.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 2.0))
"""A run is asked to stop, which takes up to ten seconds, before it is made to; its guard then ends its stage."""


class Child(NamedTuple):
    """A run in its own process."""

    seed: int
    folder: Path
    process: subprocess.Popen[bytes]
    start: float


def run_folders(runs: Path, seeds: Sequence[int]) -> dict[int, Path]:
    """Seed → the folder of its run."""
    return {seed: runs / f"seed-{seed}" for seed in seeds}


def run_seeds(
    folders: Mapping[int, Path],
    overrides: Sequence[str],
    *,
    at_once: int = 2,
    say: Callable[[str], None],
    command: Sequence[str] = COMMAND,
    every: float = 30.0,
) -> None:
    """Run every seed that is not finished. An exception (Ctrl-C, SIGTERM) ends the runs, which can go on later.

    Args:
        folders: from `run_folders`.
        overrides: `a.b=c` each.
        say: called with lines of progress.
        command: how `rubricworks` is called.
        every: seconds between two lines on the same stage.
    Raises:
        UserError: a run failed; those beside it are run to their end, and no more are started.
    """
    waiting = [seed for seed, folder in folders.items() if not is_finished(folder)]
    done = [seed for seed in folders if seed not in waiting]
    if done:
        say(f"{_seeds(done)}: finished in an earlier call")
    failed: list[str] = []
    running: list[Child] = []
    shown: dict[int, tuple[str, float]] = {}
    with _ending(running):
        while running or (waiting and not failed):
            while waiting and not failed and len(running) < at_once:
                running.append(_start(waiting.pop(0), folders, overrides, command))
                say(f"seed {running[-1].seed}: started, log in {_log(running[-1].folder)}")
            time.sleep(0.2)
            for child in list(running):
                if child.process.poll() is not None:
                    running.remove(child)
                    failed += _end(child, say)
                    continue
                now, stage = time.monotonic(), stage_now(child.folder)
                before, at = shown.get(child.seed, ("starting", child.start))
                if stage != before or now - at >= every:
                    shown[child.seed] = (stage, now)
                    line = state_line(child.folder, _log(child.folder))
                    so_far = duration(now - child.start)
                    say(f"seed {child.seed}: {so_far}{time_left(child.folder, folders)}: {line}")
    if failed:
        raise UserError("; ".join(failed) + "; mend it and give the same command again: what is done is kept")


def run_arguments(seed: int, folder: Path, overrides: Sequence[str]) -> list[str]:
    """What follows `rubricworks` for one seed: a new run, or the rest of one that was stopped."""
    if (folder / "recipe.yaml").is_file():
        return ["run", "--runs", str(folder.parent), "--resume", folder.name]
    changes = [word for one in (*overrides, f"seed={seed}") for word in ("--set", one)]
    return ["run", RECIPE, "--runs", str(folder.parent), "--run", folder.name, *changes]


def _start(seed: int, folders: Mapping[int, Path], overrides: Sequence[str], command: Sequence[str]) -> Child:
    folder = folders[seed]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _log(folder).open("ab") as log:
            process = subprocess.Popen(
                [*command, *run_arguments(seed, folder, overrides)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Several trainings share the cores, and threads that wait for each other are slower than one.
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # a Ctrl-C reaches it once, from us
            )
    except OSError as error:
        raise UserError(f"{folder.parent} cannot be written: {error.strerror}; give another with --runs") from error
    return Child(seed, folder, process, time.monotonic())


def _end(child: Child, say: Callable[[str], None]) -> list[str]:
    """Why the run failed, if it did."""
    code, log = child.process.returncode, _log(child.folder)
    if is_finished(child.folder):
        after = f", though it ended with exit code {code} after what the claims read ({log})" if code else ""
        say(f"seed {child.seed}: done in {duration(time.monotonic() - child.start)}{after}")
        return []
    said = last_words(log).removeprefix("error: ")
    say(f"seed {child.seed}: failed: {said}")
    return [f"seed {child.seed} failed: {said} (log: {log})"]


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


def _log(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
