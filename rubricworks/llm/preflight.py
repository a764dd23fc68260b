"""Endpoint checks before a run: the server answers and serves the model, and a model that is shown images sees them.

A model is asked for the colour of a plain picture, which only the picture tells. A text model behind a server that
drops images would describe, or judge, what it never saw. vLLM refuses images for such a model; other servers ignore
them, and the model names a colour by chance or says that it sees nothing. An answer with no colour at all passes: a
model that is trained for one task may not answer others.
"""

import io
import json
import re
from typing import Any

from yarl import URL

from rubricworks.errors import UserError
from rubricworks.llm.answers import read_answer, split_thought
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.http.connections import Connections, LoopPool, RequestFailed
from rubricworks.llm.messages import image_part, text_part, user_message
from rubricworks.llm.request import RequestFrame

_TIMEOUT_S = 15.0
_ATTEMPTS = 4


async def check_endpoint(endpoint: Endpoint) -> None:
    """Look for the model in the server's list; an unlisted model passes if it answers a one-token chat.

    Raises:
        UserError: the endpoint is not usable; the message has the reason and a curl command that reproduces it. Or the
            server says how long its context is (vLLM does), and the endpoint's answers alone would fill it.
    """
    try:
        listed = await _request(endpoint, "GET", "models", timeout_s=_TIMEOUT_S)
        names = _names(listed)
        _check_context(endpoint, listed)
    except RequestFailed as error:
        # A server may have no list, keep it from this key, or fail to build it (`transformers serve` does before its
        # first download). The chat tells whether the endpoint can be used.
        if error.unreachable:
            raise UserError(f"{endpoint.label} is not usable: {error}; test it with: {_curl(endpoint)}") from None
        names = None
    if names is not None and endpoint.model in names:
        return
    # Some servers list no models, or only loaded ones, and gateways accept names that they do not list.
    frame = RequestFrame(endpoint.model_copy(update={"max_tokens": 1}), None)
    body = frame.encode([{"role": "user", "content": "ping"}], 0).body
    try:
        timeout = max(endpoint.timeout_s, _TIMEOUT_S)
        read_answer(await _request(endpoint, "POST", "chat/completions", body, timeout_s=timeout))
    except (RequestFailed, ValueError) as error:
        served = f"it serves {', '.join(sorted(names)[:8])}" if names else "it lists no models"
        raise UserError(
            f"{endpoint.label} is not usable: the model does not answer ({error}), and {served}; "
            f"test it with: {_curl(endpoint)}"
        ) from None


async def list_models(endpoint: Endpoint) -> list[str]:
    """List the models of an endpoint's server.

    Raises:
        UserError: the server does not answer with a list.
    """
    try:
        names = _names(await _request(endpoint, "GET", "models", timeout_s=_TIMEOUT_S))
    except RequestFailed as error:
        raise UserError(f"{endpoint.urls[0]} lists no models: {error}; test it with: {_curl(endpoint)}") from None
    return sorted({name.removeprefix("models/") for name in names or ()})


def _is_passing(error: Exception) -> bool:
    """Return True for a server that answers, and may answer better in a moment."""
    return isinstance(error, RequestFailed) and error.retry and error.status != 0


async def _request(endpoint: Endpoint, method: str, path: str, body: bytes = b"", *, timeout_s: float) -> bytes:
    """Send one request to every replica, on new connections, and return the first replica's answer; all must answer.

    A server that has just failed may be closing its last connection, so none is reused. A server that is starting or
    busy is asked again.
    """
    connections = Connections(endpoint.model_copy(update={"timeout_s": timeout_s}))
    try:
        pool = connections.pool()
        urls = [replica.models_url if path == "models" else replica.chat_url for replica in pool.replicas]
        answers = [await _ask_again(connections, pool, method, url, body) for url in urls]
        return connections.hide_key(answers[0])
    finally:
        await connections.close()


async def _ask_again(connections: Connections, pool: LoopPool, method: str, url: URL, body: bytes) -> bytes:
    import stamina

    async for attempt in stamina.retry_context(on=_is_passing, attempts=_ATTEMPTS, wait_initial=0.5, wait_max=5.0):
        with attempt:
            return await connections.exchange(pool, method, url, body)
    raise AssertionError("unreachable: stamina returns or raises")


def _names(payload: bytes) -> set[str] | None:
    try:
        ids = {str(entry["id"]) for entry in _entries(payload)}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return ids | {name.removeprefix("models/") for name in ids}


