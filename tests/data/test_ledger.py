"""The ledger of a run as it may be: cut off by a kill, without times, with times that cannot be meant."""

from datetime import UTC, datetime

from rubricworks.data.ledger import first_start, parse_ledger, stage_ends

NOON = "2026-03-01T12:00:00.000+00:00"


def test_half_a_line_and_lines_of_no_stage_are_skipped():
    content = b'{"stage": "prepare", "seconds": 2}\n[1]\n{"seconds": 1}\n{"stage": "warm_up", "seco'
    assert parse_ledger(content) == [{"stage": "prepare", "seconds": 2}]


def test_a_stages_end_is_its_last_and_the_start_that_of_the_first():
    lines = [
        {"stage": "prepare", "seconds": 60, "ended": NOON},
        {"stage": "score", "seconds": 1, "ended": "2026-03-01T13:00:00+00:00"},
        {"stage": "prepare", "seconds": 5, "ended": "2026-03-01T14:00:00+00:00"},
    ]
    ends = stage_ends(lines)
    assert {stage: end.hour for stage, end in ends.items()} == {"prepare": 14, "score": 13}
    assert first_start(lines) == datetime(2026, 3, 1, 11, 59, tzinfo=UTC)


def test_times_that_cannot_be_meant_are_none():
    for ended in (
        None,
        "",
        "yesterday",
        "0001-01-01T00:00:00+00:00",
        "9999-12-31T23:59:59+00:00",
        "2026-03-01T12:00:00",
    ):
        assert stage_ends([{"stage": "prepare", "seconds": 1, "ended": ended}]) == {}
    for seconds in (None, "1", -1, 1e300):
        assert first_start([{"stage": "prepare", "seconds": seconds, "ended": NOON}]) is None
