"""RubricReward as TRL calls it: rows in, one number or None a row out."""

import asyncio
import io
import json
import re

import numpy as np
import pytest
from image_judge import COLOUR_RUBRIC, colour_judge, images_in, main_colour, plain_image
from PIL import Image
from scripted_server import fail, say

from rubricworks.adapters.trl import RubricReward
from rubricworks.errors import UserError
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Criterion, ErrorClass, Response, Rubric, Scorecard, Verdict

RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="red", evaluation_rule="passes if red is named", weight=3),
        Criterion(criterion="circle", evaluation_rule="passes if a circle is named", weight=1),
    )
)
OTHER = Rubric(criteria=(Criterion(criterion="blue", evaluation_rule="passes if blue is named", weight=2),))


def word_judge(_, body):
    """Meets a criterion when the caption holds its title; breaks down over "outage"."""
    user = body["messages"][1]["content"]
    text = user if isinstance(user, str) else user[-1]["text"]
    caption = text.split("<caption>\n")[1]
    if "outage" in caption:
        return fail(400)
    criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    verdicts = [{"id": c["id"], "reasoning": "looked", "score": int(c["criterion"] in caption)} for c in criteria]
    return say(json.dumps({"verdicts": verdicts}))


def reward_rows(server, completions, columns, *, exposure="text", **options):
    async def run():
        async with ChatClient(Endpoint(url=server.url, model="j"), attempts=1) as client:
            reward = RubricReward(Grader(client, exposure=exposure), **options)
            return await reward.score(["p"] * len(completions), completions, **columns)

    return asyncio.run(run())


def test_the_reward_is_the_share_of_the_weight_that_was_met(serve):
    text = RUBRIC.model_dump_json()
    values, cards = reward_rows(
        serve(word_judge),
        ["a red circle", "a red square", "one circle", ""],
        {"rubric": [text] * 4, "sample_id": ["a", "a", "b", "b"], "completion_ids": [[1]] * 4},
    )
    assert values == [1.0, 0.75, 0.25, 0.0]
    assert [card.sample_id for card in cards] == ["a", "a", "b", "b"]
    assert [card.response for card in cards] == ["a red circle", "a red square", "one circle", ""]


def test_a_met_pitfall_takes_away_and_another_reduce_has_its_own_way(serve):
    pitfall = Criterion(criterion="blue", evaluation_rule="passes if blue is named", weight=-2)
    rubric = Rubric(criteria=(*RUBRIC.criteria, pitfall))
    columns = {"rubric": [rubric] * 3}
    server, captions = serve(word_judge), ["a red circle", "a red circle on blue", "blue"]
    assert reward_rows(server, captions, columns)[0] == [1.0, 0.5, 0.0]
    worst = reward_rows(server, captions, columns, reduce=lambda credits, weights: min(weights))[0]
    assert worst == [-2.0, -2.0, -2.0]


def test_called_by_a_trainer_it_returns_numbers_and_hands_the_scorecards_to_its_sink(serve):
    server, scorecards = serve(word_judge), []

    async def run():
        async with ChatClient(Endpoint(url=server.url, model="j"), attempts=1) as client:
            reward = RubricReward(Grader(client), sink=scorecards.append)
            first = await reward(prompts=["p"] * 2, completions=["a red circle", "outage"], rubric=[RUBRIC] * 2)
            second = await reward(prompts=["p"], completions=["one circle"], rubric=[RUBRIC])
            return first, second

    assert asyncio.run(run()) == ([1.0, None], [0.25])
    assert [[card.response for card in batch] for batch in scorecards] == [["a red circle", "outage"], ["one circle"]]
    assert [batch[-1].complete for batch in scorecards] == [False, True]


def test_a_row_that_could_not_be_judged_is_none_and_the_others_keep_their_reward(serve):
    logged = []
    columns = {"rubric": [RUBRIC, RUBRIC, OTHER], "log_metric": lambda name, value: logged.append((name, value))}
    values, cards = reward_rows(serve(word_judge), ["red", "outage", "blue"], columns)
    assert values == [0.75, None, 1.0]
    assert not cards[1].complete
    assert logged == [("rubric_reward/unjudged", pytest.approx(1 / 3))]


