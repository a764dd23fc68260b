"""Runs the tests in several processes, forked from one that has collected them: `pytest --workers 4`.

Collecting imports torch, Transformers and the library, which takes longer than most tests; pytest-xdist does it once in
each worker. A worker takes a whole file at a time, so that a module's fixtures are made once; files with slow tests
come first. A worker that dies fails the test that it was running, and another takes its place. Linux only: elsewhere
the system's own libraries do not survive a fork.
"""

import atexit
import multiprocessing
import os
import pickle
import signal
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest
import warm_programs
from _pytest.config import create_terminal_writer

_FORK = multiprocessing.get_context("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, metavar="N", help="run the tests in N forked processes")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("workers") and not config.getoption("usepdb"):
        config.pluginmanager.register(_ForkedLoop(config), "forked_loop")


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    running: str | None = None
    """Test that it has begun and not ended."""
    files: deque[list[int]] = field(default_factory=deque)
    """Places of the tests of the files that it was given and has not ended."""


class _ForkedLoop:
    """Replaces pytest's loop over the tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.pipes: list[Connection] = []
        """This process's ends, one for each worker that was started."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly or not session.items:
            return None  # pytest's own loop says so
        self.session = session
        self.places = {item.nodeid: place for place, item in enumerate(session.items)}
        self.files = deque(sorted(_files(session.items), key=lambda file: not _has_slow(session.items, file)))
        # Workers write below one folder, which this process removes at the end.
        self.temporary = self.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        programs = warm_programs.serve(self.temporary / "programs")
        workers = [self._fork() for _ in range(min(self.config.getoption("workers"), len(self.files)))]
        try:
            while workers:
                for pipe in wait([worker.pipe for worker in workers]):
                    worker = next(worker for worker in workers if worker.pipe is pipe)
                    try:
                        event = worker.pipe.recv()
                    except (EOFError, ConnectionResetError):
                        event = None
                    if event:
                        self._hear(worker, *event)
                    else:
                        workers.remove(worker)
                        workers += self._replace(worker)
                    if session.shouldfail:
                        raise session.Failed(session.shouldfail)
                    if session.shouldstop:
                        raise session.Interrupted(session.shouldstop)
        finally:
            for worker in workers:
                worker.process.kill()
            os.kill(programs, signal.SIGTERM)
            os.waitpid(programs, 0)
        return True

    def _fork(self) -> _Worker:
        ours, theirs = _FORK.Pipe()
        self.pipes.append(ours)
        process = _FORK.Process(target=self._work, args=(theirs, len(self.pipes)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # native libraries have threads, and mend themselves after a fork
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def _hear(self, worker: _Worker, event: str, content: Any) -> None:
        hook = self.config.hook
        if event == "next":
            file = self.files.popleft() if self.files else []
            if file:
                worker.files.append(file)
            worker.pipe.send(file)
        elif event == "start":
            worker.running = content[0]
            hook.pytest_runtest_logstart(nodeid=content[0], location=content[1])
        elif event == "finish":
            worker.running = None
            _remove(worker.files, self.places[content[0]])
            hook.pytest_runtest_logfinish(nodeid=content[0], location=content[1])
        elif event == "report":
            report = hook.pytest_report_from_serializable(config=self.config, data=content)
            report.worker = worker.process.pid
            hook.pytest_runtest_logreport(report=report)
        else:
            message, category, filename, lineno, when, nodeid, location = content
            warning = warnings.WarningMessage(message, category, filename, lineno)
            hook.pytest_warning_recorded.call_historic(
                kwargs={"warning_message": warning, "when": when, "nodeid": nodeid, "location": location}
            )

    def _replace(self, worker: _Worker) -> Iterator[_Worker]:
        """Fail the test that a dead worker was running, and give the rest of its files to another."""
        worker.process.join()
        if worker.running is not None:
            item = self.session.items[self.places[worker.running]]
            end = worker.process.exitcode
            words = f"signal {signal.Signals(-end).name}" if end < 0 else f"exit code {end}"
            report = pytest.TestReport(
                item.nodeid, item.location, {}, "failed", f"the process ended with {words} during this test", "call"
            )
            self.config.hook.pytest_runtest_logreport(report=report)
            _remove(worker.files, self.places[worker.running])
        self.files.extendleft(file for file in worker.files if file)
        if self.files:
            yield self._fork()

    def _work(self, pipe: Connection, number: int) -> None:
        """Run files until there are no more, in a forked process."""
        atexit._clear()
        for other in self.pipes:  # so that a worker hears of the end of the process that collected the tests
            other.close()
        config = self.config
        factory = config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = self.temporary / f"worker-{number}"
        factory._basetemp.mkdir(mode=0o700)
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        reporter._tw = create_terminal_writer(config, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        config.pluginmanager.register(_Reporter(config, pipe))
        if capture := config.pluginmanager.get_plugin("capturemanager"):
            capture.stop_global_capturing()  # the files that it captures to are the other processes', too
            capture.start_global_capturing()
        todo: deque[int] = deque()
        ended = False
        while True:
            if len(todo) < 2 and not ended:  # the next test decides which fixtures end
                pipe.send(("next", None))
                todo += (file := pipe.recv())
                ended = not file
                continue
            if not todo:
                break
            item = self.session.items[todo.popleft()]
            following = self.session.items[todo[0]] if todo else None
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        pipe.close()
        atexit._run_exitfuncs()  # multiprocessing ends its processes without
        os._exit(0)


class _Reporter:
    """Sends a worker's reports to the process that collected the tests."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self.config, self.pipe = config, pipe

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self.pipe.send(("start", (nodeid, location)))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self.pipe.send(("finish", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.pipe.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        message, category = warning_message.message, warning_message.category
        try:
            pickle.dumps((message, category))
        except Exception:  # a class that is local to a function, or one of many arguments
            message, category = UserWarning(str(message)), UserWarning
        content = (message, category, warning_message.filename, warning_message.lineno, when, nodeid, location)
        self.pipe.send(("warning", content))


def _files(items: list[pytest.Item]) -> list[list[int]]:
    """Places of the tests, file by file."""
    places = enumerate(items)
    return [[place for place, _ in file] for _, file in groupby(places, lambda place: place[1].nodeid.split("::")[0])]


def _has_slow(items: list[pytest.Item], file: list[int]) -> bool:
    return any(items[place].get_closest_marker("slow") for place in file)


def _remove(files: deque[list[int]], place: int) -> None:
    for file in files:
        if place in file:
            file.remove(place)
