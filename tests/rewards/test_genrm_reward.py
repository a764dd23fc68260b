"""The reward of a GenRM in training, by hand."""

import pytest

from rubricworks.rewards.genrm import genrm_reward


def test_form_and_content_weigh_the_same():
    reward = genrm_reward(True, [1.0, 0.0, 0.5, 1.0])
    assert (reward.format, reward.content) == (1.0, 0.625)
    assert reward.total == (1 + 0.625) / 2


def test_output_that_cannot_be_read_earns_0_and_not_none():
    assert genrm_reward(False, [0.0, 0.0]).total == 0.0


def test_valid_output_with_nothing_right_earns_the_form_alone():
    assert genrm_reward(True, [0.0]).total == 0.5


def test_entries_beyond_the_checklist_dilute_the_content():
    assert genrm_reward(True, [1.0, 1.0], surplus=2).content == 0.5


@pytest.mark.parametrize("scores", [[], [1.5], [-0.1], [float("nan")]])
def test_impossible_scores_are_refused(scores):
    with pytest.raises(ValueError, match="score"):
        genrm_reward(True, scores)
