"""Errors in bodies, by the code that each project sends, and bodies that only look like one."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.llm.answers import Answer, AnswerFailed, read_answer
from rubricworks.llm.answers.payload import find_error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 429, "message": "x"}, 429),
        ({"code": "429", "message": "x"}, 429),
        ({"code": 503, "status": "UNAVAILABLE", "message": "x"}, 503),
        ({"status": "RESOURCE_EXHAUSTED", "message": "x"}, 429),
        ({"status": "INVALID_ARGUMENT", "message": "x"}, 400),
        ({"status": "DEADLINE_EXCEEDED", "message": "x"}, 504),
        ({"type": "rate_limit_error", "message": "x"}, 429),
        ({"type": "overloaded_error", "message": "x"}, 503),
        ({"type": "authentication_error", "message": "x"}, 401),
        ({"type": "permission_error", "message": "x"}, 403),
        ({"type": "not_found_error", "message": "x"}, 404),
        ({"type": "api_error", "message": "x"}, 500),
        ({"code": "insufficient_quota", "type": "insufficient_quota", "message": "x"}, 402),
        ({"code": 429, "type": "insufficient_quota", "message": "x"}, 402),
        ({"code": "invalid_api_key", "message": "x"}, 401),
        ({"code": "context_length_exceeded", "message": "x"}, 400),
        ({"code": "model_not_found", "message": "x"}, 404),
        ({"code": "Throttling.RateQuota", "message": "x"}, 429),
        ({"code": "1113", "message": "x"}, 402),
        ({"code": "1305", "message": "x"}, 429),
        ({"message": "Provider returned error"}, 0),
        ({"message": "Rate limit reached"}, 429),
        ("upstream timed out", 504),
    ],
)
def test_a_code_means_its_http_status(error, status):
    error_body = find_error({"error": error})
    assert error_body is not None
    assert (error_body.status, error_body.refused) == (status, False)


@pytest.mark.parametrize(
    "error",
    [
        {"code": "content_filter", "message": "x"},
        {"code": 400, "message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}},
        {"code": "400", "message": "x", "provider_specific_fields": {"innererror": {"code": "content_filter"}}},
        {"code": "content_policy_violation", "message": "x"},
        {"code": "DataInspectionFailed", "message": "x"},
        {"code": "1301", "message": "x"},
    ],
)
def test_a_content_filters_error_is_a_refusal(error):
    error_body = find_error({"error": error})
    assert error_body is not None
    assert error_body.refused


@pytest.mark.parametrize("error", [None, {}, "", 0, False, {"code": 0}, {"code": "0", "message": ""}, {"code": None}])
def test_what_says_that_there_is_no_error_is_none(error):
    body = {"error": error, "choices": [{"index": 0, "message": {"content": "x"}, "error": None}]}
    assert find_error(body) is None


RIGHT = {"index": 0, "message": {"content": "right"}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "x"}, "choices": [RIGHT]},
        {"error": {"reason": "x"}, "choices": [RIGHT]},
        {"error": "x", "choices": [RIGHT]},
        {"object": "error", "message": "x", "choices": [RIGHT]},
        {"choices": [{**RIGHT, "error": {"message": "x"}}]},
        {"choices": [{**RIGHT, "index": 1}, {**RIGHT, "error": {"message": "x"}}]},
        {"choices": [{**RIGHT, "finish_reason": "error"}]},
        {"choices": [{**RIGHT, "index": 1, "finish_reason": "stop"}, {**RIGHT, "finish_reason": "error"}]},
        {"choices": [{**RIGHT, "index": 1}]},
        {"choices": [{**RIGHT, "index": 1}, {**RIGHT, "index": 2}]},
    ],
)
def test_a_choice_beside_an_error_or_of_another_index_is_no_answer(body):
    with pytest.raises(AnswerFailed):
        read_answer(json.dumps(body).encode())


def test_the_choice_with_index_0_is_taken_wherever_it_stands():
    choices = [{**RIGHT, "index": 1, "message": {"content": "wrong"}}, RIGHT]
    assert read_answer(json.dumps({"choices": choices}).encode()).text == "right"
    assert read_answer(json.dumps({"choices": [{"message": {"content": "right"}}]}).encode()).text == "right"


@pytest.mark.parametrize(
    "events",
    [
        [{"choices": [RIGHT]}, {"error": {"message": "x"}}],
        [{"choices": [{"index": 0, "delta": {"content": "right"}}]}, {"choices": [{"error": {"message": "x"}}]}],
        [{"choices": [{"delta": {"content": "r"}, "finish_reason": reason}]} for reason in ("error", "stop")],
    ],
)
def test_an_error_in_any_event_of_a_stream_fails_its_answer(events):
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    with pytest.raises(AnswerFailed):
        read_answer("".join([*lines, "data: [DONE]\n\n"]).encode())


def test_the_seconds_that_gemini_asks_for_are_read():
    details = [{"@type": "QuotaFailure"}, {"@type": "RetryInfo", "retryDelay": "34.5s"}]
    error_body = find_error([{"error": {"code": 429, "message": "x", "details": details}}])
    assert error_body is not None
    assert error_body.retry_after == 34.5


NAMES = st.sampled_from(
    [
        *(
            "choices",
            "error",
            "usage",
            "model",
            "base_resp",
            "status_code",
            "message",
            "detail",
            "code",
            "index",
            "type",
        ),
        *(
            "content",
            "refusal",
            "reasoning",
            "reasoning_content",
            "tool_calls",
            "function",
            "arguments",
            "finish_reason",
        ),
        *(
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "completion_tokens_details",
            "logprobs",
            "text",
            "metadata",
        ),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=30,
)
MESSAGES = st.fixed_dictionaries({"message": st.dictionaries(NAMES, VALUES, max_size=6)}, optional={"error": VALUES})


@given(VALUES | st.fixed_dictionaries({"choices": st.lists(MESSAGES, max_size=2), "usage": VALUES, "model": VALUES}))
def test_any_body_is_an_answer_or_a_value_error(body):
    with contextlib.suppress(ValueError):
        answer = read_answer(json.dumps(body).encode())
        assert isinstance(answer, Answer)
        assert min(answer.prompt_tokens, answer.completion_tokens) >= 0
