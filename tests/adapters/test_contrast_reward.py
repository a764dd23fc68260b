"""ContrastReward as TRL calls it: one group's verdicts set the weights of its rewards."""

import asyncio
import pickle

import pytest

from rubricworks.adapters.trl import ContrastReward, RubricReward
from rubricworks.errors import UserError
from rubricworks.rewards import Contrast
from rubricworks.rubrics import Criterion, ErrorClass, Response, Rubric, Scorecard, Verdict

RED, CIRCLE, PADDING = (
    Criterion(criterion=title, weight=weight) for title, weight in (("red", 3), ("circle", 1), ("lovely", -2))
)
RUBRIC = Rubric(criteria=(RED, CIRCLE))
GROUP = ["a red circle", "a red square", "red", "red circle"]
"""All name red; half name the circle: the weights (3, 1) become (1.5, 2.5), as factors are 0.5 and 2.5."""


class WordGrader:
    """A criterion is met by the response that holds its title; an outage judges nothing."""

    exposure, judges = "text", ()

    async def grade(self, sample, response, rubric):
        text = str(response)
        verdicts = [
            Verdict(criterion=criterion.criterion, error=ErrorClass.TRANSPORT)
            if "outage" in text
            else Verdict(criterion=criterion.criterion, credit=float(criterion.criterion in text))
            for criterion in rubric.criteria
        ]
        return Scorecard(
            sample_id=sample.sample_id, response=Response.of(response), judge="words", verdicts=tuple(verdicts)
        )


def rewarded(completions, rubrics, kind=ContrastReward, **options):
    if kind is ContrastReward:
        options = {"group_size": 4} | options
    reward = kind(WordGrader(), **options)
    return asyncio.run(reward.score(["p"] * len(completions), completions, rubric=rubrics)).rewards


def test_what_separates_a_group_counts_more_in_its_rewards():
    assert rewarded(GROUP, [RUBRIC] * 4, RubricReward) == [1.0, 0.75, 0.75, 1.0]
    assert rewarded(GROUP, [RUBRIC] * 4) == pytest.approx([1.0, 1.5 / 4, 1.5 / 4, 1.0])
    mild = rewarded(GROUP, [RUBRIC] * 4, contrast=Contrast(strength=0.1))
    assert mild == pytest.approx([1.0, 2.7 / 4, 2.7 / 4, 1.0])


def test_each_group_has_weights_of_its_own():
    other = ["a circle", "a red circle", "the circle", "circle"]
    rewards = rewarded(GROUP + other, [RUBRIC] * 8)
    # There red separates: variance 3/16 of a mean of 9/64, ratio 4/3; factors 7/6 and 1/2, weights 3.5 and 0.5.
    assert rewards == pytest.approx([1.0, 1.5 / 4, 1.5 / 4, 1.0, 0.5 / 4, 1.0, 0.5 / 4, 0.5 / 4])


def test_a_rollout_that_was_not_judged_has_no_reward_and_no_part_in_the_weights():
    rewards = rewarded(["a red circle", "a red square", "red", "outage"], [RUBRIC] * 4)
    assert rewards == [pytest.approx(1.0), pytest.approx(1.5 / 4), pytest.approx(1.5 / 4), None]
    assert rewarded(["outage"] * 4, [RUBRIC] * 4) == [None] * 4


def test_a_pitfall_that_some_meet_takes_away_what_it_did():
    rubric = Rubric(criteria=(RED, CIRCLE, PADDING))
    rewards = rewarded(["a lovely red circle", *GROUP[1:]], [rubric] * 4)
    assert rewards == pytest.approx([1.0 - 2 / 4, 1.5 / 4, 1.5 / 4, 1.0])


def test_a_group_of_one_and_a_group_torn_apart_are_refused():
    with pytest.raises(UserError, match="group_size is 1: weights by contrast need groups of at least 2"):
        ContrastReward(WordGrader(), group_size=1)
    with pytest.raises(UserError, match="rows 4 to 7 of the batch are not one group of 4"):
        rewarded([*GROUP, "red"], [RUBRIC] * 5)
    with pytest.raises(UserError, match="rows 0 to 3"):
        rewarded(GROUP, [RUBRIC] * 3 + [Rubric(criteria=(RED,))])


def test_it_can_be_pickled_for_another_process():
    reward = pickle.loads(pickle.dumps(ContrastReward(WordGrader(), group_size=2, contrast=Contrast(strength=0.3))))
    assert (reward.group_size, reward.contrast.strength) == (2, 0.3)


def test_all_turns_of_conversations_set_the_weights_where_they_are_graded():
    def conversation(text):
        return [
            {"role": "assistant", "content": text},
            {"role": "user", "content": "Sure?"},
            {"role": "assistant", "content": "yes"},
        ]

    group = [conversation(text) for text in GROUP]
    assert rewarded(group, [RUBRIC] * 4) == [0, 0, 0, 0]
    assert rewarded(group, [RUBRIC] * 4, view="full_trace") == rewarded(GROUP, [RUBRIC] * 4)
