"""A user's function as a reward: what it is given, what it may return, and what happens when it fails."""

import asyncio
import math

import pytest
from image_judge import plain_image

from rubricworks.adapters.functions import FunctionReward, load_reward
from rubricworks.data import Sample
from rubricworks.errors import UserError
from rubricworks.grading import FailedCall
from rubricworks.rubrics import Response

PNG = plain_image("red")


def reward(function, responses, *, on_error=None, **columns):
    chats = [[{"role": "assistant", "content": text}] for text in responses]
    columns = {"sample_id": [f"s{at // 2}" for at in range(len(responses))], **columns}
    return asyncio.run(FunctionReward(function, on_error=on_error)(["describe"] * len(responses), chats, **columns))


def test_function_gets_texts_samples_and_columns_and_its_values_are_the_rewards():
    seen = {}

    def words(responses, samples, **columns):
        seen.update(samples=samples, rubric=columns["rubric"])
        return [len(text.split()) / 10 for text in responses]

    values = reward(words, ["a b", "a", "a b c", ""], rubric=["r0", "r0", "r1", "r1"], image_bytes=[PNG] * 4)
    assert values == pytest.approx([0.2, 0.1, 0.3, 0.0])
    assert seen["rubric"] == ["r0", "r0", "r1", "r1"]
    assert seen["samples"][0] == Sample(sample_id="s0", image=PNG, prompt="describe")
    assert [sample.sample_id for sample in seen["samples"]] == ["s0", "s0", "s1", "s1"]


def test_coroutine_function_is_awaited_and_none_stays_none():
    async def later(responses, samples, **columns):
        await asyncio.sleep(0)
        return [1, None]

    assert reward(later, ["a", "b"]) == [1.0, None]


def test_exception_is_not_judged_and_one_failed_call_for_each_response():
    def broken(responses, samples, **columns):
        raise KeyError("colour")

    failures: list[FailedCall] = []
    assert reward(broken, ["a", "b"], on_error=failures.append) == [None, None]
    assert [(call.sample_id, call.response, call.judge) for call in failures] == [
        ("s0", "a", "broken"),
        ("s0", "b", "broken"),
    ]
    assert str(failures[0].error) == "raised: reward broken raised KeyError: 'colour'"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5], r"reward f returned 1 values for 2 responses; return one each"),
        ([0.5, math.nan], r"reward f returned nan for response 1; return a finite number, or None"),
        ([math.inf, 0.5], r"reward f returned inf for response 0"),
        (["good", 0.5], r"reward f returned 'good' for response 0"),
        ("ab", r"reward f returned str; return a list of 2 numbers"),
        (None, r"reward f returned NoneType; return a list of 2 numbers"),
    ],
)
def test_anything_but_one_number_or_none_each_is_refused_by_name(values, message):
    def f(responses, samples, **columns):
        return values

    with pytest.raises(UserError, match=message):
        reward(f, ["a", "b"])


MODULE = """
import asyncio
def good(responses, samples, **columns): return [0.0] * len(responses)
def narrow(responses): return [0.0] * len(responses)
def named(responses, samples, rubric): return [0.0] * len(responses)
def by_column(responses, samples, rubric, **columns): return [float(len(criterion)) for criterion in rubric]
value = 3
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_rewards", "write it as module:name"),
        ("own_rewards:", "write it as module:name"),
        ("not_there_at_all:f", "there is no module not_there_at_all here"),
        ("own_rewards.inner:f", "there is no module own_rewards.inner here"),
        ("own_rewards:missing", "the module own_rewards has no missing"),
        ("own_rewards:value", "it is int, not a function"),
        ("own_rewards:narrow", "it must take .responses, samples, ..columns.; "),
        ("own_rewards:named", "it must take .responses, samples, ..columns.; "),
        ("needs_more:f", "its module needs a_package_that_is_not_there"),
        ("wrong_syntax:f", "its module cannot be imported .SyntaxError"),
    ],
)
def test_function_that_cannot_be_used_is_told_in_one_line(name, message, tmp_path, monkeypatch):
    (tmp_path / "own_rewards.py").write_text(MODULE)
    (tmp_path / "needs_more.py").write_text("import a_package_that_is_not_there\n")
    (tmp_path / "wrong_syntax.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=f"function .*{message}") as caught:
        load_reward(name)
    assert "\n" not in str(caught.value)
    assert load_reward("own_rewards:good")([1, 2], []) == [0.0, 0.0]
    assert load_reward("own_rewards:by_column")(["a"], [], rubric=["four"]) == [4.0]


def test_what_a_function_says_of_an_image_that_cannot_be_read_is_no_number():
    def ones(responses, samples, **columns):
        return [1.0] * len(responses)

    rows = {"sample_id": ["a", "b", "c", "d"], "images": [[PNG], [PNG, b"no image"], [], [PNG, PNG]]}
    assert asyncio.run(FunctionReward(ones)(["p"] * 4, ["t"] * 4, **rows)) == [1.0, None, 1.0, 1.0]
    assert asyncio.run(FunctionReward(ones)(["p"] * 2, [PNG, b"no image"])) == [1.0, None]


def test_function_gets_texts_as_str_and_images_as_responses():
    seen = []

    def lengths(responses, samples, **columns):
        seen.extend(responses)
        return [1.0] * len(responses)

    completions = ["a text", [{"role": "assistant", "content": "chat"}], PNG, Response.of_image(PNG)]
    rewards = asyncio.run(FunctionReward(lengths)(["p"] * 4, completions, sample_id=["s"] * 4))
    assert rewards == [1.0] * 4
    assert [type(response) for response in seen] == [str, str, Response, Response]
    assert seen == ["a text", "chat", Response.of_image(PNG), Response.of_image(PNG)]
