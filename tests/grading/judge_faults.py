"""Faults of a judge's answer: the server's response, and the end of a call that gets no other one."""

import gzip
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from key_search import ECHOES
from scripted_server import Said, fail, say

from rubricworks.rubrics import ErrorClass

TRANSPORT, MALFORMED = ErrorClass.TRANSPORT, ErrorClass.MALFORMED
HTML = b"<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>"
TYPE = {"Content-Type": "application/json"}


class Fault(NamedTuple):
    """One way to be wrong."""

    say: Callable[[list[dict[str, Any]]], Said]
    """From good verdicts, what is sent instead."""
    ends: ErrorClass | None
    """Of a call that gets nothing else; None: the verdicts count all the same."""
    final: bool = False
    """Whether it is not asked again."""


def text_of(verdicts: Any) -> str:
    return json.dumps({"verdicts": verdicts})


def _response(content: Said | bytes, ends: ErrorClass | None = TRANSPORT, *, final: bool = False) -> Fault:
    answer = Said(content) if isinstance(content, bytes) else content
    return Fault(lambda _: answer, ends, final)


def _envelope(change: Callable[[dict[str, Any]], Any], ends: ErrorClass | None = TRANSPORT) -> Fault:
    """The protocol's own JSON, with something changed in it."""

    def answer(verdicts: list[dict[str, Any]]) -> Said:
        body = json.loads(say(text_of(verdicts)).body)
        changed = change(body)
        return Said(json.dumps(body if changed is None else changed).encode())

    return Fault(answer, ends)


