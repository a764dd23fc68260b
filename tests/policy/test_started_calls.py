"""Rewards whose calls for some rows start before their batch is whole."""

import asyncio

import pytest
from coloured_squares import square

from rubricworks.adapters.captions import CaptionRewards
from rubricworks.adapters.trl import RubricReward
from rubricworks.policy.rewards.exam import ExamAccuracy
from rubricworks.policy.rewards.likert import LikertRating
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict

CAPTIONS = ["a red square", "a blue square", "a red square", "nothing"]
RUBRIC = Rubric(criteria=(Criterion(criterion="red", evaluation_rule="passes if red is named", weight=1),))
COLUMNS = {
    "sample_id": ["a", "a", "b", "b"],
    "rubric": [RUBRIC] * 4,
    "reference": ["a red square"] * 4,
    "image_bytes": [square("top-left", "red")] * 4,
}
ENDED = [2, 0]


class Recorded:
    """Grader, taker and judge in one that records what it is asked for, and answers once it may."""

    exposure = "text"

    def __init__(self):
        self.asked = []

    async def grade(self, sample, response, rubric):
        self.asked.append((sample.sample_id, response.text))
        verdicts = (Verdict(criterion="red", credit=float("red" in response.text)),)
        return Scorecard(sample_id=sample.sample_id, response=response, judge="j", verdicts=verdicts)

    async def take(self, sample_id, caption, exam):
        self.asked.append((sample_id, caption))
        return type("Result", (), {"accuracy": float("red" in caption), "answers": (1,)})

    async def chat(self, messages, read):
        self.asked.append(messages[1]["content"][-1]["text"])
        return type("Reply", (), {"value": 10 * ("red" in self.asked[-1])})


def rubric_reward(judge):
    return RubricReward(judge)


def exam_reward(judge):
    return ExamAccuracy(judge, {"a": None, "b": None})


def likert_reward(judge):
    return LikertRating(judge, None, pytest.fail, lambda ratings: None)


@pytest.mark.parametrize("kind", [rubric_reward, exam_reward, likert_reward])
def test_rows_that_started_are_not_asked_again_and_keep_their_places(kind):
    judge = Recorded()

    async def train():
        reward = kind(judge)
        of_ended = {name: [values[row] for row in ENDED] for name, values in COLUMNS.items()}
        await reward.start(ENDED, ["p"] * 2, [CAPTIONS[row] for row in ENDED], **of_ended)
        await asyncio.sleep(0)
        asked = len(judge.asked)
        first = await reward(["p"] * 4, CAPTIONS, **COLUMNS)
        return asked, first, await reward(["p"] * 4, CAPTIONS, **COLUMNS)

    asked, first, second = asyncio.run(train())
    assert asked == 2
    assert first == second == [1.0, 0.0, 1.0, 0.0]
    assert len(judge.asked) == 2 * len(CAPTIONS)
    assert sorted(map(str, judge.asked[:4])) == sorted(map(str, judge.asked[4:]))


def test_a_row_that_ended_otherwise_than_it_started_is_asked_anew():
    judge = Recorded()

    async def train():
        reward = rubric_reward(judge)
        of_first = {name: values[:1] for name, values in COLUMNS.items()}
        await reward.start([0], ["p"], ["a green square"], **of_first)
        return await reward(["p"] * 4, CAPTIONS, **COLUMNS)

    assert asyncio.run(train()) == [1.0, 0.0, 1.0, 0.0]


def test_captions_that_started_are_graded_once_for_the_three_rewards():
    class Held(Recorded):
        async def grade(self, sample_id, image, caption, reference):
            self.asked.append((sample_id, caption))
            if len(self.asked) == len(CAPTIONS):
                self.all_asked.set()
            await asyncio.Event().wait()

    async def train():
        judge.all_asked = asyncio.Event()
        rewards = CaptionRewards(judge, count_tokens=len)
        of_ended = {name: [values[row] for row in ENDED] for name, values in COLUMNS.items()}
        await rewards.start(ENDED, ["p"] * 2, [CAPTIONS[row] for row in ENDED], **of_ended)
        calls = [asyncio.ensure_future(part(["p"] * 4, CAPTIONS, **COLUMNS)) for part in rewards.functions]
        await judge.all_asked.wait()
        for call in calls:
            call.cancel()
        return await asyncio.gather(*calls, return_exceptions=True)

    judge = Held()
    asyncio.run(train())
    assert judge.asked == [("b", CAPTIONS[2]), ("a", CAPTIONS[0]), ("a", CAPTIONS[1]), ("b", CAPTIONS[3])]
