"""Readers for TRL rows: a completion as a response or a text, the bytes of an image, the samples of a batch."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.rubrics import Response

View = Literal["last_reply", "full_trace"]
"""Part of a conversation that is graded, by verifiers' names: the policy's last reply, or all turns after the prompt,
with the calls and answers of tools and what users say in between."""


def completion_response(completion: Any, sample_id: str, view: View = "last_reply") -> Response:
    """Response of a completion: its text, or the image that it is.

    An image comes as a `Response`, as encoded bytes, a `{"bytes": …}` record or a PIL image, or as an image part of the
    last message in conversational form: `{"type": "image", "image": …}`.

    Args:
        view: part of a completion in conversational form; see `View`.
    Raises:
        UserError: the image is none of these; the message names the sample.
    """
    if isinstance(completion, str | Response):
        return Response.of(completion)
    if isinstance(completion, bytes | Mapping) or hasattr(completion, "save"):
        return _image_response(completion, sample_id)
    content = completion[-1]["content"] if completion else ""
    for part in content if isinstance(content, list | tuple) else ():
        if part.get("type") == "image":
            return _image_response(part.get("image"), sample_id)
    if view == "full_trace":
        return Response(conversation_text(completion))
    return Response(completion_text([turn for turn in completion if turn.get("role", "assistant") == "assistant"]))


def completion_text(completion: Any) -> str:
    """Text of a completion: the string itself, or the text of its last message in conversational form.

    Raises:
        UserError: the completion is the response of an image.
    """
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Response):
        return completion.require_text("this reward")
    content = completion[-1]["content"] if completion else ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or [] if part.get("type") == "text")


def conversation_text(turns: Any) -> str:
    """Text of a whole conversation: of its only message, or all turns, each as `role: text` with its calls of tools."""
    if isinstance(turns, str) or len(turns) < 2:
        return completion_text(turns)
    return "\n\n".join(_turn_text(turn) for turn in turns)


def _turn_text(turn: Mapping[str, Any]) -> str:
    speaker = f"{turn['role']} {turn['name']}" if turn.get("name") else turn["role"]
    lines = [text] if (text := completion_text([turn])) else []
    for call in turn.get("tool_calls") or []:
        function = call.get("function") or call
        arguments = function.get("arguments")
        shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        lines.append(f"[tool_call {function['name']}({shown})]")
    return f"{speaker}: " + "\n".join(lines)


def image_bytes(pixels: Any, sample_id: str) -> bytes:
    """Encoded bytes of an image column's value: bytes, a `{"bytes": …}` record, a PIL image, or a list of one.

    Raises:
        UserError: the value is none of these; the message names the sample.
    """
    if isinstance(pixels, list | tuple) and len(pixels) == 1:
        pixels = pixels[0]
    encoded = _encoded(pixels)
    if encoded is None:
        raise UserError(f"sample {sample_id}: the judge is to see the image, and the row's image column holds none")
    return encoded


def batch_samples(prompts: Sequence[Any], columns: Mapping[str, Any]) -> list[Sample]:
    """Sample of each row; rows with the same name and image object share one `Sample`."""
    count = len(prompts)
    names = [str(name) for name in columns.get("sample_id") or (f"row-{row}" for row in range(count))]
    questions = columns.get("question") or [None] * count
    images = next((columns[key] for key in ("image_bytes", "image", "images") if columns.get(key) is not None), None)
    samples: dict[tuple[str, int], Sample] = {}
    rows = []
    for row, name in enumerate(names):
        pixels = None if images is None else images[row]
        key = name, id(pixels)
        if key not in samples:
            samples[key] = Sample(
                sample_id=name,
                image=None if pixels is None else image_bytes(pixels, name),
                prompt=completion_text(prompts[row]),
                question=questions[row],
            )
        rows.append(samples[key])
    return rows


def _image_response(pixels: Any, sample_id: str) -> Response:
    encoded = _encoded(pixels)
    if encoded is None:
        raise UserError(
            f"sample {sample_id}: the completion's image is {type(pixels).__name__}; give encoded bytes or a PIL image"
        )
    return Response.of_image(encoded)


def _encoded(pixels: Any) -> bytes | None:
    if isinstance(pixels, Mapping):
        pixels = pixels.get("bytes")
    if isinstance(pixels, bytes):
        return pixels
    if hasattr(pixels, "save"):
        buffer = io.BytesIO()
        pixels.convert("RGB").save(buffer, format="PNG")
        return buffer.getvalue()
    return None
