"""The corpus's row of Table 1 against counting by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.evaluation.corpus_statistics import CorpusStatistics, GradedSample, SourceCounts, corpus_statistics

SOURCE = SourceCounts(
    name="x", raw=20, unusable=1, duplicates=3, deduplicated=16, mcq_ratio=0.5, splits={"train": 10}, tasks={}
)
rewards = st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0])
samples = st.builds(
    # An essential criterion is a criterion: who has no credit on one has none on any of them.
    lambda mcq, any_, essential, reward: GradedSample(mcq, any_ or essential, essential, reward),
    *(st.booleans(), st.booleans(), st.booleans(), rewards),
)


def mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


@given(st.lists(samples, max_size=30), st.sampled_from(["any", "essential", "all"]))
def test_row_is_what_counting_gives(rows, rule):
    row = corpus_statistics(iter(rows), rule, SOURCE)
    judged = [row for row in rows if row.initial_reward is not None]
    by_rule = {
        "any": [row for row in judged if row.any],
        "essential": [row for row in judged if row.essential],
        "all": judged,
    }
    rows_of_rule = by_rule[rule]
    assert (row.name, row.raw, row.deduplicated, row.mcq_deduplicated) == ("x", 20, 16, 0.5)
    assert (row.train, row.graded, row.kept, row.rule) == (len(rows), len(judged), len(rows_of_rule), rule)
    assert (row.filtered_any, row.filtered_essential) == (len(by_rule["any"]), len(by_rule["essential"]))
    assert row.filtered_essential <= row.filtered_any <= row.graded
    for result, values in (
        (row.mcq_converted, [float(row.multiple_choice) for row in rows]),
        (row.mcq_filtered, [float(of_rule.multiple_choice) for of_rule in rows_of_rule]),
        (row.initial_reward_converted, [row.initial_reward for row in judged]),
        (row.initial_reward_filtered, [of_rule.initial_reward for of_rule in rows_of_rule]),
    ):
        assert result == pytest.approx(mean(values))
    assert CorpusStatistics.model_validate_json(row.model_dump_json()) == row


def test_example_by_hand():
    rows = [
        GradedSample(True, any=True, essential=True, initial_reward=0.2),
        GradedSample(False, any=True, initial_reward=0.6),
        GradedSample(False, initial_reward=1.0),
        GradedSample(True, any=True, essential=True),  # no rollout could be judged
    ]
    row = corpus_statistics(rows, "essential")
    expected = {"filtered_any": 2, "filtered_essential": 1, "kept": 1, "graded": 3, "train": 4}
    assert {name: getattr(row, name) for name in expected} == expected
    assert (row.mcq_converted, row.mcq_filtered) == (0.5, 1.0)
    assert row.initial_reward_converted == pytest.approx(0.6)
    assert row.initial_reward_filtered == 0.2
    assert (row.name, row.raw, row.deduplicated, row.mcq_deduplicated) == ("", None, None, None)


def test_nothing_kept_has_no_mean_and_no_ratio():
    row = corpus_statistics([GradedSample(True, initial_reward=1.0)], "any")
    assert (row.kept, row.mcq_filtered, row.initial_reward_filtered) == (0, None, None)
