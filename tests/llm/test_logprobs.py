"""Probabilities of scores from log-probabilities in the shape of OpenAI and vLLM, and endpoints that give none."""

import asyncio
import json
import math

import pytest
from openai.types.chat import ChatCompletion
from scripted_server import Said, say

from rubricworks.data.tables import Sample
from rubricworks.grading import Grader
from rubricworks.grading.prompts import Judgment
from rubricworks.llm import ChatClient, ChatError, NoLogprobs
from rubricworks.llm.logprobs import field_probabilities
from rubricworks.rubrics import Criterion, ErrorClass, Rubric

ASK = [{"role": "user", "content": "judge"}]
P = {"1": 0.7, "0": 0.2, "2": 0.1}


def token(text, alternatives=None):
    def entry(word, p):
        return {"token": word, "logprob": math.log(p), "bytes": list(word.encode())}

    top = [entry(word, p) for word, p in (alternatives or {text: 1.0}).items()]
    return entry(text, dict(alternatives or {text: 1.0})[text]) | {"top_logprobs": top}


def tokens(*texts):
    """One token per text; a pair is a token with the probabilities of its alternatives."""
    return [token(*text) if isinstance(text, tuple) else token(text) for text in texts]


def test_a_score_is_worth_its_share_of_the_probability_of_both():
    text = '{"verdicts": [{"score": 1}, {"score": 0}]}'
    spelled = tokens('{"verdicts": [{"', 'score": ', ("1", P), '}, {"score":', (" 0", {" 0": 0.5, " 1": 0.25}), "}]}")
    assert field_probabilities(text, spelled, "score") == pytest.approx([0.7 / 0.9, 1 / 3])


def test_a_token_may_hold_more_than_the_digit():
    text = '{"score": 1}'
    spelled = tokens('{"score"', (": 1}", {": 1}": 0.6, ": 0}": 0.3, ":0}": 0.1}))
    # `:0}` does not begin like the token that was drawn; what it leads to elsewhere is not known.
    assert field_probabilities(text, spelled, "score") == pytest.approx([0.6 / 0.9])


def test_thoughts_before_the_answer_and_halves_of_characters_do_not_move_the_place():
    text = '{"reasoning": "é, \\"score\\": 0", "score": 1}'
    halves = [token("x") | {"bytes": [byte]} for byte in "é".encode()]
    before, after = text.split("é")
    rest = after.removesuffix("1}")
    spelled = [*tokens('think: {"score": 0} '), *tokens(before), *halves, *tokens(rest, ("1", P), "}")]
    assert field_probabilities(text, spelled, "score") == pytest.approx([0.7 / 0.9])


def test_without_alternatives_the_digit_itself_counts():
    assert field_probabilities('{"score": 0}', [token('{"score": 0}') | {"top_logprobs": []}], "score") == [0.0]


@pytest.mark.parametrize(
    "alternatives",
    [
        {"1": 1e-6, "The": 0.4, "I": 0.3, " ": 0.1, "No": 0.05},  # 0 may be as likely as the least of these
        {"1": 0.3},  # 0 may have all of the rest
    ],
)
def test_a_digit_that_only_the_schema_made_likely_tells_nothing(alternatives):
    """vLLM's default: log-probabilities before the schema's mask."""
    with pytest.raises(ValueError, match=r"do not tell 0 from 1.*--logprobs-mode processed_logprobs"):
        field_probabilities('{"score": 1}', tokens('{"score": ', ("1", alternatives), "}"), "score")


def test_a_digit_that_is_surely_the_likelier_one_counts_whole():
    surely = {"1": 0.9, "One": 0.04, "Yes": 0.03, "2": 0.02, "3": 0.005}
    assert field_probabilities('{"score": 1}', tokens('{"score": ', ("1", surely), "}"), "score") == [1.0]


def test_tokens_of_another_text_are_refused():
    with pytest.raises(ValueError, match="do not spell the answer"):
        field_probabilities('{"score": 1}', tokens('{"score": ', "0", "}"), "score")


ANSWER = '{"verdicts": [{"id": 1, "reasoning": "", "score": 1}]}'


def with_logprobs(text, spelled):
    said = say(text)
    body = json.loads(said.body)
    body["choices"][0]["logprobs"] = {"content": spelled, "refusal": None}
    ChatCompletion.model_validate(body | {"created": 0})  # the shape is the SDK's
    return Said(json.dumps(body).encode())


def ask(server, **options):
    async def run():
        async with ChatClient(server.url, "m", **options) as client:
            return await client.chat(ASK, Judgment, probabilities_of="score")

    return asyncio.run(run())


def test_the_reply_has_them_also_from_the_cache_and_the_request_asks_for_them(serve, tmp_path):
    server = serve([with_logprobs(ANSWER, tokens(ANSWER[:-4], ("1", P), "}]}"))])
    for cached in (False, True):
        reply = ask(server, cache=tmp_path / "answers.sqlite")
        assert reply.cached is cached
        assert reply.probabilities == pytest.approx((0.7 / 0.9,))
    assert len(server.chats) == 1
    assert (server.chats[0].body["logprobs"], server.chats[0].body["top_logprobs"]) == (True, 5)


def test_an_answer_without_any_is_one_clear_error_and_not_asked_again(serve):
    server = serve([say(ANSWER)])
    with pytest.raises(NoLogprobs, match=r"^malformed: m gives no log-probabilities") as caught:
        ask(server)
    assert caught.value.error_class is ErrorClass.MALFORMED
    assert len(server.chats) == 1


