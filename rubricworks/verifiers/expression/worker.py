"""The process in which SymPy works: hostile formulas can hang it, fill it or crash it, and nothing else.

Two processes, one line of JSON per question on standard input. The first imports SymPy once, and forks a second, which
answers; one that dies is replaced in milliseconds, without importing again. Nothing here runs threads, so the fork is
safe; the program that asks is never forked, it starts this module afresh.

Time is that of the processor, so that other programs' work makes nothing late: when it is spent, the kernel ends the
second process by an alarm, even in the middle of one long multiplication. Memory: by a limit on its address space. Both
processes end when standard input closes, that is when the program that asked is gone; an alarm is always set while
there is work.

Lines on standard output: `ready`; `took N` (question N is being worked on), `target N` and `both N` (its target, and
its answer too, could be read), `answer N yes|no|target|answer` (equal, different, or which side cannot be read),
`died spent` and `died killed` (the second process did, by its own doing or by another's).
"""

import contextlib
import json
import os
import resource
import select
import signal
from collections import OrderedDict
from typing import Any

from rubricworks.verifiers.expression.equality import same
from rubricworks.verifiers.expression.reading import read_answer
from rubricworks.verifiers.expression.tokens import TooHard
from rubricworks.verifiers.expression.values import with_trees

_MEMORY = 1 << 30
_PATIENCE = 5.0
"""Seconds between looks at whether the program that asks still lives."""
_TARGETS = 1000
"""Targets kept read."""


def main() -> None:
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from rubricworks.verifiers.expression import calculus

    calculus.warm_up()
    _say("ready")
    deaths = 0
    while deaths < 100:
        ends, alive = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ends)
            _answer_questions(calculus)
            os._exit(0)
        os.close(alive)
        while not select.select([ends], [], [], _PATIENCE)[0]:
            if os.getppid() != parent:
                os.kill(child, signal.SIGKILL)
        os.close(ends)
        _, status = os.waitpid(child, 0)
        if status == 0 or os.getppid() != parent:
            return
        deaths = deaths + 1 if os.WIFEXITED(status) else 0
        is_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGTERM)
        _say("died killed" if is_killed else "died spent")


def _answer_questions(calculus: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    targets: OrderedDict[str, Any] = OrderedDict()
    for line in iter(_line, b""):
        question = json.loads(line)
        number = question["number"]
        signal.setitimer(signal.ITIMER_PROF, question["seconds"])
        _say(f"took {number}")
        try:
            answer = _answer(calculus, question, targets)
        except MemoryError:
            os._exit(1)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _say(f"answer {number} {answer}")


def _answer(calculus: Any, question: dict[str, Any], targets: OrderedDict[str, Any]) -> str:
    target, predict = question["target"], question["predict"]
    wanted = targets.pop(target, None)
    if wanted is None:
        wanted = _read(calculus, target)
        while len(targets) >= _TARGETS:
            targets.popitem(last=False)
    targets[target] = wanted
    if wanted is None:
        return "target"
    _say(f"target {question['number']}")
    answer = _read(calculus, predict)
    if answer is None:
        return "answer"
    _say(f"both {question['number']}")
    return "yes" if same(wanted, answer) else "no"


def _read(calculus: Any, text: str) -> Any:
    """The answer with closed values in it."""
    try:
        answer = read_answer(text)
    except TooHard:
        return None
    return answer and with_trees(answer, calculus.closed)


def _line() -> bytes:
    """One line, byte by byte from the pipe: a buffer would be lost with this process."""
    parts: list[bytes] = []
    while True:
        part = os.read(0, 65536)
        parts.append(part)
        if not part or part.endswith(b"\n"):  # one question at a time: nothing stands behind its line
            return b"".join(parts) if part else b""


def _say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


if __name__ == "__main__":
    main()