@pytest.mark.parametrize(
    "completion",
    [
        "a red circle",
        [{"role": "assistant", "content": "a red circle"}],
        [{"role": "assistant", "content": [{"type": "text", "text": "a red "}, {"type": "text", "text": "circle"}]}],
    ],
)
@pytest.mark.parametrize("form", [RUBRIC, RUBRIC.model_dump_json(), RUBRIC.model_dump()])
def test_completions_and_rubrics_are_read_in_each_of_their_forms(serve, completion, form):
    values, cards = reward_rows(serve(word_judge), [completion], {"criteria": [form]}, rubric_column="criteria")
    assert values == [1.0]
    assert cards[0].response == "a red circle"


def test_another_way_to_reduce_a_scorecard_is_taken(serve):
    values, _ = reward_rows(
        serve(word_judge), ["red"], {"rubric": [RUBRIC]}, reduce=lambda credits, weights: min(credits)
    )
    assert values == [0.0]


def picture(kind):
    image = Image.new("RGB", (4, 4), "red")
    if kind == "pil":
        return image
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    return encoded.getvalue() if kind == "bytes" else {"bytes": encoded.getvalue(), "path": None}


@pytest.mark.parametrize("kind", ["pil", "bytes", "record"])
@pytest.mark.parametrize("column", ["image", "images"])
def test_a_judge_that_may_see_the_image_gets_it_from_the_row(serve, kind, column):
    server = serve(word_judge)
    image = picture(kind) if column == "image" else [picture(kind)]
    values, _ = reward_rows(server, ["red circle"], {"rubric": [RUBRIC], column: [image]}, exposure="image")
    assert values == [1.0]
    part = server.chats[0].body["messages"][1]["content"][0]
    assert part["image_url"]["url"].startswith("data:image/png;base64,")


def test_what_is_missing_is_named(serve):
    server = serve(word_judge)
    with pytest.raises(UserError, match="no column 'rubric'"):
        reward_rows(server, ["x"], {"prompt_id": [1]})
    with pytest.raises(UserError, match="row 1 of the batch is not a rubric"):
        reward_rows(server, ["x", "y"], {"rubric": [RUBRIC.model_dump_json(), "{}"]})
    with pytest.raises(UserError, match="the training rows have no column image_bytes, image, images"):
        reward_rows(server, ["x"], {"rubric": [RUBRIC]}, exposure="image")


def test_trl_takes_it_for_an_async_reward_with_a_name():
    from trl.trainer.utils import is_async_callable

    reward = RubricReward(Grader(ChatClient("http://127.0.0.1:1/v1", "m")))
    assert is_async_callable(reward)
    assert reward.__name__ == "rubric_reward"
    assert reward.reduce is signed_reward


def test_images_are_rewarded_like_texts_in_every_form_that_a_completion_may_have(serve):
    encoded = plain_image("red")
    pixels = Image.open(io.BytesIO(encoded))
    completions = [
        Response.of_image(encoded),
        pixels,
        encoded,
        {"bytes": encoded},
        [{"role": "assistant", "content": [{"type": "image", "image": pixels}]}],
        [{"role": "assistant", "content": [{"type": "text", "text": "Here:"}, {"type": "image", "image": encoded}]}],
    ]
    rows = {"rubric": [COLOUR_RUBRIC] * 6, "sample_id": ["a"] * 6}
    values, cards = reward_rows(serve(colour_judge), completions, rows)
    assert values == [0.5] * 6
    assert all(main_colour(card.response.image) == "red" for card in cards)
    assert cards[0].response.image == encoded


def test_an_image_that_cannot_be_read_has_no_reward(serve):
    rows = {"rubric": [COLOUR_RUBRIC] * 2, "sample_id": ["a"] * 2}
    values, _ = reward_rows(serve(colour_judge), [b"broken", Response.of_image(plain_image("green"))], rows)
    assert values == [None, pytest.approx(1 / 3)]


def test_an_image_given_by_its_address_is_refused_with_the_samples_name(serve):
    completion = [{"role": "assistant", "content": [{"type": "image", "image": "http://elsewhere/a.png"}]}]
    with pytest.raises(UserError, match="sample a7: the completion's image is str; give encoded bytes or a PIL image"):
        reward_rows(serve(colour_judge), [completion], {"rubric": [COLOUR_RUBRIC], "sample_id": ["a7"]})


