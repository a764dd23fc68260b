"""The worker process: hostile formulas cost their time limit and nothing else, from any thread, and it ends with us."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from rubricworks.verifiers import CannotVerify, expr_verify

INTEGRAL = r"\int_0^1 x\,dx"
"""A target for the worker: exact arithmetic leaves integrals."""
ASK = f"from rubricworks.verifiers import expr_verify; expr_verify('1', target=r'{INTEGRAL}')"
HOSTILE = [
    "9^9^9^9^9", "9^{9^{9^{9}}}", "10!!!!", "(10^6)!", r"2^{10^{10}}", r"\binom{10^9}{10^8}", r"\tan(10^{10^{10}})",
    r"\sum_{k=1}^{10^{12}} \frac{1}{k^2}", "(" * 5000, r"\sqrt{" * 500 + "2" + "}" * 500, "x" * 10_000,
    ",".join("1" * 5000), "1/" * 3000 + "1", r"\sin " * 300 + "x", "$" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("answer", HOSTILE, ids=lambda text: text[:15])
def test_a_hostile_answer_scores_nothing_and_the_next_one_is_served(answer):
    assert expr_verify(answer, target="5", timeout=0.3) == 0
    assert expr_verify(answer, target=INTEGRAL, timeout=0.3) == 0
    assert expr_verify("0.5", target=INTEGRAL) == 1


@pytest.mark.parametrize(
    "target", ["9^9^9^9^9", "10!!!!", "(10^6)!", r"\sum_{k=1}^{10^{12}} \frac{1}{k^2}", "(" * 5000]
)
def test_a_hostile_target_cannot_be_verified(target):
    with pytest.raises(CannotVerify):
        expr_verify("5", target=target, timeout=0.3)


def test_code_in_an_answer_is_never_run(tmp_path):
    witness = tmp_path / "witness"
    for code in (f"__import__('os').system('touch {witness}')", f"$open('{witness}','w')$", f"[open('{witness}','w')]"):
        assert expr_verify(code, target="5") == expr_verify(code, target=INTEGRAL) == 0
    assert not witness.exists()


def test_many_threads_ask_at_once_and_each_gets_its_own_answer():
    def ask(n: int) -> float:
        if n % 10 == 5:
            return expr_verify("(10^6)!" + " " * n, target=INTEGRAL, timeout=0.3)
        return expr_verify(rf"\int_0^{n} 2x\,dx", target=rf"\int_0^{n + n % 2} 2x\,dx")

    with ThreadPoolExecutor(8) as pool:
        scores = list(pool.map(ask, range(40)))
    assert scores == [0 if n % 10 == 5 else float(n % 2 == 0) for n in range(40)]


def test_a_running_event_loop_is_no_obstacle():
    async def ask() -> list[float]:
        here = expr_verify(r"\frac{1}{2}", target=r"\int_0^1 x\,dx ")
        elsewhere = [asyncio.to_thread(expr_verify, "1/2", target=INTEGRAL + " " * n) for n in range(4)]
        return [here, *await asyncio.gather(*elsewhere)]

    assert asyncio.run(ask()) == [1] * 5


def test_a_worker_that_is_killed_from_outside_is_replaced():
    assert expr_verify("0.5 ", target=INTEGRAL) == 1
    for which in (slice(None), slice(0, 1), slice(1, 2)):  # both processes, the first, the second
        killed = children()[which]
        for process in reversed(killed):
            process.kill()
        psutil.wait_procs(killed, timeout=5)
        assert (
            expr_verify("0.50" + "0" * (which.start or 0), target=f"{INTEGRAL} +{which.stop or 0} -{which.stop or 0}")
            == 1
        )


def test_a_forked_child_has_a_worker_of_its_own_and_leaves_ours_alone():
    assert expr_verify("0.5  ", target=INTEGRAL) == 1
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os._exit(0 if expr_verify("0.5   ", target=INTEGRAL) == 1 else 1)
        os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert expr_verify("0.5    ", target=INTEGRAL) == 1


def test_the_worker_sees_no_secrets_of_the_environment():
    program = (
        "import os; from rubricworks.verifiers import expr_verify; expr_verify('1', target=r'\\int_0^1 x dx'); input()"
    )
    with running(program, {**os.environ, "OPENAI_API_KEY": "secret"}) as (_, workers):
        assert all("OPENAI_API_KEY" not in worker.environ() for worker in workers)


@pytest.mark.parametrize("ends_by", ["exit", "kill", "kill while the worker is busy"])
def test_the_worker_ends_with_the_program(ends_by):
    last = "expr_verify('(10^6)!', target='5', timeout=3)" if ends_by.endswith("busy") else "input()"
    with running(f"{ASK}; {last}", dict(os.environ)) as (process, workers):
        if ends_by == "exit":
            process.communicate(b"\n")
        else:
            process.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(workers, timeout=30)
        assert alive == []


def children() -> list[psutil.Process]:
    """The worker processes of this program."""
    return [
        child for child in psutil.Process().children(recursive=True) if "expression.worker" in " ".join(child.cmdline())
    ]


@contextlib.contextmanager
def running(program: str, environment: dict[str, str]):
    """A program that has a worker, and its worker processes."""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, env=environment) as process:
        try:
            workers: list[psutil.Process] = []
            deadline = time.monotonic() + 60
            while len(workers) < 2 and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.05)
                workers = psutil.Process(process.pid).children(recursive=True)
            assert len(workers) == 2
            yield process, workers
        finally:
            process.kill()
