"""CaptionRewards as TRL calls them: three functions at once over the same rows, one grading of each caption."""

import asyncio
import base64
import io

import pytest
from caption_judge import TRUTH, judge, rewards_by_hand, shown_in
from coloured_squares import COLOURS, square
from PIL import Image

from rubricworks.adapters.captions import CaptionLengths, CaptionRewards, LengthPenalty
from rubricworks.adapters.rows import completion_text
from rubricworks.errors import UserError
from rubricworks.grading import AssertionGrader, GradedCaption
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rubrics import CaptionAssertions, ErrorClass, Response

RED = square("top-left", "red")
REFERENCE = "at top-left a red square ."
CAPTIONS = [REFERENCE, "a blue square .", "a square a square a square", "here a red square .", "…"]
COUNT = len
"""Lengths in characters, where they do not matter."""


def columns_of(captions, **more):
    count = len(captions)
    return {"image_bytes": [RED] * count, "reference": [REFERENCE] * count, "sample_id": ["s"] * count, **more}


async def at_once(rewards, captions, columns):
    """Call the reward functions concurrently, as TRL does; the prompts are not used."""
    reward_calls = (
        function(prompts=["p"] * len(captions), completions=captions, **columns) for function in rewards.functions
    )
    return await asyncio.gather(*reward_calls)


def served(server, captions, columns, **options):
    async def run():
        grades = []
        async with ChatClient(Endpoint(url=server.url, model="j"), attempts=1) as client:
            settings = {"count_tokens": COUNT, "sink": grades.extend, **options}
            rewards = CaptionRewards(AssertionGrader(client), **settings)
            return await at_once(rewards, captions, columns), grades

    return asyncio.run(run())


class Grading(AssertionGrader):
    """Counts what it is asked for, and takes its time."""

    def __init__(self, hold=None):
        self.asked, self.hold = [], hold

    async def grade(self, sample_id, image, caption, reference):
        self.asked.append((sample_id, image, caption))
        if self.hold is not None:
            await self.hold.wait()
        if caption == "break":
            raise UserError("broken")
        if caption == "lost":
            return GradedCaption(
                sample_id=sample_id, caption=caption, reference=reference, judge="g", error=ErrorClass.TRANSPORT
            )
        features = {name: 10 for name in ("clarity_score", "fluency_score", "coherency_score")}
        assertions = {
            "synthetic_features": {
                "atomic_assertions": [{"text": caption, "is_verified": True}],
                "linguistic_scores_explanation": "",
                **features,
            },
            "gt_features": {"atomic_assertions": [{"text": "r", "is_covered": False}]},
        }
        return GradedCaption(
            sample_id=sample_id,
            caption=caption,
            reference=reference,
            judge="g",
            assertions=CaptionAssertions.model_validate(assertions),
        )


def test_the_three_rewards_are_shares_and_ratings_of_one_call_for_each_caption(serve):
    server = serve(judge)
    rewards, grades = served(server, CAPTIONS, columns_of(CAPTIONS), gate=None)
    by_hand = [rewards_by_hand(caption, REFERENCE, TRUTH[RED]) for caption in CAPTIONS]
    assert by_hand[0] == pytest.approx((1, 1, (9 + 5 + 3) / 27))
    for which, values in enumerate(rewards):
        assert values == [None if row is None else pytest.approx(row[which]) for row in by_hand]
    assert [grade.graded.caption for grade in grades] == CAPTIONS
    assert len(server.chats) == 4  # the caption without words takes no call


def test_caption_whose_judge_fails_has_none_of_the_three_scores(serve):
    rewards, grades = served(serve(judge), CAPTIONS, columns_of(CAPTIONS))
    assert [[value is None for value in values] for values in rewards] == [[False, False, False, True, False]] * 3
    assert grades[3].graded.error is not None