def test_all_images_of_a_row_are_shown_in_their_order(serve):
    server = serve(word_judge)
    rows = {"rubric": [RUBRIC], "images": [[Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]]}
    values, _ = reward_rows(server, ["red circle"], rows, exposure="image")
    assert values == [1.0]
    assert [main_colour(image) for image in images_in(server.chats[0].body)] == ["red", "blue"]


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (b"GIF89a, but no more", "damaged image|not an image"),
        (plain_image("red")[:45], "damaged image"),
        (Image.new("RGB", (0, 4)), "no pixels: its size is 0 x 4"),
        (None, "the row has none"),
        ("http://elsewhere/a.png", "neither a data URL nor base64"),
        ({"bytes": None, "path": "/a.png"}, r"a path \(/a.png\), not bytes"),
    ],
)
def test_a_row_whose_image_cannot_be_read_is_not_judged_and_the_others_are(serve, image, reason):
    server = serve(word_judge)
    rows = {"rubric": [RUBRIC] * 2, "image": [image, plain_image("red")]}
    values, cards = reward_rows(server, ["red circle"] * 2, rows, exposure="image")
    assert values == [None, 1.0]
    assert re.search(f"the sample has no readable image: .*({reason})", cards[0].verdicts[0].reasoning)
    assert len(server.chats) == 1


class Decoded:
    """A column that decodes anew whenever it is read, as that of `datasets` does."""

    def __init__(self, colours):
        self.colours = colours

    def __iter__(self):
        return (Image.new("RGB", (4, 4), colour) for colour in self.colours)


def test_a_column_that_makes_each_image_anew_gives_each_row_its_own(serve):
    server, colours = serve(word_judge), ["red", "blue", "green"] * 3
    reward_rows(server, ["red"] * 9, {"rubric": [RUBRIC] * 9, "image": Decoded(colours)}, exposure="image")
    shown = [main_colour(image) for heard in server.chats for image in images_in(heard.body)]
    assert sorted(shown) == sorted(colours)


CALL = {"role": "assistant", "tool_calls": [{"function": {"name": "look", "arguments": None}}]}


@pytest.mark.parametrize(
    ("completion", "graded"),
    [
        ([CALL], ""),
        ([{"role": "assistant", "content": None}], ""),
        ([], ""),
        ({"role": "assistant", "content": "a circle"}, "a circle"),
        ([{"role": "assistant", "content": ["a ", {"text": "circle"}]}], "a circle"),
        ([{"role": "assistant", "content": {"type": "text", "text": "a circle"}}], "a circle"),
        ([{"role": "assistant", "content": [{"type": "output_text", "text": "a circle"}, None]}], "a circle"),
        (
            [{"role": "assistant", "content": np.array([{"type": "text", "text": "a circle"}], dtype=object)}],
            "a circle",
        ),
        (np.array([{"role": "assistant", "content": "a circle"}], dtype=object), "a circle"),
        ([{"content": "a circle"}, {"role": "tool", "name": "look", "content": "red"}], "a circle"),
    ],
)
def test_a_turn_may_lack_content_or_have_it_in_any_form(serve, completion, graded):
    _, (card,) = reward_rows(serve(word_judge), [completion], {"rubric": [RUBRIC]})
    assert card.response == graded


def test_turns_without_content_role_or_names_are_shown_in_the_trace(serve):
    turns = [CALL, {"role": "tool", "content": None}, {"name": "ana", "content": "a circle"}, {"role": "user"}]
    _, (card,) = reward_rows(serve(word_judge), [turns], {"rubric": [RUBRIC]}, view="full_trace")
    assert card.response == "assistant: [tool_call look()]\n\ntool: \n\nassistant ana: a circle\n\nuser: "


def test_the_judge_of_an_answer_reads_the_whole_conversation_and_the_reference(serve):
    server = serve([say(json.dumps({"verdicts": [{"id": 1, "reasoning": "", "score": 1}]}))])
    turns = [{"role": "user", "content": "Two and two?"}, {"role": "assistant", "content": "Of what?"}]
    prompt = [*turns, {"role": "user", "content": [{"type": "text", "text": "Apples."}]}]

    async def run():
        async with ChatClient(Endpoint(url=server.url, model="j"), attempts=1) as client:
            reward = RubricReward(Grader(client, subject="answer"))
            return await reward([prompt], ["Four."], rubric=[OTHER.model_dump_json()], answer=["4"])

    assert asyncio.run(run()) == [1.0]
    user = server.chats[0].body["messages"][1]["content"]
    assert "<prompt>\nuser: Two and two?\n\nassistant: Of what?\n\nuser: Apples.\n</prompt>" in user
    assert "<reference_answer>\n4\n</reference_answer>" in user


CONVERSATION = [
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "look", "arguments": {"at": "red"}}}]},
    {"role": "tool", "name": "look", "content": "a circle"},
    {"role": "assistant", "content": "a square"},
    {"role": "user", "content": "Which colour?"},
    {"role": "assistant", "content": "none"},
]


