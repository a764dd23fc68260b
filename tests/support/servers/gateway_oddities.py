"""What public servers and gateways really send, by name, and what a caller is to get of it.

`GatewayServer` answers each request with the oddity that its model is named after. Sources: the issue tracker or the
documentation of the project that a group names.
"""

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from scripted_server import Said, say

from rubricworks.rubrics import ErrorClass

CAPTION = "A cat on a mat."
VERDICT = '{"verdicts": [{"id": 1, "reasoning": "It names a cat.", "score": 1}]}'
TOKENS = 15
"""Tokens of an answer by `say`, prompt and completion."""
TRANSPORT, MALFORMED = ErrorClass.TRANSPORT, ErrorClass.MALFORMED
TRUNCATED, REFUSED = ErrorClass.TRUNCATED, ErrorClass.REFUSED


class Outcome(NamedTuple):
    """What a call comes to."""

    error: ErrorClass | None
    requests: int
    tokens: int | None
    """None where an estimate is booked."""


class Oddity(NamedTuple):
    """One way of answering."""

    send: Callable[[str], Said]
    caption: Outcome
    judged: Outcome
    says: str = ""
    """Part of the error's message."""
    once: bool = False
    """The next answer is a good one."""


def right(requests: int = 1, tokens: int | None = TOKENS) -> Outcome:
    return Outcome(None, requests, tokens)


def odd(send: Callable[[str], Said], *, tokens: int | None = TOKENS) -> Oddity:
    """An oddity that is read rightly."""
    return Oddity(send, right(tokens=tokens), right(tokens=tokens))


def once(send: Callable[[str], Said]) -> Oddity:
    """An oddity after which the call succeeds."""
    return Oddity(send, right(2), right(2), once=True)


def fails(
    send: Callable[[str], Said], error: ErrorClass, requests: int, says: str = "", *, booked: int | None = 0
) -> Oddity:
    """An oddity that ends the call."""
    outcome = Outcome(error, requests, None if booked is None else requests * booked)
    return Oddity(send, outcome, outcome, says)


def no_text(send: Callable[[str], Said], says: str, judged: Outcome | None = None) -> Oddity:
    """An answer in which there is no caption, and no verdict but for `judged`."""
    return Oddity(send, Outcome(MALFORMED, 1, TOKENS), judged or Outcome(MALFORMED, 3, 3 * TOKENS), says)


def written(form: str) -> Callable[[str], Said]:
    return lambda text: say(form.replace("TEXT", text))


def body_with(change: Callable[[dict[str, Any]], Any]) -> Callable[[str], Said]:
    def send(text: str) -> Said:
        body = json.loads(say(text).body)
        changed = change(body)
        return Said(json.dumps(body if changed is None else changed).encode())

    return send


def message_with(**fields: Any) -> Callable[[str], Said]:
    """A message with other fields; TEXT in a value, or the value `TEXT`, becomes the text."""

    def send(text: str) -> Said:
        body = json.loads(say(None).body)
        message = json.loads(json.dumps(fields).replace("TEXT", json.dumps(text)[1:-1]))
        body["choices"][0]["message"].update(message)
        return Said(json.dumps(body).encode())

    return send


def finished(reason: Any) -> Callable[[str], Said]:
    return body_with(lambda body: body["choices"][0].update(finish_reason=reason))


def used(**usage: Any) -> Callable[[str], Said]:
    return body_with(lambda body: body.update(usage=usage))


def error_body(body: Any, status: int = 200) -> Callable[[str], Said]:
    return lambda text: Said(json.dumps(body).encode(), status)


def error(code: Any, message: str = "boom", status: int = 200, **more: Any) -> Callable[[str], Said]:
    return error_body({"error": {"code": code, "message": message, **more}}, status)


def around(before: bytes, after: bytes = b"") -> Callable[[str], Said]:
    return lambda text: Said(before + say(text).body + after)


def packed(encoding: str, pack: Callable[[bytes], bytes]) -> Callable[[str], Said]:
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    return lambda text: Said(pack(say(text).body), headers=headers)


