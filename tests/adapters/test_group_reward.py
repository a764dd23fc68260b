"""GroupReward as TRL calls it, over the grader that needs no server."""

import asyncio

import pytest

from rubricworks.adapters.trl import GroupReward, RubricReward
from rubricworks.errors import UserError
from rubricworks.grading.boxed import BoxedGrader, answer_rubric
from rubricworks.rubrics import Criterion, ErrorClass, Response, Rubric

BOXES = Rubric(
    criteria=(
        Criterion(criterion="the box", reference="bbox_verify(target=[[0, 0, 100, 100]])", weight=3),
        Criterion(criterion="again", reference="bbox_verify(target=[[0, 0, 100, 50]])", weight=1, essential=False),
    )
)
WHOLE, HALF, NONE = r"\boxed{[[0, 0, 100, 100]]}", r"\boxed{[[0, 0, 100, 50]]}", "nowhere"


def rewarded(completions, rubric, **options):
    reward = options.pop("kind", GroupReward)(BoxedGrader(), **options)
    ids = options.get("ids", [[1]] * len(completions))
    columns = {"rubric": [rubric] * len(completions), "completion_ids": ids}
    return asyncio.run(reward.score(["Where is it?"] * len(completions), completions, **columns))


def test_scores_are_remapped_within_the_group_and_gated_by_essential_criteria():
    values, cards = rewarded([WHOLE, HALF, NONE, NONE], BOXES, group_size=4)
    # Raw credits: (1, 0.5), (0.5, 1), (0, 0), (0, 0); both criteria already span [0, 1], so remapping keeps them.
    assert values == [pytest.approx((3 + 0.5) / 4), pytest.approx((1.5 + 1) / 4), 0, 0]
    assert [card.credits for card in cards] == [[1, 0.5], [0.5, 1], [0, 0], [0, 0]]


def test_groups_are_remapped_each_on_its_own():
    values, _ = rewarded([HALF, HALF, WHOLE, NONE], BOXES, group_size=2)
    # First group: 0.5 everywhere stays 0.5, 1 everywhere stays 1. Second: 0.5 and 0 span [0, 0.5], as none passed.
    assert values == [pytest.approx((1.5 + 1) / 4)] * 2 + [pytest.approx((3 + 0.5) / 4), 0]


def test_ablations_leave_out_remapping_gate_and_mask():
    looping = "no " * 40 + WHOLE
    assert rewarded([looping, NONE], BOXES, group_size=2)[0] == [0, 0]
    assert rewarded([looping, NONE], BOXES, group_size=2, mask=False)[0][0] == pytest.approx(0.875)
    plain, _ = rewarded([WHOLE, HALF], BOXES, group_size=2, remap=False, gate=False, mask=False)
    weighted, _ = rewarded([WHOLE, HALF], BOXES, kind=RubricReward)
    assert plain == weighted == [pytest.approx(0.875), pytest.approx(0.625)]


def test_response_that_fills_the_token_cap_earns_nothing():
    reward = GroupReward(BoxedGrader(), group_size=2, max_tokens=4)
    columns = {"rubric": [BOXES] * 2, "completion_ids": [[1, 2, 3, 4], [1, 2, 3]]}
    assert asyncio.run(reward(prompts=["?"] * 2, completions=[WHOLE] * 2, **columns)) == [0, 0.875]


@pytest.mark.parametrize(
    ("ids", "earned"), [([1, 2, 3, 9], 0.875), ([1, 2, 9, 3], 0), ([1, 2, 3, 4, 9], 0), ([1, 9], 0.875), ([], 0.875)]
)
def test_response_that_ends_exactly_at_the_token_cap_is_whole(ids, earned):
    reward = GroupReward(BoxedGrader(), group_size=2, max_tokens=4, end_ids=[8, 9])
    columns = {"rubric": [BOXES] * 2, "completion_ids": [ids, [1, 2, 3, 4]]}
    assert asyncio.run(reward(prompts=["?"] * 2, completions=[WHOLE] * 2, **columns)) == [earned, 0]


