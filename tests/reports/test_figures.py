"""Texts and comparisons of figures, with and without bounds."""

import pytest

from rubricworks.metrics import Interval
from rubricworks.reports.formats import MINUS, MISSING, interval, percent_interval, signed_interval, span
from rubricworks.reports.headline import is_small

SOME = Interval(value=0.25, low=-0.125, high=0.5, samples=40)


def test_bounds_are_written_in_the_unit_of_the_figure():
    assert span(SOME) == f"{MINUS}12.5 to 50.0"
    assert percent_interval(SOME) == "-12\N{NARROW NO-BREAK SPACE}% to 50\N{NARROW NO-BREAK SPACE}%"
    assert interval(SOME, 3) == f"{MINUS}0.125 to 0.500"
    assert signed_interval(SOME, 3) == f"{MINUS}0.125 to +0.500"


@pytest.mark.parametrize("write", [span, percent_interval, interval, signed_interval])
@pytest.mark.parametrize("figure", [None, Interval(value=0.5)])
def test_figure_without_bounds_is_a_dash(write, figure):
    assert write(figure) == MISSING


def test_figure_over_few_or_unknown_samples_is_small():
    assert [is_small(Interval(value=0, samples=count)) for count in (None, 0, 19, 20)] == [True, True, True, False]
