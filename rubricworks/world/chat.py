"""The wire format: parsing of OpenAI chat completion requests, and replies and errors in the same dialect."""

import base64
import binascii
import hashlib
import re
import time
from typing import Any, NamedTuple

IMAGE_TOKENS = 85
"""Tokens per image in `usage`."""

_DATA_URL = re.compile(r"data:image/(?:png|jpeg|jpg|webp);base64,", re.IGNORECASE)


class ApiError(Exception):
    """An error to send to the client, with the HTTP status and OpenAI's fields."""

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        kind = "invalid_request_error" if status < 500 else "server_error"
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


class ChatRequest(NamedTuple):
    model: str
    prompt: str
    """The text of all user messages."""
    image: bytes | None
    """The first image of the user messages."""
    images: int
    characters: int
    """Length of the text of all messages, for the token count."""
    seed: int
    max_tokens: int | None
    system: str = ""
    """The text of all system messages."""
    logprobs: bool = False
    """Log-probabilities of the answer's tokens are asked for."""


def read_request(body: Any) -> ChatRequest:
    """Parse the fields that this server uses; it accepts and ignores all others, `response_format` included.

    Raises:
        ApiError: a field is missing or wrong, or asks for something that this server does not support.
    """
    if not isinstance(body, dict):
        raise ApiError(400, "the request body must be a JSON object")
    model, messages = body.get("model"), body.get("messages")
    if not isinstance(model, str) or not model:
        raise ApiError(400, "model must be a string", param="model")
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "messages must be a list with at least one message", param="messages")
    if body.get("stream"):
        raise ApiError(400, "this server does not stream; send stream false", param="stream")
    if body.get("n") not in (None, 1):
        raise ApiError(400, "this server gives one choice per request; send n 1 and vary the seed", param="n")
    user_texts: list[str] = []
    system_texts: list[str] = []
    image, images, characters = None, 0, 0
    for message in messages:
        if not isinstance(message, dict) or "role" not in message:
            raise ApiError(400, "each message must be an object with a role", param="messages")
        from_user = message["role"] == "user"
        for part in _parts(message.get("content")):
            if part["type"] == "text":
                characters += len(part["text"])
                if from_user:
                    user_texts.append(part["text"])
                elif message["role"] == "system":
                    system_texts.append(part["text"])
            elif part["type"] == "image_url":
                images += 1
                if from_user and image is None:
                    image = _image_bytes(part)
            else:
                raise ApiError(400, f"content parts of type {part['type']!r} are not supported", param="messages")
    return ChatRequest(
        model=model,
        prompt="\n\n".join(user_texts),
        image=image,
        images=images,
        characters=characters,
        seed=_integer(body, "seed", 0),
        max_tokens=_integer(body, "max_completion_tokens", _integer(body, "max_tokens", None)),
        system="\n\n".join(system_texts),
        logprobs=body.get("logprobs") is True,
    )


def write_reply(request: ChatRequest, text: str, logprobs: list[dict[str, object]] | None = None) -> dict[str, object]:
    """A chat completion with `text`, truncated at the request's token limit.

    Args:
        logprobs: of the text's tokens, for models that have them.
    """
    finish_reason, completion_tokens = "stop", count_tokens(text)
    if request.max_tokens is not None and completion_tokens > request.max_tokens:
        text, completion_tokens, finish_reason = _truncate(text, request.max_tokens), request.max_tokens, "length"
    prompt_tokens = 1 + request.characters // 4 + IMAGE_TOKENS * request.images
    question = f"{request.model}\x1f{request.prompt}\x1f{request.seed}".encode(errors="surrogatepass")
    identity = hashlib.blake2b(question, digest_size=12)
    return {
        "id": f"chatcmpl-{identity.hexdigest()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": {"content": logprobs, "refusal": None} if logprobs else None,
                "finish_reason": finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def section(prompt: str, tag: str) -> str | None:
    """The text between `<tag>` and the next `</tag>`; None if either is missing."""
    start = prompt.find(f"<{tag}>")
    end = prompt.find(f"</{tag}>", start)
    if start < 0 or end < 0:
        return None
    return prompt[start + len(tag) + 2 : end].removeprefix("\n").removesuffix("\n")


def count_tokens(text: str) -> int:
    """The estimated number of tokens: one per four characters, at least one."""
    return 1 + len(text) // 4


def decode_data_url(url: Any) -> bytes:
    """The bytes of an image's data URL; nothing is ever fetched."""
    match = _DATA_URL.match(url) if isinstance(url, str) else None
    if match is None:
        raise ApiError(400, "images must be data URLs (data:image/png;base64,…); this server fetches nothing")
    try:
        return base64.b64decode(url[match.end() :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiError(400, "the image's data URL is not valid base64") from error


def _parts(content: Any) -> list[dict[str, Any]]:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise ApiError(400, "a message's content must be a string or a list of parts", param="messages")
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise ApiError(400, "each content part must be an object with a type", param="messages")
        if part["type"] == "text" and not isinstance(part.get("text"), str):
            raise ApiError(400, "a text part must hold a string", param="messages")
    return content


def _image_bytes(part: dict[str, Any]) -> bytes:
    holder = part.get("image_url")
    return decode_data_url(holder.get("url") if isinstance(holder, dict) else holder)


def _integer(body: dict[str, object], name: str, default: Any) -> Any:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise ApiError(400, f"{name} must be an integer", param=name)
    return value


def _truncate(text: str, tokens: int) -> str:
    return text[: max(0, 4 * tokens - 4)]