def test_outside_the_gate_the_linguistic_reward_is_0_and_the_others_stay(serve):
    """Lengths by the ids without the one that ends a response: rho is 1, 2, 2.2, 0.6 and 0.4."""
    captions = [REFERENCE] * 5
    ids = [[1] * 5 + [9], [1] * 10 + [9], [1] * 11 + [9], [1] * 3, [1, 2, 9, 9]]
    options = {"count_tokens": lambda text: 5, "end_tokens": {9}}
    rewards, grades = served(serve(judge), captions, columns_of(captions, completion_ids=ids), **options)
    whole = 17 / 27
    assert rewards[2] == pytest.approx([whole, whole, 0, whole, 0])
    assert rewards[0] == rewards[1] == [1.0] * 5
    assert [grade.gate_shut for grade in grades] == [False, False, True, False, True]
    assert [grade.lengths for grade in grades] == [(5, 5), (10, 5), (11, 5), (3, 5), (2, 5)]
    assert all(grade.graded.scores.linguistic == pytest.approx(whole) for grade in grades)  # as the judge said
    rewards, _ = served(serve(judge), captions, columns_of(captions, completion_ids=ids), **options, gate=(0, 3))
    assert rewards[2] == pytest.approx([whole] * 5)


def test_without_completion_ids_lengths_are_counted_from_the_text():
    lengths = CaptionLengths(lambda text: len(text.split()), end_tokens={9})
    chat = [{"role": "assistant", "content": "one two three"}]
    assert lengths.measure(["one", chat], {"reference": ["a b", "a"]}) == [(1, 2), (3, 1)]


def test_judge_sees_the_image_as_given_or_else_decoded(serve):
    server = serve(judge)
    picture = Image.open(io.BytesIO(RED))
    noisy = io.BytesIO()
    picture.convert("RGB").save(noisy, "JPEG")
    served(server, ["a"], columns_of(["a"], image=[Image.open(noisy)]))
    assert shown_in(server.chats[-1].body)[0] == RED
    columns = columns_of(["a"], image=[picture])
    del columns["image_bytes"]

    def by_pixels(_, body):
        image, _ = shown_in(body)
        assert Image.open(io.BytesIO(image)).getpixel((5, 5)) == COLOURS["red"]
        part = body["messages"][1]["content"][0]
        part["image_url"]["url"] = f"data:image/png;base64,{base64.b64encode(RED).decode()}"
        return judge(0, body)

    rewards, _ = served(serve(by_pixels), ["a"], columns)
    assert rewards[0] == [1.0]


def test_every_batch_is_graded_even_one_of_the_same_captions():
    async def run():
        grader, batches = Grading(), []
        rewards = CaptionRewards(grader, count_tokens=COUNT, sink=batches.append)
        columns = columns_of(["a", "b"])
        await at_once(rewards, ["a", "b"], columns)
        assert len(grader.asked) == 2
        await at_once(rewards, ["a", "b"], columns)
        assert len(grader.asked) == 4
        await at_once(rewards, ["a", "c"], columns)
        assert [[grade.graded.caption for grade in batch] for batch in batches] == [["a", "b"], ["a", "b"], ["a", "c"]]

    asyncio.run(run())


def test_calls_from_separate_loops_share_one_grading():
    grader = Grading()
    rewards = CaptionRewards(grader, count_tokens=COUNT, gate=None)
    columns = columns_of(["a", "lost"])
    reward_lists = [
        asyncio.run(function(prompts=["p"] * 2, completions=["a", "lost"], **columns)) for function in rewards.functions
    ]
    assert reward_lists == [[1.0, None], [0.0, None], [1.0, None]]
    assert len(grader.asked) == 2


