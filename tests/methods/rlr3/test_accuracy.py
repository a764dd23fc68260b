"""Accuracy per task, its macro average, best milestones and gains: by hand, by brute force, and for any table."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wide_scores import as_scores

from rubricworks.evaluation.scoreboard import Scoreboard, summarise_scores
from rubricworks.methods.rlr3.accuracy import RIGHT, Accuracies, read_accuracies


def board(table: list[dict], seed: int = 0) -> Scoreboard:
    """The scoreboard of these answers, as the stage `score` makes it."""
    table = sorted(table, key=lambda row: ("base", "rlvr", "rlr3").index(row["arm"]))
    tasks = {row["sample_id"]: row["task"] for row in table}
    scores = as_scores("evaluate_answers", table, {"right"})
    return summarise_scores(scores, tasks=tasks, by_task=(RIGHT,), select_by=RIGHT, seed=seed)


def summarise(table: list[dict], seed: int = 0) -> Accuracies:
    accuracies = read_accuracies(board(table, seed))
    assert accuracies is not None
    return accuracies


def rows(arm: str, step: int, *, tokens: int = 10, **tasks: str) -> list[dict]:
    """One row per sign: `+` right, `-` wrong, `?` not judged; questions are numbered within their task."""
    verdicts = {"+": True, "-": False, "?": None}
    return [
        {
            "sample_id": f"{task}-{number}",
            "arm": arm,
            "step": step,
            "task": task,
            "response": "r",
            "tokens": tokens,
            "right": verdicts[sign],
        }
        for task, signs in tasks.items()
        for number, sign in enumerate(signs)
    ]


TABLE = [
    *rows("base", 0, count="+---", word="+-", tokens=8),
    *rows("rlr3", 10, count="++--", word="++", tokens=20),
    *rows("rlr3", 20, count="+++-", word="+-", tokens=30),
    *rows("rlvr", 10, count="+---", word="+-"),
    *rows("rlvr", 20, count="++--", word="+-"),
]


def test_figures_are_those_of_hand():
    summary = summarise(TABLE)
    assert {task: figure.value for task, figure in summary.base.tasks.items()} == {"count": 0.25, "word": 0.5}
    assert summary.base.macro.value == pytest.approx((0.25 + 0.5) / 2)
    assert summary.base.tokens == 8
    assert [(item.step, item.macro.value, item.tokens) for item in summary.arms["rlr3"]] == [
        (10, pytest.approx(0.75), 20),
        (20, pytest.approx(0.625), 30),
    ]
    assert summary.best == {"rlr3": 10, "rlvr": 20}
    assert summary.gains["rlr3"].value == pytest.approx(0.75 - 0.375)
    assert summary.gains["rlvr"].value == pytest.approx(0.125)
    assert summary.gains["rlr3 - rlvr"].value == pytest.approx(0.25)
    assert summary.accuracy("rlr3").step == 10
    assert summary.accuracy("rlr3", 20).step == 20
    assert summary.accuracy("base") == summary.base


def test_tasks_weigh_the_same_however_many_questions_they_have():
    table = rows("base", 0, many="+" * 99 + "-", few="-")
    macro = summarise(table).base.macro
    assert macro.value == pytest.approx(0.495)
    assert macro.samples == 101


def test_best_of_equals_is_the_earliest():
    table = rows("base", 0, count="----")
    for step in (30, 10, 20):
        table += rows("rlr3", step, count="++--")
    summary = summarise(table)
    assert summary.best == {"rlr3": 10}
    assert [item.step for item in summary.arms["rlr3"]] == [10, 20, 30]
    assert summary.gains.keys() == {"rlr3"}  # there is no other arm to compare it with


def test_equals_are_equal_though_their_tasks_sum_up_in_another_order():
    """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in binary."""
    item, two, three = ("+" * count + "-" * (10 - count) for count in (1, 2, 3))
    table = [
        *rows("base", 0, a="-" * 10, b="-" * 10, c="-" * 10),
        *rows("rlr3", 1, a=three, b=two, c=item),
        *rows("rlr3", 2, a=item, b=two, c=three),
    ]
    assert summarise(table).best == {"rlr3": 1}
    assert summarise([{**row, "step": 3 - row["step"]} if row["step"] else row for row in table]).best == {"rlr3": 1}


def test_what_could_not_be_judged_is_counted_and_weighs_nothing():
    summary = summarise([*rows("base", 0, count="+??-", word="?"), *rows("rlr3", 5, count="+++?", word="+")])
    assert summary.base.macro.value == 0.5
    assert (summary.base.macro.samples, summary.base.macro.missing) == (2, 3)
    assert summary.base.tasks.keys() == {"count"}
    assert (summary.base.tasks["count"].samples, summary.base.tasks["count"].missing) == (2, 2)
    # Only the first question was judged for both.
    assert (summary.gains["rlr3"].value, summary.gains["rlr3"].low) == (0.0, 0.0)


def test_difference_is_paired():
    """The arm gains nothing on any question: the interval is a point, though each accuracy is uncertain."""
    signs = "+-" * 20
    summary = summarise([*rows("base", 0, count=signs), *rows("rlr3", 1, count=signs)])
    gain = summary.gains["rlr3"]
    assert (gain.value, gain.low, gain.high) == (0, 0, 0)
    assert summary.base.macro.high - summary.base.macro.low > 0.2


def test_order_of_rows_does_not_matter_for_what_is_paired_with_what():
    base, arm = rows("base", 0, count="+-+--"), rows("rlr3", 1, count="+++--")
    once, again = summarise(base + arm), summarise(arm[::-1] + base[::-1])
    assert once.gains["rlr3"].value == again.gains["rlr3"].value == pytest.approx(0.2)
    assert once.gains == again.gains


@pytest.mark.parametrize("table", [[], rows("rlr3", 1, count="+"), rows("base", 0, count="??")])
def test_without_a_judged_answer_of_the_base_there_are_no_accuracies(table):
    assert read_accuracies(board(table)) is None


def test_milestone_without_a_judged_answer_is_left_out():
    summary = summarise([*rows("base", 0, count="+-"), *rows("rlr3", 1, count="??"), *rows("rlr3", 2, count="--")])
    assert [item.step for item in summary.arms["rlr3"]] == [2]
    assert summary.best == {"rlr3": 2}


def test_board_reads_back_from_its_json():
    scoreboard = board(TABLE)
    assert Scoreboard.model_validate_json(scoreboard.model_dump_json()) == scoreboard


def test_interval_of_one_task_is_that_of_resampling_its_questions():
    """With n questions of which k are right, a resampled mean is binomial(n, k/n) / n."""
    macro = summarise(rows("base", 0, count="+" * 30 + "-" * 70)).base.macro
    draws = np.random.default_rng(5).binomial(100, 0.3, size=200_000) / 100
    assert [macro.low, macro.high] == pytest.approx(np.quantile(draws, [0.025, 0.975]), abs=0.011)


signs = st.text("+-?", min_size=1, max_size=6)
models = st.fixed_dictionaries({"count": signs, "word": signs, "box": signs})


@pytest.mark.slow
@settings(max_examples=60)
@given(base=models, arms=st.dictionaries(st.tuples(st.sampled_from(["rlr3", "rlvr"]), st.integers(1, 4)), models))
def test_any_table_gives_the_means_of_brute_force(base, arms):
    models = {("base", 0): base, **arms}
    table = [row for (arm, step), tasks in models.items() for row in rows(arm, step, **tasks)]
    macros = {key: _macro(tasks) for key, tasks in models.items()}
    pairs = [_paired(tasks, base) for tasks in arms.values()]
    if None in macros.values() or None in pairs:
        return  # of what was never judged there is no figure
    if {"rlr3", "rlvr"} <= {arm for arm, _ in arms}:
        best = {arm: _best(macros, arm) for arm in ("rlr3", "rlvr")}
        between = _paired(arms["rlr3", best["rlr3"]], arms["rlvr", best["rlvr"]])
        if between is None:
            return
        expected_between = between
    summary = summarise(table)
    for (arm, step), macro in macros.items():
        result = summary.accuracy(arm, step)
        assert result.macro.value == pytest.approx(float(macro))
        assert result.macro.low <= result.macro.high
        assert result.macro.samples + result.macro.missing == sum(map(len, models[arm, step].values()))
    by_arm = defaultdict(list)
    for arm, step in arms:
        by_arm[arm].append(step)
    assert summary.best == {arm: _best(macros, arm) for arm in by_arm}
    for arm, step in summary.best.items():
        assert summary.gains[arm].value == pytest.approx(float(_paired(arms[arm, step], base)))
    if len(by_arm) == 2:
        assert summary.gains["rlr3 - rlvr"].value == pytest.approx(float(expected_between))


def _mean_of_means(tasks: list[list[int]]) -> Fraction | None:
    """Exact, so that equals are equal."""
    means = [Fraction(sum(values), len(values)) for values in tasks if values]
    return sum(means) / len(means) if means else None


def _macro(tasks: dict[str, str]) -> Fraction | None:
    return _mean_of_means([[int(sign == "+") for sign in signs if sign != "?"] for signs in tasks.values()])


def _paired(of: dict[str, str], against: dict[str, str]) -> Fraction | None:
    return _mean_of_means(
        [
            [
                (item == "+") - (other == "+")
                for item, other in zip(of[task], against[task], strict=False)
                if "?" not in item + other
            ]
            for task in of
        ]
    )


def _best(macros: dict[tuple[str, int], Fraction], expected: str) -> int:
    steps = sorted(step for arm, step in macros if arm == expected)
    return next(step for step in steps if macros[expected, step] == max(macros[expected, step] for step in steps))


def test_accuracy_of_0_or_1_has_wilsons_bounds_and_its_gain_a_point():
    table = [*rows("base", 0, count="-" * 8, word="-" * 24), *rows("rlr3", 1, count="+" * 8, word="+" * 24)]
    summary = summarise(table)
    z = 3.841459
    count = summary.base.tasks["count"]
    assert (count.low, count.high) == (0, pytest.approx(z / (8 + z), abs=1e-6))
    best = summary.accuracy("rlr3").macro
    trials = 4 / (1 / 8 + 1 / 24)  # the mean of two tasks has a quarter of the sum of their variances
    assert (best.low, best.high, best.samples) == (pytest.approx(trials / (trials + z), abs=1e-6), 1, 32)
    gain = summary.gains["rlr3"]
    assert (gain.value, gain.low, gain.high) == (1, 1, 1)
