"""The process in which Math-Verify and SymPy work: hostile formulas can hang it, fill it or crash it, and nothing else.

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

_MEMORY = 1 << 30
_PATIENCE = 5.0
"""Seconds between looks at whether the program that asks still lives."""
_TARGETS = 1000
"""Targets kept read."""


def main() -> None:
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from rubricworks.verifiers.expression import sympy_answers

    sympy_answers.warm_up()
    _say("ready")
    deaths = 0
    while deaths < 100:
        ends, alive = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ends)
            _answer_questions(sympy_answers)
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


def _answer_questions(sympy_answers: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    targets: OrderedDict[str, list[Any]] = OrderedDict()
    for line in iter(_line, b""):
        question = json.loads(line)
        number = question["number"]
        signal.setitimer(signal.ITIMER_PROF, question["seconds"])
        _say(f"took {number}")
        try:
            answer = _answer(sympy_answers, question, targets)
        except MemoryError:
            os._exit(1)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _say(f"answer {number} {answer}")


def _answer(sympy_answers: Any, question: dict[str, Any], targets: OrderedDict[str, list[Any]]) -> str:
    target, predict = question["target"], question["predict"]
    wanted = targets.pop(target, None)
    if wanted is None:
        wanted = _read(sympy_answers, target)
        while len(targets) >= _TARGETS:
            targets.popitem(last=False)
    targets[target] = wanted
    if not wanted:
        return "target"
    _say(f"target {question['number']}")
    found = _read(sympy_answers, predict)
    if not found:
        return "answer"
    _say(f"both {question['number']}")
    try:
        equal = any(sympy_answers.equivalent(a, b) for a in wanted for b in found)
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception:  # SymPy raises many kinds on odd input; not shown to be equal
        equal = False
    return "yes" if equal else "no"


def _read(sympy_answers: Any, text: str) -> list[Any]:
    try:
        values = sympy_answers.read(text)
        for value in values:
            sympy_answers.evaluate(value)
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception:  # as above: what cannot be read, whatever the reason
        return []
    return [value for value in values if not sympy_answers.is_nothing(value)]


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
