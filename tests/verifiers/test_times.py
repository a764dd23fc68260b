"""Dates and times: equal when the objects are, whatever the formats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.verifiers import CannotVerify, time_verify

EQUAL = [
    ("18:15", "%H:%M", "18:15", "%H:%M"),
    ("6:15 PM", "%I:%M %p", "18:15", "%H:%M"),
    ("6:15pm", "%I:%M %p", "18:15", "%H:%M"),
    ("6:15 p.m.", "%I:%M %p", "18:15", "%H:%M"),
    ("6:15 P. M.", "%I:%M%p", "18:15", "%H:%M"),
    ("12:00 a.m.", "%I:%M %p", "00:00", "%H:%M"),
    ("May 3, 2024", "%B %d, %Y", "2024-05-03", "%Y-%m-%d"),
    ("3 May 2024", "%d %b %Y", "03/05/24", "%d/%m/%y"),
    ("Friday, May 3, 2024", "%A, %B %d, %Y", "2024-05-03", "%Y-%m-%d"),
    (" 2024-05-03T10:00:00 ", "%Y-%m-%dT%H:%M:%S", "2024-05-03 10:00:00", "%Y-%m-%d %H:%M:%S"),
    ("6:15 PM", "%H:%M %p", "18:15", "%H:%M"),
    ("18:15 pm", "%H:%M %p", "18:15", "%H:%M"),
    ("0:30 AM", "%H:%M %p", "00:30", "%H:%M"),
    ("9:13", "%I:%M", "09:13", "%H:%M"),
    ("May 3rd, 2024", "%B %drd, %Y", "2024-05-03", "%Y-%m-%d"),
    ("3rd of May 2024", "%drd of %B %Y", "2024-05-03", "%Y-%m-%d"),
    ("2024-05-03 at 10:00", "%Y-%m-%d at %H:%M", "2024-05-03 10:00", "%Y-%m-%d %H:%M"),
    ("2024年5月3日", "%Y年%m月%d日", "2024-05-03", "%Y-%m-%d"),
    ("18h15", "%Hh%M", "18:15", "%H:%M"),
    ("124 2024", "%j %Y", "2024-05-03", "%Y-%m-%d"),
    ("17:15 +0000", "%H:%M %z", "18:15 +0100", "%H:%M %z"),
    ("April 5 PM 2020", "%B %I %p %Y", "17 04 2020", "%H %m %Y"),
]
DIFFERENT = [
    ("18:16", "%H:%M", "18:15", "%H:%M"),
    ("6:15 AM", "%I:%M %p", "18:15", "%H:%M"),
    ("2024-05-03 18:15", "%Y-%m-%d %H:%M", "18:15", "%H:%M"),
    ("25:00", "%H:%M", "01:00", "%H:%M"),
    ("", "%H:%M", "01:00", "%H:%M"),
    ("18:15", "%H:%M:%S", "18:15", "%H:%M"),
    ("18:15", "", "18:15", "%H:%M"),
    ("noon", "noon", "00:00", "%H:%M"),
    ("anything", "anything", "00:00", "%H:%M"),
    ("1900-01-01", "1900-01-01", "00:00", "%H:%M"),
    ("50%", "50%%", "00:00", "%H:%M"),
    ("Monday", "%A", "00:00", "%H:%M"),
    ("The answer is not 18:15", "The answer is not %H:%M", "18:15", "%H:%M"),
    ("not 18:15", "not %H:%M", "18:15", "%H:%M"),
    ("maybe 18:15", "maybe %H:%M", "18:15", "%H:%M"),
    ("18:15 or 18:16", "%H:%M or 18:16", "18:15", "%H:%M"),
    ("1900", "%Y", "00:00", "%H:%M"),
    ("1900", "%Y", "1900-01-01", "%Y-%m-%d"),
    ("January 1", "%B %d", "00:00", "%H:%M"),
    ("January", "%B", "01", "%d"),
    ("2024", "%Y", "2024-01-01", "%Y-%m-%d"),
    ("May 2024", "%B %Y", "2024-05-01", "%Y-%m-%d"),
    ("18", "%H", "18:00", "%H:%M"),
    ("18:15", "%H:%M", "18:15:00", "%H:%M:%S"),
    ("18:15:00", "%H:%M:%S", "18:15", "%H:%M"),
    ("3:30 PM", "%H:%M %p", "03:30", "%H:%M"),
    ("3:30 pm", "%I:%M %p", "3:30 am", "%I:%M %p"),
    ("3:30", "%I:%M", "3:30 am", "%I:%M %p"),
    ("3:30", "%I:%M", "3:30 pm", "%I:%M %p"),
    ("18:15 am", "%H:%M %p", "18:15", "%H:%M"),
    ("Monday, May 3, 2024", "%A, %B %d, %Y", "2024-05-03", "%Y-%m-%d"),
    ("18:15", None, "18:15", "%H:%M"),
    (1815, "%H%M", "18:15", "%H:%M"),
    ("3 3", "%d %d", "03", "%d"),
    ("18:15 +0100", "%H:%M %z", "18:15", "%H:%M"),
    ("1" * 10_000, "%H", "18", "%H"),
]


@pytest.mark.parametrize(("predict", "pformat", "target", "tformat"), EQUAL, ids=str)
def test_two_ways_to_write_one_time_are_equal(predict, pformat, target, tformat):
    assert time_verify(predict, pformat=pformat, target=target, tformat=tformat) == 1


@pytest.mark.parametrize(("predict", "pformat", "target", "tformat"), DIFFERENT, ids=lambda value: str(value)[:20])
def test_other_times_and_unreadable_answers_score_nothing(predict, pformat, target, tformat):
    assert time_verify(predict, pformat=pformat, target=target, tformat=tformat) == 0


NO_TARGETS = [
    ("25:00", "%H:%M"), ("18:15", "%Q"), ("", ""), (1815, "%H%M"), ("18:15", None), ("3 3", "%d %d"),
    ("noon", "noon"), ("5%", "5%%"), ("Friday", "%A"), ("Fri 3", "%a %d"), ("5 2024", "%w %Y"), ("12 24", "%U %y"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "tformat"), NO_TARGETS, ids=str)
def test_a_target_that_does_not_fit_its_format_or_names_a_weekday_cannot_be_verified(target, tformat):
    with pytest.raises(CannotVerify):
        time_verify("18:15", pformat="%H:%M", target=target, tformat=tformat)


def test_a_percent_sign_before_a_letter_is_no_weekday():
    assert time_verify("5%a", pformat="%d%%a", target="5%a", tformat="%d%%a") == 1


@given(st.datetimes())
def test_a_time_equals_itself_in_another_notation(time):
    score = time_verify(
        time.strftime("%d.%m.") + f"{time.year:04} " + time.strftime("%I:%M:%S.%f %p"),
        pformat="%d.%m.%Y %I:%M:%S.%f %p",
        target=f"{time.year:04}" + time.strftime("-%jT%H%M%S,%f"),
        tformat="%Y-%jT%H%M%S,%f",
    )
    assert score == 1
