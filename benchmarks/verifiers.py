"""The verifiers beside Math-Verify, in one run: `make bench-verifiers`, or `python -m benchmarks.verifiers [--quick]`.

Expressions: the mix of `answer_mix` and each of its kinds alone; every round has new pairs, the same for both, ours
and Math-Verify in turn. Math-Verify is called as its users call it: `verify(parse(target), parse(answer))` with the
default time limits. Ours uses one worker process for what exact arithmetic leaves (sums, integrals, matrices: one in
a hundred here); its time counts, its start does not. The share of right outcomes stands beside the rates. The other
verifiers have no peer: they run directly and through `run_verifier`, where each answer is a new call and the
reference stays, as in a group of rollouts.

Everything runs on one core, the worker too. Rates are medians of the rounds, with their range; the columns of CPU
time are of this process, without the worker's.
"""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from itertools import count

from benchmarks.answer_mix import Pair, pairs
from benchmarks.rounds import Lap, Laps, Row, Watch
from rubricworks.verifiers import (
    bbox_verify,
    expr_verify,
    list_verify,
    point_verify,
    run_verifier,
    text_verify,
    time_verify,
)

_DIRECT, _THROUGH_CALLS, _BESIDE_MATH_VERIFY = 40_000, 10_000, 10


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="a fifth of the calls")
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    part = 0.2 if arguments.quick else 1.0

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(Row.HEAD)
    rows = [*expressions(arguments.rounds, round(1500 * part)), *others(arguments.rounds, round(10_000 * part))]
    sys.exit("a target is missed" if any(row.met == "MISSED" for row in rows) else 0)


def expressions(rounds: int, number: int) -> list[Row]:
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    seeds, rows = count(), []
    expr_verify("1/2", target=r"\int_0^1 x \, dx")  # starts the worker
    _expr_verify(pairs(-1, 300))
    _math_verify(pairs(-1, 300))
    kinds = (None, "letters and numbers", "fractions and units", "LaTeX")
    for kind in kinds:
        laps: dict[str, list[Lap]] = {"ours": [], "math-verify": []}
        right = {"ours": 0, "math-verify": 0}
        for _ in range(rounds):
            many = pairs(next(seeds), number if kind is None else 12 * number)
            selection = [pair for pair in many if kind in (None, pair.kind)][:number]
            for name, verifier in (("ours", _expr_verify), ("math-verify", _math_verify)):
                watch = Watch()
                outcomes = verifier(selection)
                laps[name].append(watch.lap(len(selection)))
                right[name] += sum(outcome == pair.equal for outcome, pair in zip(outcomes, selection, strict=True))
        own, peer = Laps(tuple(laps["ours"])), Laps(tuple(laps["math-verify"]))
        total = rounds * number
        shares = ", ".join(f"{of_one / total:.2%}" for of_one in right.values())
        what = f"expr, {kind or 'mix'} ÷ math-verify; right: {shares}"
        rows.append(Row.compare(what, own, peer, _BESIDE_MATH_VERIFY if kind is None else None))
        print(rows[-1], flush=True)
    return rows


def _expr_verify(batch: Sequence[Pair]) -> list[bool]:
    return [expr_verify(pair.answer, target=pair.target) == 1 for pair in batch]


def _math_verify(batch: Sequence[Pair]) -> list[bool]:
    from math_verify import parse, verify

    return [bool(verify(parse(pair.target), parse(pair.answer))) for pair in batch]


def others(rounds: int, number: int) -> list[Row]:
    """Each verifier on short inputs; the number in the answer makes it a new one."""
    boxes, points = [[531, 118, 892, 435], [5, 5, 40, 40]], [[591, 234], [40, 50]]
    names = ["M-30", "M-31", "M-31UK"]
    flags = {"ignore_space": True, "ignore_case": True}
    direct: dict[str, Callable[[int], float]] = {
        "text": lambda n: text_verify(f"Export Volume {n}", target="Export Volume"),
        "text, two flags": lambda n: text_verify(f"Export Volume {n}", target="Export Volume", **flags),
        "time": lambda n: time_verify(f"18:{n % 60:02}", pformat="%H:%M", target="18:15", tformat="%H:%M"),
        "list of 2 ÷ 3": lambda n: list_verify([f"M-{n}", "M-31"], target=names),
        "box": lambda n: bbox_verify([[529, 119, 890, n]], target=boxes[:1]),
        "two boxes": lambda n: bbox_verify([[4, 6, 40, 41], [529, 119, 890, n]], target=boxes),
        "point": lambda n: point_verify([[589, n]], target=points[:1]),
        "two points": lambda n: point_verify([[39, 51], [589, n]], target=points),
    }
    calls = {
        "text": ("text_verify(target='Export Volume', ignore_case=True)", "text_verify(predict='Export Volume {}')"),
        "time": ("time_verify(target='18:15', tformat='%H:%M')", "time_verify(predict='{} 18:15', pformat='%j %H:%M')"),
        "list": (f"list_verify(target={names})", "list_verify(predict=['M-{}', 'M-31'])"),
        "box": (f"bbox_verify(target={boxes})", "bbox_verify(predict=[[4, 6, 40, 41], [529, 119, 890, {}]])"),
        "point": (f"point_verify(target={points})", "point_verify(predict=[[39, 51], [589, {}]])"),
        "expr": ("expr_verify(target='2/3')", "expr_verify(predict='{}/3')"),
    }
    rows = [_rate(f"{name}, direct", call, rounds, number, _DIRECT) for name, call in direct.items()]
    for name, (reference, predict) in calls.items():

        def run(n: int, reference: str = reference, predict: str = predict) -> float:
            return run_verifier(reference, predict.format(n))

        target = None if name == "expr" else _THROUGH_CALLS
        rows.append(_rate(f"{name}, through run_verifier", run, rounds, number, target))
    return rows


def _rate(what: str, call: Callable[[int], float], rounds: int, number: int, target: int | None) -> Row:
    numbers, laps = count(1), []
    call(next(numbers))
    for _ in range(rounds):
        watch = Watch()
        for _ in range(number):
            call(next(numbers))
        laps.append(watch.lap(number))
    timed = Laps(tuple(laps))
    row = Row(what, str(timed))
    if target is not None:
        met = "met" if timed.rate >= target else "MISSED"
        row = Row(what, str(timed), target=f"≥ {target:,}", met=met, cpu=f"{timed.cpu_ms:.3f} {timed.busy:.0%}")
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