def test_cancelled_caller_leaves_the_grading_to_the_others():
    async def run(cancelled):
        hold = asyncio.Event()
        grader, grades = Grading(hold), []
        rewards = CaptionRewards(grader, count_tokens=COUNT, gate=None, sink=grades.extend)
        columns = columns_of(["a"])
        tasks = [
            asyncio.create_task(function(prompts=["p"], completions=["a"], **columns)) for function in rewards.functions
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for which in cancelled:
            tasks[which].cancel()
        await asyncio.sleep(0.01)
        hold.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        assert len(grader.asked) == 1
        return outcomes, grades

    outcomes, graded = asyncio.run(run([0]))
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1:] == [[0.0], [1.0]]
    assert len(graded) == 1
    outcomes, graded = asyncio.run(run([0, 1, 2]))
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    assert graded == []


def test_graders_error_reaches_every_function_and_the_next_batch_is_new():
    async def run():
        rewards = CaptionRewards(Grading(), count_tokens=COUNT, gate=None)
        columns = columns_of(["break"])
        reward_calls = (function(prompts=["p"], completions=["break"], **columns) for function in rewards.functions)
        outcomes = await asyncio.gather(*reward_calls, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["broken"] * 3
        assert await at_once(rewards, ["a"], columns_of(["a"])) == [[1.0], [0.0], [1.0]]

    asyncio.run(run())


def test_metrics_of_a_batch_are_logged_once():
    logged = []

    async def run():
        rewards = CaptionRewards(Grading(), count_tokens=COUNT, gate=(0.0, 0.2))
        captions = ["a", "lost", "a", "far too long a caption of nothing"]
        columns = columns_of(captions, log_metric=lambda name, value: logged.append((name, value)))
        await at_once(rewards, captions, columns)

    asyncio.run(run())
    assert logged == [("captions/unjudged", 0.25), ("captions/gated", 0.25)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"reference": ["", ""]}, "sample s: its reference is empty"),
        ({"reference": ["r", None]}, "sample s: its reference is None; give one caption as text"),
        ({"reference": [["r"], "r"]}, r"sample s: its reference is \['r'\]"),
        ({"reference": None}, "no column 'reference'"),
        ({"image_bytes": None}, "no column 'image_bytes'"),
        ({"image_bytes": [[RED, RED], RED]}, "sample s: its row has 2 images, and a caption is of one"),
    ],
)
def test_rows_that_cannot_be_graded_are_one_clear_error(columns, message):
    rows = {name: value for name, value in columns_of(["a", "b"], **columns).items() if value is not None}
    rewards = CaptionRewards(Grading(), count_tokens=COUNT)
    with pytest.raises(UserError, match=message):
        asyncio.run(at_once(rewards, ["a", "b"], rows))


def test_rows_of_one_name_are_each_shown_their_own_image():
    grading = Grading()
    blue = square("top-left", "blue")
    columns = columns_of(["a", "b", "c"], image_bytes=[RED, blue, blue])
    asyncio.run(at_once(CaptionRewards(grading, count_tokens=COUNT), ["a", "b", "c"], columns))
    assert [image for _, image, _ in grading.asked] == [RED, blue, blue]


def test_a_gate_that_is_no_range_is_refused_before_a_judge_is_asked():
    with pytest.raises(ValueError, match="lower"):
        CaptionRewards(Grading(), count_tokens=COUNT, gate=(2.0, 0.5))


def test_the_linear_penalty_is_the_distance_to_the_range_times_its_scale():
    lengths = CaptionLengths(lambda text: len(text.split()))
    penalty = LengthPenalty(lengths, lower=0.5, upper=2.0, scale=0.4)
    captions = ["", "a", "a b", "a b c d", "a b c d e f"]
    penalties = penalty(prompts=["p"] * 5, completions=captions, reference=["r s"] * 5)
    assert penalties == pytest.approx([0.4 * 0.5, 0, 0, 0, 0.4 * 1])


def test_a_reward_of_captions_refuses_an_image():
    with pytest.raises(UserError, match="this reward reads text, and the response is an image"):
        completion_text(Response.of_image(b"\x89PNG"))
    assert completion_text(Response("a caption")) == "a caption"
