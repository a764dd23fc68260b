"""The worker processes: hostile formulas cost little, once, and nothing else, from any thread; and they end with us."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psutil
import pytest

from rubricworks.verifiers import CannotVerify, expr_verify
from rubricworks.verifiers.expression.worker_pool import Worker, WorkerPool

ENDLESS = r"\int_0^5 \frac{\sqrt{\sin x + 3}}{\ln(x^3+5)} dx"
"""Small, and without a closed form: SymPy would search for minutes."""
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


NESTED = [
    ("3", "(" * 30 + "3" + ")" * 30),
    ("3", r"\left(" * 60 + "3" + r"\right)" * 60),
    ("33", "(1+" * 30 + "3" + ")" * 30),
    ("400", "+".join(["1"] * 400)),
    ("400x", "+".join(["x"] * 400)),
    (r"\frac{7381}{2520}", "+".join(rf"\frac{{1}}{{{n}}}" for n in range(1, 11))),
    (r"400\sqrt{2}", "+".join([r"\sqrt{2}"] * 400)),
]


@pytest.mark.parametrize(("target", "answer"), NESTED, ids=lambda text: text[:15])
def test_brackets_and_long_sums_need_no_worker_and_are_right(monkeypatch, target, answer):
    monkeypatch.setattr(Worker, "compare", refuse)
    assert expr_verify(answer, target=target) == 1
    assert expr_verify(answer, target=f"{target}+1") == 0


@pytest.mark.parametrize(
    "answer", [*HOSTILE, r"\int_0^1 " + "(" * 30 + "x" + ")" * 30 + " dx"], ids=lambda text: text[:15]
)
def test_what_nobody_can_compute_is_refused_before_a_worker_sees_it(monkeypatch, answer):
    monkeypatch.setattr(Worker, "compare", refuse)
    assert expr_verify(answer, target="5") == 0


def refuse(*_: object) -> None:
    raise AssertionError("a worker was asked")


@pytest.mark.slow
def test_a_formula_that_was_late_is_not_tried_again_but_with_more_time(monkeypatch):
    with closing(WorkerPool(1)) as pool:
        assert pool.compare(ENDLESS, "1", 0.2) == "target late"
        assert pool.compare("1", ENDLESS + "+1", 0.2) == "answer late"
        with monkeypatch.context() as patch:
            patch.setattr(Worker, "compare", refuse)
            assert pool.compare(ENDLESS, "2", 0.2) == pool.compare(ENDLESS, "1", 0.1) == "target late"
            assert pool.compare("2", ENDLESS + "+1", 0.2) == "answer late"
            with pytest.raises(AssertionError, match="asked"):
                pool.compare(ENDLESS, "1", 0.3)
        assert pool.compare(INTEGRAL, "0.5", 2) == "equal"


@pytest.mark.slow
def test_second_worker_starts_when_the_first_is_busy_and_no_third():
    with closing(WorkerPool(2)) as pool, ThreadPoolExecutor(6) as threads:
        assert pool.compare(INTEGRAL, "0.5", 2) == "equal"
        before = len(children())
        questions = [threads.submit(pool.compare, ENDLESS, str(n), 1) for n in range(2)]
        questions += [threads.submit(pool.compare, rf"{INTEGRAL}+{n}", f"{n}.5", 1) for n in range(4)]
        assert [question.result() for question in questions] == ["target late"] * 2 + ["equal"] * 4
        assert len(children()) <= before + 2


@pytest.mark.slow
def test_time_is_the_processors_so_that_a_worker_that_stands_still_is_not_late():
    with closing(WorkerPool(1)) as pool, ThreadPoolExecutor(1) as threads:
        assert pool.compare(INTEGRAL, "0.5", 2) == "equal"
        actual = [
            child for child in children() if child.pid == pool.workers[0].pid or child.ppid() == pool.workers[0].pid
        ]
        for process in actual:
            process.suspend()
        question = threads.submit(pool.compare, INTEGRAL, "1/2", 0.5)
        time.sleep(1)
        for process in actual:
            process.resume()
        assert question.result() == "equal"


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
        result = expr_verify(r"\frac{1}{2}", target=r"\int_0^1 x\,dx ")
        threads = [asyncio.to_thread(expr_verify, "1/2", target=INTEGRAL + " " * n) for n in range(4)]
        return [result, *await asyncio.gather(*threads)]

    assert asyncio.run(ask()) == [1] * 5


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("ends_by", ["exit", "kill", "kill while the worker is busy"])
def test_the_worker_ends_with_the_program(ends_by):
    last = f"expr_verify({ENDLESS!r}, target='5', timeout=30)" if ends_by.endswith("busy") else "input()"
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
            deadline = time.monotonic() + 300
            while len(workers) < 2 and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.05)
                workers = psutil.Process(process.pid).children(recursive=True)
            assert len(workers) == 2
            yield process, workers
        finally:
            process.kill()
