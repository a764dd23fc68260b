"""Probabilities of scores from log-probabilities in the shape of OpenAI and vLLM, and endpoints that give none."""

import asyncio
import json
import math

import pytest
from openai.types.chat import ChatCompletion
from scripted_server import Said, say

from rubricworks.errors import UserError
from rubricworks.grading.prompts import Judgment
from rubricworks.llm import ChatClient, ChatError
from rubricworks.llm.logprobs import field_probabilities
from rubricworks.rubrics import ErrorClass

ASK = [{"role": "user", "content": "judge"}]
P = {"1": 0.7, "0": 0.2, "2": 0.1}


def token(text, alternatives=None):
    def entry(one, p):
        return {"token": one, "logprob": math.log(p), "bytes": list(one.encode())}

    top = [entry(one, p) for one, p in (alternatives or {text: 1.0}).items()]
    return entry(text, dict(alternatives or {text: 1.0})[text]) | {"top_logprobs": top}


def tokens(*texts):
    """One token per text; a pair is a token with the probabilities of its alternatives."""
    return [token(*one) if isinstance(one, tuple) else token(one) for one in texts]


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


def test_an_endpoint_that_gives_none_is_one_clear_error(serve):
    server = serve([say(ANSWER)])
    with pytest.raises(UserError, match=r"^m gives no log-probabilities"):
        ask(server)
    assert len(server.chats) == 1


def test_tokens_that_do_not_spell_the_answer_make_it_malformed_and_no_number(serve):
    server = serve([with_logprobs(ANSWER, tokens("something else"))])
    with pytest.raises(ChatError) as caught:
        ask(server)
    assert caught.value.error_class is ErrorClass.MALFORMED
