"""Hostile expressions from many threads: `make bench-verifiers`, or `python -m benchmarks.hostile [--threads 16]`.

512 answers, each scored once: a quarter nested brackets, a quarter sums of 400 terms, a quarter towers of powers, huge
factorials, endless sums and products, a quarter honest ones, some of which need a worker. Half of the brackets and sums
are right, so that refusing them would show. The clock runs from the first answer, before any worker is started, to the
last.
"""

import argparse
import os
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from rubricworks.verifiers import CannotVerify, expr_verify

_SECONDS, _CORES, _THREADS, _NUMBER = 6.0, 2, 16, 512


class Case(NamedTuple):
    kind: str
    target: str
    answer: str
    right: bool


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=_THREADS)
    options.add_argument("--number", type=int, default=_NUMBER)
    arguments = options.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:_CORES]))
    many = cases(arguments.number)
    cpu_seconds: Counter[str] = Counter()
    wrong: list[Case] = []

    def score(case: Case) -> None:
        start = time.perf_counter()
        try:
            outcome = expr_verify(case.answer, target=case.target) == 1
        except CannotVerify:
            outcome = None
        cpu_seconds[case.kind] += time.perf_counter() - start
        if outcome is not case.right:
            wrong.append(case)

    start = time.perf_counter()
    with ThreadPoolExecutor(arguments.threads) as pool:
        list(pool.map(score, many))
    seconds = time.perf_counter() - start
    print(
        f"{len(many)} answers from {arguments.threads} threads on {_CORES} cores: {seconds:.1f} s, {len(wrong)} wrong"
    )
    for kind, of_kind in cpu_seconds.most_common():
        number = sum(case.kind == kind for case in many)
        print(f"  {kind}: {number}, {1000 * of_kind / number:.0f} ms each by the clock, other threads included")
    for case in wrong:
        print(f"  wrong: {case.answer[:60]} for {case.target[:60]}")
    sys.exit("a target is missed" if seconds > _SECONDS or wrong else 0)


def cases(number: int, seed: int = 0) -> list[Case]:
    dice = random.Random(seed)
    makers = (_brackets, _sum, _endless, _honest)
    many = [makers[n % len(makers)](dice, n) for n in range(number)]
    dice.shuffle(many)
    return many


def _brackets(dice: random.Random, n: int) -> Case:
    value, depth = dice.randint(2, 99), dice.randint(20, 60)
    opening, closing = dice.choice([("(", ")"), ("\\left(", "\\right)"), ("(1+", ")"), ("[", "]")])
    right = n % 8 < 4
    total = value + (depth if opening == "(1+" else 0) + (0 if right else 1)
    return Case("brackets", str(total), opening * depth + str(value) + closing * depth, right)


def _sum(dice: random.Random, n: int) -> Case:
    right = n % 8 < 4
    wrong_by = 0 if right else 1
    kind = dice.randrange(4)
    terms = [dice.randint(1, 99) for _ in range(400)]
    if kind == 0:
        return Case("sums", str(sum(terms) + wrong_by), "+".join(map(str, terms)), right)
    if kind == 1:
        return Case("sums", f"{sum(terms) + wrong_by}x", "+".join(f"{term}x" for term in terms), right)
    if kind == 2:
        answer = "+".join(f"\\frac{{{term}}}{{7}}" for term in terms)
        return Case("sums", f"\\frac{{{sum(terms) + wrong_by}}}{{7}}", answer, right)
    return Case("sums", f"{sum(terms) + wrong_by}\\sqrt{{2}}", "+".join(f"{term}\\sqrt{{2}}" for term in terms), right)


def _endless(dice: random.Random, n: int) -> Case:
    a, b = dice.randint(5, 99), dice.randint(5, 99)
    answer = dice.choice(
        [
            "^".join([str(a)] * dice.randint(4, 9)),
            f"{a}^{{{b}^{{{a}^{{{b}}}}}}}",
            f"({a}{b}^6)!",
            f"{a}!!!!",
            f"\\binom{{{a}^9}}{{{b}^8}}",
            f"\\tan({a}^{{{b}^{{{a}}}}})",
            f"\\sum_{{k=1}}^{{{a}^{{{b}}}}} \\frac{{1}}{{k^2+{a}}}",
            f"\\prod_{{k=1}}^{{{a}00000000}} (1+\\frac{{{b}}}{{k^3}})",
            "\\sqrt{" * (a + 20) + str(b) + "}" * (a + 20),
            f"\\frac{{1}}{{{a}+" * (b + 20) + "1" + "}" * (b + 20),
            f"\\int_0^{{{a}}} " + "(" * 30 + f"x^{b}" + ")" * 30 + " dx",
        ]
    )
    return Case("endless", str(n), answer, False)


def _honest(dice: random.Random, n: int) -> Case:
    a, b = dice.randint(2, 99), dice.randint(2, 99)
    target, answer = dice.choice(
        [
            (str(a), f"\\boxed{{{a}}}"),
            (f"{a}/{b}", f"\\frac{{{2 * a}}}{{{2 * b}}}"),
            (f"{a} million", f"{a},000,000"),
            (f"{a * b}", f"The answer is {a * b} cm."),
            (f"{a}\\sin^2 x + {a}\\cos^2 x", str(a)),
            (f"\\int_0^{{{a}}} 2x \\, dx", str(a * a)),
            (f"\\sum_{{k=1}}^{{{a}}} k", str(a * (a + 1) // 2)),
            (f"\\begin{{pmatrix}}{a}&0\\\\0&{b}\\end{{pmatrix}}", f"\\begin{{bmatrix}}{a}&0\\\\0&{b}\\end{{bmatrix}}"),
            (f"\\lfloor {a}.5 \\rfloor", str(a)),
        ]
    )
    return Case("honest", target, answer, True)


if __name__ == "__main__":
    main()