def test_tokens_that_do_not_spell_the_answer_make_it_malformed_and_no_number(serve):
    server = serve([with_logprobs(ANSWER, tokens("something else"))])
    with pytest.raises(ChatError) as caught:
        ask(server)
    assert caught.value.error_class is ErrorClass.MALFORMED


DIGIT = 1
"""Place of the token with the digit, of the three that spell the answer."""


def spelled_with(place, **fields):
    """Tokens of the answer, one of them with other fields."""
    entries = tokens(ANSWER[:-4], ("1", P), "}]}")
    entries[place] = {name: value for name, value in (entries[place] | fields).items() if value is not ...}
    return entries


ODD = {
    "logprobs null": None,
    "logprobs empty": {"content": []},
    "content null": {"content": None},
    "logprobs a list": [],
    "Together: tokens and token_logprobs": {"tokens": ["1"], "token_logprobs": [-0.1]},
    "entry null": {"content": [None, *spelled_with(DIGIT)[1:]]},
    "entry text": {"content": ["1"]},
    "logprob null": {"content": spelled_with(DIGIT, logprob=None)},
    "logprob missing": {"content": spelled_with(DIGIT, logprob=...)},
    "logprob text": {"content": spelled_with(DIGIT, logprob="-0.1")},
    "logprob true": {"content": spelled_with(DIGIT, logprob=True)},
    "logprob NaN": {"content": spelled_with(DIGIT, logprob=math.nan)},
    "logprob infinite": {"content": spelled_with(DIGIT, logprob=math.inf)},
    "logprob huge": {"content": spelled_with(DIGIT, logprob=1e308)},
    "logprob a huge whole number": {"content": spelled_with(DIGIT, logprob=10**400)},
    "alternative null": {"content": spelled_with(DIGIT, top_logprobs=[None])},
    "alternative huge": {"content": spelled_with(DIGIT, top_logprobs=[{"token": "0", "logprob": 1e6, "bytes": [48]}])},
    "alternative without token": {"content": spelled_with(DIGIT, top_logprobs=[{"logprob": -1.0}])},
    "alternatives by token": {"content": spelled_with(DIGIT, top_logprobs={"0": -2.0})},
    "token null": {"content": spelled_with(DIGIT, token=None, bytes=None)},
    "bytes a number": {"content": spelled_with(0, bytes=2**40, token=None)},
    "bytes beyond bytes": {"content": spelled_with(0, bytes=[300])},
    "bytes text": {"content": spelled_with(0, bytes=["a"])},
    "a token too few": {"content": spelled_with(DIGIT)[:-1]},
    "every logprob -9999": {"content": spelled_with(DIGIT, logprob=-9999.0, top_logprobs=[])},
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("options", [{"credits": "logprob", "combine": "median"}, {"confidence": "logprob"}])
def test_odd_log_probabilities_leave_a_criterion_unjudged_and_never_end_the_run(serve, name, options):
    body = json.loads(say(ANSWER).body)
    body["choices"][0]["logprobs"] = ODD[name]
    server = serve([Said(json.dumps(body).encode())])
    card, letters = graded(server, **options)
    assert card.credits == [None]
    assert [letter.error.error_class for letter in letters] == [ErrorClass.MALFORMED]
    assert "log-probabilities" in letters[0].error.message
    assert letters[0].error.raw == ANSWER
    assert len(server.chats) == 1


def graded(server, **options):
    letters = []
    rubric = Rubric(criteria=(Criterion(criterion="Names a cat", weight=1),))

    async def run():
        async with ChatClient(server.url, "m") as client:
            grader = Grader(client, on_error=letters.append, **options)
            return await grader.grade(Sample(sample_id="s", image=b"", prompt=""), "A cat.", rubric)

    return asyncio.run(run()), letters


@pytest.mark.parametrize(
    ("fields", "credit"),
    [
        ({"top_logprobs": None, "logprob": 0.0}, 1.0),
        ({"top_logprobs": [], "logprob": 1e-7}, 1.0),  # rounding
        ({"top_logprobs": ..., "bytes": ..., "logprob": 0}, 1.0),
        ({"top_logprobs": [{"token": "0", "logprob": -math.inf, "bytes": None}], "logprob": 0.0}, 1.0),
        ({"top_logprobs": [{"token": "0", "logprob": -9999.0, "bytes": None}], "logprob": 0.0}, 1.0),
        ({"top_logprobs": [{"token": "0", "logprob": -(10**400), "bytes": None}], "logprob": 0.0}, 1.0),
    ],
)
def test_what_servers_send_for_certain_tokens_is_read(serve, fields, credit):
    body = json.loads(say(ANSWER).body)
    body["choices"][0]["logprobs"] = {"content": spelled_with(DIGIT, **fields)}
    card, letters = graded(serve([Said(json.dumps(body).encode())]), credits="logprob", combine="median")
    assert (card.credits, letters) == ([credit], [])


def test_scores_without_a_probability_each_are_unjudged(serve):
    """The answer spells one of its two fields by an escape, so that one probability is known."""
    answer = '{"verdicts": [{"id": 1, "reasoning": "", "scor\\u0065": 1}]}'
    letters_of = graded(serve([with_logprobs(answer, tokens(answer))]), confidence="logprob")[1]
    assert ["tell of 0 scores, and it gave 1" in letter.error.message for letter in letters_of] == [True]