def _entries(payload: bytes) -> list[Any]:
    """Entries of a list of models; some servers send it bare (Together, GitHub Models)."""
    body = json.loads(payload)
    entries: list[Any] = body if isinstance(body, list) else body["data"]
    return entries


def _check_context(endpoint: Endpoint, payload: bytes) -> None:
    longest = endpoint.extra_body.get("max_tokens", endpoint.max_tokens)
    try:
        lengths = {str(entry["id"]): entry.get("max_model_len") for entry in _entries(payload)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    context = lengths.get(endpoint.model)
    if isinstance(context, int) and isinstance(longest, int) and longest >= context:
        raise UserError(
            f"{endpoint.label} is not usable: max_tokens is {longest}, and the server's context is {context} tokens, "
            "prompt included; lower max_tokens, or start the server with a larger --max-model-len"
        )


def _curl(endpoint: Endpoint) -> str:
    """Equivalent curl command; variables are not expanded, so that it holds no key."""
    key = f' -H "Authorization: Bearer ${endpoint.api_key_env}"' if endpoint.api_key_env else ""
    url, mark, query = endpoint.urls[0].partition("?")
    url = url.rstrip("/")
    path = "/models" if url.count("/") > 2 or url.startswith("${") else "/v1/models"
    return f'curl -sS "{url}{path}{mark}{query}"{key}'


QUESTION = "What colour is this picture? Answer with the name of one colour."
_SIDE = 64
_PURPLE = (160, 40, 190)
_RIGHT = re.compile(r"\b(purple|violet|magenta|lilac|mauve|fuchsia|orchid|indigo|plum|lavender|pink)", re.IGNORECASE)
_WRONG = re.compile(
    r"\b(red|green|blue|yellow|black|white|gr[ae]y|orange|brown|beige|teal|cyan|turquoise)\b", re.IGNORECASE
)
_BLIND = re.compile(
    r"\b(can.?t|cannot|can not|unable to|not able to|don.?t|do not) (directly )?(see|view|access|have)\b"
    r"|\bno (image|picture|photo)|text-based|\b(attach|upload|provide|share) (an?|the|your) (image|picture|photo)",
    re.IGNORECASE,
)
_REFUSALS = frozenset({400, 404, 415, 422, 500, 501})
_BUSY = 503
"""Status of a server that is loading, or has too much to do."""
_MAX_QUOTE = 120


async def check_sees_images(endpoint: Endpoint) -> None:
    """Send one request with a picture, and again while the server fails.

    Raises:
        UserError: the server refuses the picture, fails at it and not without it, or the model answers without having
            seen it.
    """
    question = user_message([image_part(_picture()), text_part(QUESTION)])
    body = RequestFrame(endpoint, None).encode([question], 0).body
    connections = Connections(endpoint)
    try:
        pool = connections.pool()
        url = pool.replicas[0].chat_url
        try:
            answered = await connections.exchange(pool, "POST", url, body)
        except RequestFailed as error:
            if error.status < 500 or error.status == _BUSY or "image" in str(error):
                raise
            answered = await _ask_again(connections, pool, "POST", url, body)
        payload = connections.hide_key(answered)
    except RequestFailed as error:
        if error.status in _REFUSALS and (error.status < 500 or "image" in str(error)):
            raise UserError(
                f"{endpoint.label} takes no images, and is shown some: {error}; give a model that sees"
            ) from None
        if error.status >= 500 and error.status != _BUSY and await _answers_text(endpoint):
            raise UserError(
                f"{endpoint.label} answers texts and fails at a picture each time: {error}; look at its log"
            ) from None
        return  # one that is busy says nothing about its model
    finally:
        await connections.close()
    try:
        answer = split_thought(read_answer(payload).text or "").answer.strip()
    except ValueError:
        return
    if not _RIGHT.search(answer) and (_WRONG.search(answer) or _BLIND.search(answer)):
        quote = answer if len(answer) <= _MAX_QUOTE else f"{answer[:_MAX_QUOTE]}…"
        raise UserError(
            f"{endpoint.label} is shown images and does not see them: asked for the colour of a purple picture, it "
            f"answers {quote!r}; give a model that sees"
        )


async def _answers_text(endpoint: Endpoint) -> bool:
    """Return True if the server answers the question without a picture: so it is the picture at which it fails."""
    body = RequestFrame(endpoint, None).encode([user_message([text_part(QUESTION)])], 0).body
    try:
        await _request(endpoint, "POST", "chat/completions", body, timeout_s=endpoint.timeout_s)
    except RequestFailed:
        return False
    return True


def _picture() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (_SIDE, _SIDE), _PURPLE).save(file, "PNG")
    return file.getvalue()