def streamed(*, whole: bool = True, reason: str | None = "stop") -> Callable[[str], Said]:
    def send(text: str) -> Said:
        pieces = [text[:5], text[5:]] if whole else [text[:5]]
        events: list[Any] = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}]
        events += [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
        if whole:
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
            events.append({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
        lines = [": OPENROUTER PROCESSING", *(f"data: {json.dumps(event)}" for event in events)]
        lines += ["data: [DONE]"] if whole else []
        return Said("\n\n".join(lines).encode(), headers={"Content-Type": "text/event-stream"})

    return send


def two_choices(text: str) -> Said:
    body = json.loads(say(text).body)
    other = {"index": 1, "message": {"role": "assistant", "content": "A dog."}, "finish_reason": "stop"}
    return Said(json.dumps(body | {"choices": [other, *body["choices"]]}).encode())


THOUGHTS = {
    "DeepSeek-R1: <think>": odd(written("<think>\nA cat? Or a dog?\n</think>\n\nTEXT")),
    "DeepSeek-R1: no opening <think>": odd(written("A cat? Or a dog?\n</think>\n\nTEXT")),
    "DeepSeek-V4: no opening, one line": odd(written("Provide the answer briefly.</think>TEXT")),
    "Qwen3: empty thought": odd(written("<think>\n\n</think>\n\nTEXT")),
    "Claude-like: <thinking>": odd(written("<thinking>A cat?</thinking>\nTEXT")),
    "Gemini: <thought>": odd(written("<thought>A cat?</thought>TEXT")),
    "MiniMax: <mm:think>": odd(written("<mm:think>A cat?</mm:think>TEXT")),
    "Seed-OSS: <seed:think>": odd(written("<seed:think>A cat?</seed:think>TEXT")),
    "Kimi-VL: ◁think▷": odd(written("◁think▷A cat?◁/think▷TEXT")),
    "Magistral: [THINK]": odd(written("[THINK]A cat?[/THINK]TEXT")),
    "Command A: START_THINKING": odd(
        written("<|START_THINKING|>A cat?<|END_THINKING|><|START_RESPONSE|>TEXT<|END_RESPONSE|>")
    ),
    "GLM-V: box": odd(written("<think>A cat?</think>\n<|begin_of_box|>TEXT<|end_of_box|>")),
    "Hunyuan: <answer>": odd(written("<think>\nA cat?\n</think>\n<answer>\nTEXT\n</answer>")),
    "gpt-oss: harmony": odd(
        written(
            "<|channel|>analysis<|message|>A cat?<|end|><|start|>assistant<|channel|>final <|constrain|>json"
            "<|message|>TEXT<|return|>"
        )
    ),
    "gpt-oss: harmony without its tokens": odd(written("analysisA cat? We answer.assistantfinalTEXT")),
    "Gemma 4: channel": odd(written("<|channel>thought\nA cat?<channel|>TEXT<turn|>")),
    "Qwen: <|im_end|>": odd(written("TEXT<|im_end|>")),
    "Qwen: another turn": odd(written("TEXT<|im_end|>\n<|im_start|>user\nAnd a dog?")),
    "Llama 2: </s>": odd(written("TEXT</s>")),
    "Gemma: <end_of_turn>": odd(written("TEXT<end_of_turn>\n")),
    "Llama 3: <|eot_id|>": odd(written("<|start_header_id|>assistant<|end_header_id|>\n\nTEXT<|eot_id|>")),
    "DeepSeek: end of sentence": odd(written("TEXT<\uff5cend\u2581of\u2581sentence\uff5c>")),
    "thought without end": no_text(written("<think>\nA cat? TEXT, or"), "reasoning that does not end"),
    "harmony without final": no_text(written("<|channel|>analysis<|message|>A cat?<|end|>"), "reasoning that does not"),
    "thought and no answer": no_text(written("<think>A cat?</think>\n\n"), "reasoning, and no answer after it"),
    "empty": no_text(written(""), "the answer is empty"),
    "blanks": no_text(written(" \n\u200b\ufeff"), "the answer is empty"),
    "null": no_text(lambda _: say(None), "the answer is empty"),
    "OpenRouter: reasoning alone": no_text(message_with(content="", reasoning="A cat?"), "the answer is empty"),
}
FINISH_REASONS = {
    **{
        f"finished: {reason}": odd(finished(reason))
        for reason in ("stop", "STOP", "eos", "eos_token", "end_turn", "stop_sequence", "COMPLETE", "tool_calls", None)
    },
    "finished: missing": odd(body_with(lambda body: body["choices"][0].pop("finish_reason") and None)),
    **{
        f"truncated: {reason}": fails(finished(reason), TRUNCATED, 1, "limit of 1024 tokens", booked=TOKENS)
        for reason in ("length", "max_tokens", "MAX_TOKENS", "model_length", "model_context_window_exceeded")
    },
    "truncated: null at the limit": fails(
        body_with(
            lambda body: (
                body["choices"][0].update(finish_reason=None),
                body["usage"].update(completion_tokens=1024, total_tokens=1034),
                body,
            )[-1]
        ),
        TRUNCATED,
        1,
        "limit of 1024 tokens",
        booked=1034,
    ),
    **{
        f"refused: {reason}": fails(finished(reason), REFUSED, 1, "declined", booked=TOKENS)
        for reason in (
            *("content_filter", "SAFETY", "sensitive", "RECITATION", "content_filter: RECITATION", "refusal"),
            *("PROHIBITED_CONTENT", "guardrail_intervened"),
        )
    },
    **{
        f"failed: {reason}": fails(finished(reason), TRANSPORT, 3, f"finish_reason '{reason}'", booked=TOKENS)
        for reason in (
            *("error", "abort", "network_error", "insufficient_system_resource", "TIMEOUT", "cancelled"),
            "MALFORMED_FUNCTION_CALL",
        )
    },
    **{
        f"unknown: {reason}": fails(finished(reason), TRANSPORT, 1, f"'{reason}', which is no known", booked=TOKENS)
        for reason in ("OTHER", "load", 7)
    },
}
ERRORS = {
    "OpenRouter: 429 in a 200": once(error(429, "Provider returned error", metadata={"raw": "busy"})),
    "LiteLLM: 429 beside choices": once(
        body_with(lambda body: body.update(error={"code": 429, "message": "Provider returned error"}))
    ),
    "Gemini: RESOURCE_EXHAUSTED in a list": once(
        error_body([{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}])
    ),
    "rate limit by name": once(error("rate_limit_exceeded")),
    "MiniMax: base_resp": once(
        error_body({"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}})
    ),
    "Zhipu: 1302": once(error("1302", "high concurrency")),
    "429 in a 500": once(error(429, "rate limited", 500)),
    "429 in a stream": once(lambda _: Said(b'data: {"error": {"code": 429, "message": "busy"}}\n\n')),
    "OpenRouter: 502 in a choice": fails(
        body_with(lambda body: body["choices"][0].update(error={"code": 502, "message": "provider down"})),
        TRANSPORT,
        3,
        "error 502: provider down",
    ),
    "error as text": fails(error_body({"error": "upstream timed out"}), TRANSPORT, 3, "error 504: upstream timed out"),
    "error of no kind": fails(error(None, "no idea"), TRANSPORT, 3, "no idea"),
    "FastAPI: detail": fails(error_body({"detail": "Internal Server Error"}), TRANSPORT, 3, "Internal Server Error"),
    "choices null": fails(error_body({"choices": None}), TRANSPORT, 3, "chat-completions protocol"),
    "400 in a 200": fails(error(400, "image too large"), TRANSPORT, 1, "error 400: image too large"),
    "401 in a 200": fails(error(401, "no such key"), TRANSPORT, 1, "error 401: no such key"),
    "402 in a 200": fails(error(402, "Insufficient credits"), TRANSPORT, 1, "error 402: Insufficient credits"),
    "vLLM: object error": fails(
        error_body({"object": "error", "message": "too long", "type": "BadRequestError", "code": 400}),
        TRANSPORT,
        1,
        "error 400: too long",
    ),
    "Azure: content filter": fails(
        error(
            "content_filter",
            "The response was filtered",
            400,
            innererror={"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}},
        ),
        REFUSED,
        1,
        "HTTP 400",
    ),
    "LiteLLM: content policy": fails(
        error("400", "litellm.BadRequestError: litellm.ContentPolicyViolationError: AzureException", 400),
        REFUSED,
        1,
        "ContentPolicyViolationError",
    ),
    "DashScope: inspection": fails(error("data_inspection_failed", "inappropriate", 400), REFUSED, 1, "inappropriate"),
    "Zhipu: 1301": fails(error("1301", "sensitive content", 400), REFUSED, 1, "sensitive content"),
    "MiniMax: input sensitive": fails(
        error_body({"choices": None, "base_resp": {"status_code": 1026, "status_msg": "input sensitive"}}),
        REFUSED,
        1,
        "input sensitive",
    ),
    "OpenRouter: moderation": fails(
        error(403, "requires moderation and your input was flagged", 403, metadata={"flagged_input": "…"}),
        REFUSED,
        1,
        "flagged",
    ),
    "no error: null": odd(body_with(lambda body: body.update(error=None))),
    "no error: code 0": odd(body_with(lambda body: body.update(error={"code": 0, "message": ""}))),
    "no error: base_resp": odd(body_with(lambda body: body.update(base_resp={"status_code": 0, "status_msg": ""}))),
}
FORMS = {
    "choices out of order": odd(two_choices),
    "content in parts": odd(message_with(content=[{"type": "text", "text": "TEXT"}])),
    "Mistral: thinking parts": odd(
        message_with(
            content=[
                {"type": "thinking", "thinking": [{"type": "text", "text": "A cat?"}]},
                {"type": "text", "text": "TEXT"},
            ]
        )
    ),
    "content and reasoning_content": odd(message_with(content="TEXT", reasoning_content="A cat?")),
    "OpenRouter: comments before JSON": odd(around(b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n")),
    "comments with carriage returns": odd(around(b": PROCESSING\r\n\r\n")),
    "DeepSeek: empty lines before JSON": odd(around(b"\n\n  \r\n")),
    "byte order mark": odd(around(b"\xef\xbb\xbf")),
    "Azure DeepSeek: a stream": odd(streamed()),
    "vllm-mlx: a stream without finish reason": odd(streamed(reason=None)),
    "vLLM: a stream that was aborted": fails(
        streamed(reason="abort"), TRANSPORT, 3, "finish_reason 'abort'", booked=TOKENS
    ),
    "stream that breaks off": fails(streamed(whole=False), TRANSPORT, 3, "the stream broke off", booked=None),
    "vLLM: JSON in reasoning_content": no_text(
        message_with(content=None, reasoning_content="TEXT"), "the answer is empty", right()
    ),
    "OpenRouter: JSON in reasoning": no_text(
        message_with(content="", reasoning="TEXT"), "the answer is empty", right()
    ),
    "JSON as a thought": no_text(written("<think>\nTEXT"), "reasoning that does not end", right()),
    "JSON as a tool's arguments": no_text(
        message_with(tool_calls=[{"type": "function", "function": {"name": "f", "arguments": "TEXT"}}]),
        "the answer is empty",
        right(),
    ),
    "JSON as a function's arguments": no_text(
        message_with(content="", function_call={"name": "f", "arguments": "TEXT"}), "the answer is empty", right()
    ),
    "gzip": odd(packed("gzip", gzip.compress)),
    "deflate": odd(packed("deflate", zlib.compress)),
    "deflate without header": odd(packed("deflate", lambda body: zlib.compress(body)[2:-4])),
    "br": fails(packed("br", lambda body: b"\x1b\x2a\x00\xf8" + body[:40]), TRANSPORT, 1, "Content-Encoding 'br'"),
    "zstd": fails(packed("zstd", lambda body: b"\x28\xb5\x2f\xfd" + body[:40]), TRANSPORT, 1, "Encoding 'zstd'"),
    "compress": fails(packed("compress", lambda body: b"\x1f\x9d" + body), TRANSPORT, 1, "Encoding 'compress'"),
    "gzip that is none": fails(packed("gzip", lambda body: body), TRANSPORT, 1, "Content-Encoding 'gzip'"),
}
USAGES = {
    "OpenAI: reasoning within": odd(
        used(
            prompt_tokens=10,
            completion_tokens=3_010,
            total_tokens=3_020,
            completion_tokens_details={"reasoning_tokens": 3_000},
        ),
        tokens=3_020,
    ),
    "xAI: reasoning beside": odd(
        used(
            prompt_tokens=10,
            completion_tokens=10,
            total_tokens=3_020,
            completion_tokens_details={"reasoning_tokens": 3_000},
        ),
        tokens=3_020,
    ),
    "Gemini: reasoning in the total": odd(used(prompt_tokens=20, completion_tokens=198, total_tokens=623), tokens=623),
    "Gemini: reasoning alone": odd(
        used(
            prompt_tokens=21,
            completion_tokens=0,
            total_tokens=81,
            completion_tokens_details={"reasoning_tokens": 60},
        ),
        tokens=81,
    ),
    "reasoning beside, no total": odd(
        used(prompt_tokens=10, completion_tokens=10, reasoning_tokens=3_000), tokens=3_020
    ),
    "Anthropic: other names": odd(used(input_tokens=10, output_tokens=5, cache_read_input_tokens=100), tokens=115),
    "other names": odd(used(input_tokens=10, output_tokens=5, total_tokens=15)),
    "strings": odd(used(prompt_tokens="10", completion_tokens="5")),
    "usage null": odd(body_with(lambda body: body.update(usage=None)), tokens=None),
    "usage a list": odd(body_with(lambda body: body.update(usage=[1])), tokens=None),
    "nulls": odd(used(prompt_tokens=None, completion_tokens=None), tokens=None),
    "below nothing": odd(used(prompt_tokens=-10, completion_tokens=-5), tokens=None),
}
ODDITIES = {**THOUGHTS, **FINISH_REASONS, **ERRORS, **FORMS, **USAGES}


class GatewayServer:
    """The script of a server whose models are the oddities."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, bool]] = Counter()
        """Requests by model, and whether a verdict was asked for."""

    def __call__(self, number: int, body: dict[str, Any]) -> Said:
        name, judged = body["model"], "response_format" in body
        self.requests[name, judged] += 1
        text = VERDICT if judged else CAPTION
        if ODDITIES[name].once and self.requests[name, judged] > 1:
            return say(text)
        return ODDITIES[name].send(text)