def _message(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["choices"][0]["message"].update(fields)


def _verdict(**fields: Any) -> Fault:
    """The first verdict with other fields."""
    return Fault(lambda verdicts: say(text_of([verdicts[0] | fields, *verdicts[1:]])), MALFORMED)


def _text(change: Callable[[list[dict[str, Any]]], str], ends: ErrorClass | None = MALFORMED) -> Fault:
    return Fault(lambda verdicts: say(change(verdicts)), ends)


def _huge(verdicts: list[dict[str, Any]], *, chunked: bool) -> Said:
    """A good answer but for its 10 MB."""
    return Said(say(text_of([verdicts[0] | {"reasoning": "x" * 10_000_000}, *verdicts[1:]])).body, chunked=chunked)


def _bomb(verdicts: list[dict[str, Any]]) -> Said:
    """10 MB in 10 kB."""
    return Said(gzip.compress(_huge(verdicts, chunked=False).body), headers={**TYPE, "Content-Encoding": "gzip"})


def _broken(verdicts: list[dict[str, Any]], **how: Any) -> Said:
    return Said(say(text_of(verdicts)).body, **how)


FAULTS = {
    "HTTP 500": _response(fail(500, "boom")),
    "HTTP 502 with a page": _response(Said(HTML, 502, {"Content-Type": "text/html"})),
    "HTTP 503": _response(fail(503)),
    "HTTP 503 until later": _response(fail(503, Retry_After="0.01")),
    "HTTP 503 until nonsense": _response(fail(503, Retry_After="Mon, 01 Jan 2030 00:00:00 +99999999999999")),
    "HTTP 429 for good": _response(fail(429, '{"error": {"code": "insufficient_quota"}}'), final=True),
    "HTTP 401 with the key": _response(fail(401, ECHOES[0]), final=True),
    "HTTP 500 with the key": _response(fail(500, f'{{"error": "{ECHOES[0]}", "again": "{ECHOES[1]}"}}')),
    "HTTP 400": _response(fail(400, "context length exceeded"), final=True),
    "HTTP 200 with a page": _response(Said(HTML, headers={"Content-Type": "text/html"})),
    "redirect to nowhere": _response(fail(302, Location="http://127.0.0.1:9/v1"), final=True),
    "reset in the body": Fault(lambda verdicts: _broken(verdicts, reset=True), TRANSPORT),
    "closed in the body": Fault(lambda verdicts: _broken(verdicts, cut=True), TRANSPORT),
    "closed in a chunk": Fault(lambda verdicts: _broken(verdicts, cut=True, chunked=True), TRANSPORT),
    "closed at once": _response(Said(b"", bare=True)),
    "not HTTP": _response(Said(b"220 mail.example ESMTP ready\r\n", bare=True)),
    "no chunk": _response(Said(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", bare=True)),
    "no header": _response(Said(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}", bare=True)),
    "endless header": _response(Said(b"HTTP/1.1 200 OK\r\nX-Pad: " + b"x" * 100_000 + b"\r\n\r\n", bare=True)),
    "one byte now and then": Fault(lambda verdicts: _broken(verdicts, drip=0.05), TRANSPORT),
    "one byte now and then, unmeasured": Fault(lambda verdicts: _broken(verdicts, drip=0.05, chunked=True), TRANSPORT),
    "silence": _response(Said(b"", delay=5.0)),
    "half of the JSON": Fault(lambda verdicts: Said(say(text_of(verdicts)).body[:-30]), TRANSPORT),
    "no body": _response(b""),
    "bytes": _response(b"\xff\xfe\x00"),
    "10 MB": Fault(lambda verdicts: _huge(verdicts, chunked=False), TRANSPORT, final=True),
    "10 MB, unmeasured": Fault(lambda verdicts: _huge(verdicts, chunked=True), TRANSPORT, final=True),
    "10 MB, packed": Fault(_bomb, TRANSPORT, final=True),
    "no choices": _envelope(lambda body: body.update(choices=[])),
    "choices null": _envelope(lambda body: body.update(choices=None)),
    "choices of text": _envelope(lambda body: body.update(choices=["yes"])),
    "a list": _envelope(lambda body: [body]),
    "a number": _envelope(lambda body: 1),
    "message null": _envelope(lambda body: body["choices"][0].update(message=None)),
    "content a number": _envelope(_message(content=1)),
    "content in parts": _envelope(_message(content=[{"type": "text", "text": "1"}]), MALFORMED),
    "content an object": _envelope(_message(content={"verdicts": []})),
    "usage a list": _envelope(lambda body: body.update(usage=[1]), None),
    "usage beyond numbers": _envelope(
        lambda body: body.update(usage={"prompt_tokens": float("inf"), "completion_tokens": float("nan")}), None
    ),
    "usage below nothing": _envelope(
        lambda body: body.update(usage={"prompt_tokens": -(10**7), "completion_tokens": 10**30}), None
    ),
    "usage of other types": _envelope(
        lambda body: body.update(usage={"prompt_tokens": "many", "completion_tokens": {}}), None
    ),
    "refusal": Fault(lambda _: say(None, refusal="I will not judge this"), ErrorClass.REFUSED, final=True),
    "refusal with half a character": Fault(
        lambda _: Said(say(None, refusal="no \\ud83d").body.replace(b"\\\\ud83d", b"\\ud83d")),
        ErrorClass.REFUSED,
        final=True,
    ),
    "filter": Fault(lambda _: say("", finish="content_filter"), ErrorClass.REFUSED, final=True),
    "token limit": Fault(
        lambda verdicts: say(text_of(verdicts)[:-9], finish="length"), ErrorClass.TRUNCATED, final=True
    ),
    "prose": _text(lambda _: "Every criterion is met: 10/10."),
    "empty": _text(lambda _: ""),
    "no content": _envelope(_message(content=None), MALFORMED),
    "verdicts cut": _text(lambda verdicts: text_of(verdicts)[:-9]),
    "key twice": _text(lambda verdicts: text_of(verdicts).replace('"score": ', '"score": 0, "score": ')),
    "verdicts twice": _text(lambda verdicts: text_of(verdicts)[:-1] + f', "verdicts": {json.dumps(verdicts)}}}'),
    "two answers": _text(lambda verdicts: text_of(verdicts) + "\n" + text_of(verdicts)),
    "score NaN": _verdict(score=float("nan")),
    "score infinite": _text(lambda verdicts: text_of([verdicts[0] | {"score": "!"}]).replace('"!"', "1e999")),
    "score an object": _verdict(score={"value": 1}),
    "score text": _verdict(score="1"),
    "score true": _verdict(score=True),
    "score a half": _verdict(score=0.5),
    "score null": _verdict(score=None),
    "reasoning an object": _verdict(reasoning={"because": "red"}),
    "reasoning with half a character": _text(
        lambda verdicts: text_of([verdicts[0] | {"reasoning": "!"}, *verdicts[1:]]).replace("!", "\\ud83d"), None
    ),
    "field too many": _verdict(sure=True),
    "criterion too many": _text(lambda verdicts: text_of([*verdicts, verdicts[0] | {"id": len(verdicts) + 1}])),
    "criterion too few": _text(lambda verdicts: text_of(verdicts[1:])),
    "criterion twice": _text(lambda verdicts: text_of([verdicts[0], *verdicts])),
    "criterion of another": _verdict(id=99),
    "reasoning with the key": _text(
        lambda verdicts: text_of([verdicts[0] | {"reasoning": "!"}, *verdicts[1:]]).replace("!", ECHOES[0]), None
    ),
}
