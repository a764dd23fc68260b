import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.reports.charts import (
    MAX_MARKERS,
    MAX_POINTS,
    Series,
    curve,
    moving_average,
    nice_ticks,
    series_chart,
    spread,
    tick_labels,
    value_bounds,
)


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


def test_lines_share_their_axes_and_end_where_they_were_measured() -> None:
    chart = series_chart(
        "accuracy",
        [Series("rlvr", "RLVR", [(10, 0), (20, 50)]), Series("rlr3", "RLR³", [(10, 50), (20, 100)], picked=20)],
        bounds=(0, 100),
        start=0,
        level=(25, "base"),
    )
    assert chart is not None
    assert [line.line for line in chart.lines] == ["M50.00 100.00L100.00 50.00", "M50.00 50.00L100.00 0.00"]
    assert chart.level == 75
    assert [dot.picked for dot in chart.lines[1].dots] == [False, True]
    assert chart.lines[1].dots[1].text == "RLR³, step 20: 100.0"


def test_interval_band_runs_along_its_high_ends_and_back_along_its_low_ends() -> None:
    series = [Series("rlr3", "RLR³", [(0, 50), (10, 60)], intervals=[(40, 70), (50, 80)])]
    chart = series_chart("accuracy", series, bounds=(0, 100))
    assert chart is not None
    assert chart.lines[0].band == "M0.00 30.00L100.00 20.00L100.00 50.00L0.00 60.00Z"


def test_single_milestone_is_a_marker_without_a_line() -> None:
    chart = series_chart("accuracy", [Series("rlr3", "RLR³", [(10, 50)])], bounds=(0, 100), start=0)
    assert chart is not None
    assert chart.lines[0].line == ""
    assert [(dot.left, dot.top) for dot in chart.lines[0].dots] == [(100, 50)]


def test_smoothed_line_of_many_steps_keeps_few_points_and_no_markers() -> None:
    points = [(float(step), float(step % 2)) for step in range(2_000)]
    chart = series_chart("reward", [Series("rlr3", "RLR³", points)], bounds=(0, 1), smooth=True)
    assert chart is not None
    line = chart.lines[0]
    assert line.dots == []
    assert line.measured is not None
    assert max(line.line.count("L"), line.measured.count("L")) <= MAX_POINTS
    heights = [float(y) for y in re.findall(r" (\d+\.\d+)", line.line)]
    assert max(heights[5:-5]) - min(heights[5:-5]) < 20  # the saw of 0 and 1 is gone


@pytest.mark.parametrize("count", [2, 15, 16, 17, 30, 31, 40, 200])
def test_line_has_few_markers_that_stand_apart_its_ends_among_them(count: int) -> None:
    points = [(float(step), 0.5) for step in range(count)]
    chart = series_chart("reward", [Series("m0", "reward", points)], bounds=(0, 1))
    assert chart is not None
    dots = chart.lines[0].dots
    assert (dots[0].left, dots[-1].left) == (0, 100)
    gaps = [after.left - before.left for before, after in pairwise(dots)]
    assert min(gaps) >= 100 / MAX_MARKERS
    assert max(gaps) < 2 * min(gaps)


def test_picked_step_of_a_long_line_has_its_marker() -> None:
    points = [(float(step), step / 200) for step in range(1, 201)]
    chart = series_chart("reward", [Series("m0", "reward", points, picked=33)], bounds=(0, 1))
    assert chart is not None
    assert [dot.text for dot in chart.lines[0].dots if dot.picked] == ["reward, step 33: 0.2"]


def test_nothing_measured_is_no_chart() -> None:
    assert series_chart("accuracy", [Series("rlr3", "RLR³", [])], bounds=(0, 1)) is None


@given(st.lists(st.floats(0, 100), min_size=1, max_size=5))
def test_names_never_overlap_nor_change_their_order(tops: list[float]) -> None:
    placed = spread(tops, 9.0)
    order = sorted(range(len(tops)), key=lambda at: tops[at])
    heights = [placed[at] for at in order]
    assert all(low - high >= 9.0 - 1e-9 for high, low in pairwise(heights))
    assert max(placed) <= 100


def test_names_far_apart_stay_where_their_lines_end() -> None:
    assert spread([80.0, 20.0], 9.0) == [80.0, 20.0]
    assert spread([50.0, 51.0], 9.0) == pytest.approx([50.0, 59.0])
    assert spread([99.0, 100.0], 9.0) == pytest.approx([91.0, 100.0])


@pytest.mark.parametrize(("value", "bounds"), [(0.75, (0.675, 0.825)), (-20.0, (-22.0, -18.0)), (0.0, (0.0, 1.0))])
def test_constant_line_is_in_the_middle_of_a_narrow_axis(value: float, bounds: tuple[float, float]) -> None:
    assert value_bounds([value] * 3) == pytest.approx(bounds)