def test_of_a_conversation_the_last_reply_is_graded_or_all_turns(serve):
    columns = {"rubric": [RUBRIC.model_dump_json()]}
    server = serve(word_judge)
    assert reward_rows(server, [CONVERSATION], columns)[0] == [0.0]
    values, (card,) = reward_rows(server, [CONVERSATION], columns, view="full_trace")
    assert values == [1.0]
    assert card.response == (
        'assistant: [tool_call look({"at": "red"})]\n\ntool look: a circle\n\nassistant: a square\n\n'
        "user: Which colour?\n\nassistant: none"
    )


def test_of_a_reply_in_parts_its_text_is_graded_and_not_its_thoughts(serve):
    parts = [{"type": "thinking", "text": "red, perhaps"}, {"type": "text", "text": "a square"}]
    columns = {"rubric": [RUBRIC.model_dump_json()]}
    _, (card,) = reward_rows(serve(word_judge), [[{"role": "assistant", "content": parts}]], columns)
    assert card.response == "a square"


def test_what_a_tool_said_last_is_no_reply(serve):
    columns = {"rubric": [RUBRIC.model_dump_json()]}
    values, (card,) = reward_rows(serve(word_judge), [CONVERSATION[2:3] + CONVERSATION[1:2]], columns)
    assert (values, card.response) == ([0.0], "a square")


def test_one_reply_reads_the_same_in_both_views(serve):
    columns = {"rubric": [RUBRIC.model_dump_json()]}
    _, (card,) = reward_rows(serve(word_judge), [CONVERSATION[2:3]], columns, view="full_trace")
    assert card.response == "a square"


@pytest.mark.parametrize(
    ("credits", "passes"),
    [((0.98, 0.03), True), ((0.4, 0.03), False), ((0.98, 0.7), False), ((0.98, None), None), ((0.4, None), None)],
)
def test_probabilities_pass_or_fail_by_the_likelier_score(credits, passes):
    """`credits: logprob` gives no credit of exactly 1, and refilled groups need passes."""
    red = Criterion(criterion="red", key="colour", weight=3)
    rubric, logged = Rubric(criteria=(red, Criterion(criterion="no blue", key="colour", weight=-1))), {}

    class Judged:
        exposure = "text"

        async def grade(self, sample, response, rubric):
            verdicts = [
                Verdict(
                    criterion=criterion.criterion, credit=credit, error=ErrorClass.MALFORMED if credit is None else None
                )
                for criterion, credit in zip(rubric.criteria, credits, strict=True)
            ]
            return Scorecard(sample_id=sample.sample_id, response=response, judge="j", verdicts=tuple(verdicts))

    reward = RubricReward(Judged(), criterion="colour")
    columns = {"rubric": [rubric], "log_extra": logged.__setitem__}
    asyncio.run(reward.score(["p"], ["a text"], **columns))
    assert logged["passes"] == [passes]


@pytest.mark.parametrize("form", [list, json.dumps])
def test_a_rubric_may_be_the_bare_list_of_its_criteria(serve, form):
    reward = RubricReward(Grader(ChatClient(Endpoint(url=serve([]).url, model="j"))))
    assert reward.parse_rubric(form(RUBRIC.model_dump(mode="json")["criteria"]), 0) == RUBRIC
    with pytest.raises(UserError, match="row 3 of the batch is not a rubric"):
        reward.parse_rubric(form([]), 3)


FILLED = [
    {"criterion": "red", "weight": 3.0, "essential": None, "key": None},
    {"criterion": "circle", "weight": 1.0},
    None,
]


@pytest.mark.parametrize(
    "form",
    [
        FILLED,
        {"criteria": FILLED, "notes": None},
        json.dumps({"criteria": FILLED}),
        {"criterion": ["red", "circle"], "weight": [3.0, 1.0], "key": None},
        {"criteria": {"criterion": np.array(["red", "circle"]), "weight": np.array([3.0, 1.0])}},
        np.array(FILLED, dtype=object),
    ],
)
def test_a_rubric_of_an_arrow_column_is_read_without_what_arrow_adds(serve, form):
    rubric = Rubric(criteria=(Criterion(criterion="red", weight=3), Criterion(criterion="circle", weight=1)))
    values, _ = reward_rows(serve(word_judge), ["red"], {"rubric": [form]})
    reward = RubricReward(Grader(ChatClient("http://127.0.0.1:1/v1", "m")))
    assert (values, reward.parse_rubric(form, 0)) == ([0.75], rubric)