def test_group_torn_apart_is_refused_not_rewarded():
    other = answer_rubric("3")
    with pytest.raises(UserError, match="not one group"):
        rewarded([WHOLE] * 3, BOXES, group_size=2)
    reward = GroupReward(BoxedGrader(), group_size=2)
    with pytest.raises(UserError, match="rows 0 to 1"):
        asyncio.run(reward(prompts=["?"] * 2, completions=[WHOLE] * 2, rubric=[BOXES, other]))


def test_pitfalls_are_refused_by_the_gate():
    pitfall = BOXES.criteria[1].model_copy(update={"weight": -1.0})
    with pytest.raises(UserError, match="negative weight"):
        rewarded([WHOLE, NONE], Rubric(criteria=(BOXES.criteria[0], pitfall)), group_size=2)


def test_target_that_cannot_be_read_is_an_error_and_no_number():
    rubric = Rubric(criteria=(Criterion(criterion="the box", reference="bbox_verify(target=[['a']])", weight=1),))
    values, cards = rewarded([WHOLE, NONE], rubric, group_size=2)
    assert cards[0].verdicts[0].error is ErrorClass.UNVERIFIABLE
    assert values[0] is None


def test_rlvr_is_one_verifiable_criterion_and_words_match_whole():
    values, _ = rewarded([r"\boxed{left}", r"\boxed{right}", r"\boxed{ Left. }"], answer_rubric("left"), group_size=3)
    assert values == [1, 0, 1]
    with pytest.raises(ValueError, match="empty"):
        answer_rubric("  ")


def test_a_verifiers_name_is_no_leave_to_answer_in_english():
    rubric = Rubric(criteria=(Criterion(criterion="数量", reference="expr_verify(target='4')", weight=1),))
    answers = [r"桌子上共有四个红色的杯子。\boxed{4}", r"There are four red cups on the table. \boxed{4}"]
    reward = GroupReward(BoxedGrader(), group_size=2)
    columns = {"rubric": [rubric] * 2, "question": ["有几个红杯子?"] * 2}
    assert asyncio.run(reward(prompts=["看图"] * 2, completions=answers, **columns)) == [1, 0]


def test_images_are_refused_by_what_reads_text_alone():
    with pytest.raises(UserError, match="sample row-0: the last box reads text, and the response is an image"):
        rewarded([Response.of_image(b"\x89PNG"), WHOLE], BOXES, group_size=2)


def conversation(*turns):
    return [{"role": role, "content": content} for role, content in turns]


def test_of_a_conversation_the_last_reply_is_rewarded_or_all_turns():
    talk, silent = conversation(("assistant", WHOLE), ("user", "Sure?"), ("assistant", "Yes.")), NONE
    assert rewarded([talk, silent], BOXES, group_size=2)[0] == [0, 0]
    values, cards = rewarded([talk, silent], BOXES, group_size=2, view="full_trace")
    assert values == [pytest.approx(0.875), 0]
    assert cards[0].response == f"assistant: {WHOLE}\n\nuser: Sure?\n\nassistant: Yes."


def test_the_mask_reads_what_the_policy_says_and_not_what_a_tool_does():
    loop = "no " * 45
    of_tool = conversation(("assistant", "I look."), ("tool", loop), ("assistant", WHOLE))
    of_policy = conversation(("assistant", loop), ("tool", "a box"), ("assistant", WHOLE))
    group = [of_tool, of_policy]
    assert rewarded(group, BOXES, group_size=2, view="full_trace")[0] == [pytest.approx(0.875), 0]
    assert rewarded(group, BOXES, group_size=2, view="full_trace", mask=False)[0] == [pytest.approx(0.875)] * 2
    assert rewarded(group, BOXES, group_size=2)[0] == [pytest.approx(0.875)] * 2
    assert rewarded([loop + WHOLE, WHOLE], BOXES, group_size=2, view="full_trace")[0] == [0, pytest.approx(0.875)]
