import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.reports.charts import MAX_POINTS, curve, moving_average, nice_ticks, tick_labels


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 1, [0, 0.25, 0.5, 0.75, 1]), (0, 37, [0, 10, 20, 30, 40]), (3, 3, [3, 3.25, 3.5, 3.75, 4])],
)
def test_ticks_are_round_numbers_around_the_values(low: float, high: float, ticks: list[float]) -> None:
    assert nice_ticks(low, high) == pytest.approx(ticks)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_cover_any_range_and_are_few(low: float, width: float) -> None:
    ticks = nice_ticks(low, low + width)
    assert ticks[0] <= low + width * 1e-6
    assert ticks[-1] >= low + width * (1 - 1e-6)
    assert 2 <= len(ticks) <= 7


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0, 0.25, 0.5], ["0", "0.25", "0.5"]),
        ([0, 2500, 5000], ["0", "2500", "5000"]),
        ([0, 200_000, 800_000], ["0", "200k", "800k"]),
        ([-2500, 0, 12_500], ["-2.5k", "0", "12.5k"]),
        ([0, 500_000, 1_000_000], ["0", "0.5M", "1M"]),
        ([0, 40_725_440], ["0", "40.7254M"]),
    ],
)
def test_large_numbers_of_an_axis_are_short_and_share_their_unit(values: list[float], labels: list[str]) -> None:
    assert tick_labels(values) == labels


def test_no_step_between_two_whole_ones_is_named() -> None:
    chart = curve("reward", [(1, 0.5), (2, 0.75)])
    assert chart is not None
    assert [(tick.label, tick.at) for tick in chart.x_ticks] == [("1", 0), ("2", 100)]


def test_line_runs_from_corner_to_corner_of_its_frame() -> None:
    chart = curve("reward", [(1, 0.0), (11, 1.0)], bounds=(0, 1), marks=[(6, "here")])
    assert chart is not None
    assert chart.lines[0].measured == "M0.00 100.00L100.00 0.00"
    assert [mark.at for mark in chart.marks] == [50]
    assert [(tick.label, tick.at) for tick in chart.y_ticks][::4] == [("0", 100), ("1", 0)]


def test_smoothing_keeps_a_constant_and_averages_neighbours() -> None:
    assert moving_average([0.5] * 100) == pytest.approx([0.5] * 100)
    assert moving_average([1.0, 2.0, 4.0]) == [1.0, 2.0, 4.0]  # too few steps to smooth
    values = [float(at % 2) for at in range(200)]
    assert max(moving_average(values)[10:-10]) < 0.6


@given(st.lists(st.floats(0, 1), min_size=1, max_size=900))
def test_any_line_stays_inside_its_frame_with_few_points(values: list[float]) -> None:
    chart = curve("reward", [(float(step), value) for step, value in enumerate(values)], bounds=(0, 1))
    assert chart is not None
    places = [float(number) for number in re.findall(r"-?\d+\.\d+", chart.lines[0].measured)]
    assert all(0 <= place <= 100 for place in places)
    assert chart.lines[0].measured.count("L") <= MAX_POINTS


def test_nothing_to_draw_is_no_chart() -> None:
    assert curve("reward", []) is None
