"""Readers for trainers' rows: a completion as a response or a text, the images of a prompt, the samples of a batch.

An image that cannot be read is `data.images.no_image` with the reason: its row is not judged, and no training stops.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from rubricworks.data.images import BadImage, image_fault, no_image
from rubricworks.data.pixels import as_list, encode_image, is_object_array
from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.rubrics import Response

Columns = Mapping[str, Any]
"""Columns of a batch, as trainers pass them: name → the values of its rows."""
View = Literal["last_reply", "full_trace"]
"""Part of a conversation that is graded, by verifiers' names: the policy's last reply, or all turns after the prompt,
with the calls and answers of tools and what users say in between.
"""
IMAGE_COLUMNS = ("image_bytes", "image", "images")
NO_IMAGE = no_image("the row has none")
"""Image of a row that has none, for a judge that is to see one."""
_IMAGE_PARTS = ("image", "image_url", "input_image")
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_CACHED_IMAGES = 32


class PromptSample(Sample):
    """Sample of a prompt that may have several images."""

    further_images: tuple[bytes, ...] = Field(default=(), repr=False)

    @property
    def images(self) -> tuple[bytes, ...]:
        return (*super().images, *self.further_images)


def completion_response(completion: Any, sample_id: str, view: View = "last_reply") -> Response:
    """Response of a completion: its text, or the image that it is.

    An image comes as a `Response` or in any form of `data.pixels`, or as an image part of the last message in
    conversational form: `{"type": "image", "image": …}`. One that cannot be read is a response that no judge grades.

    Args:
        view: part of a completion in conversational form; see `View`.
    Raises:
        UserError: the image is given by its address; the message names the sample.
    """
    if isinstance(completion, str | Response):
        return Response.of(completion)
    turns = _turns(completion)
    if turns is None:
        return _image_response(completion, sample_id)
    for part in _parts(turns[-1]) if turns else ():
        if part.get("type") in _IMAGE_PARTS:
            return _image_response(part, sample_id)
    if view == "full_trace":
        return Response(conversation_text(turns))
    return Response(completion_text([turn for turn in turns if turn.get("role", "assistant") == "assistant"]))


def completion_text(completion: Any) -> str:
    """Text of a completion: the string itself, or the text of its last message in conversational form.

    A message without content, such as a call of a tool, has none.

    Raises:
        UserError: the completion is the response of an image.
    """
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Response):
        return completion.require_text("this reward")
    turns = _turns(completion)
    return "".join(_part_text(part) for part in _parts(turns[-1])) if turns else ""


def conversation_text(turns: Any) -> str:
    """Text of a whole conversation: of its only message, or all turns, each as `role: text` with its calls of tools."""
    messages = None if isinstance(turns, str) else _turns(turns)
    if messages is None or (len(messages) < 2 and not any(turn.get("tool_calls") for turn in messages)):
        return completion_text(turns)
    return "\n\n".join(_turn_text(turn) for turn in messages)


def _turns(value: Any) -> list[Mapping[str, object]] | None:
    """Messages of a conversation, or of a single one; None for what is no conversation."""
    if isinstance(value, Mapping):
        return [value] if "role" in value or "content" in value else None
    if value is None:
        return []
    # An array of objects, as verl and Arrow have it, is a list of messages; one of numbers is an image.
    is_list = isinstance(value, list | tuple) or (hasattr(value, "tolist") and is_object_array(value))
    return list(value) if is_list and all(isinstance(turn, Mapping) for turn in value) else None


def _parts(turn: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """Parts of a message's content, which may be a text, parts, or missing."""
    content = turn.get("content")
    if isinstance(content, str | Mapping):
        content = [content]
    for part in () if content is None else content:
        if isinstance(part, Mapping):
            yield part
        elif part is not None:
            yield {"type": "text", "text": str(part)}


def _part_text(part: Mapping[str, object]) -> str:
    if part.get("type", "text") not in _TEXT_PARTS:
        return ""
    return str(part.get("text") or part.get("refusal") or "")


def _turn_text(turn: Mapping[str, Any]) -> str:
    role = turn.get("role") or "assistant"
    speaker = f"{role} {turn['name']}" if turn.get("name") else role
    lines = [text] if (text := completion_text([turn])) else []
    calls = turn.get("tool_calls")
    for call in calls if calls is not None else ():
        function = call.get("function") or call
        arguments = function.get("arguments")
        shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
        lines.append(f"[tool_call {function.get('name')}({'' if arguments is None else shown})]")
    return f"{speaker}: " + "\n".join(lines)


def message_images(messages: Any) -> list[Any]:
    """Images of a conversation's parts, in order, as they are given."""
    parts = [part for turn in _turns(messages) or () for part in _parts(turn) if part.get("type") in _IMAGE_PARTS]
    images = [
        next((part[name] for name in (*_IMAGE_PARTS, "bytes", "url") if part.get(name) is not None), None)
        for part in parts
    ]
    return [image for image in images if image is not None]


def batch_images(columns: Columns) -> list[tuple[bytes, ...]] | None:
    """Encoded images of each row, from the first of `IMAGE_COLUMNS` that a batch has; None if it has none of them.

    A prompt of text has none. Rows with the same object share one encoding. PNG and JPEG in `image_bytes`, where our
    own trainers have them normalised, are taken as they are.
    """
    name = next((name for name in IMAGE_COLUMNS if columns.get(name) is not None), None)
    if name is None:
        return None
    read = _checked_image if name == "image_bytes" else encoded_image
    encoded: dict[int, tuple[bytes, ...]] = {}
    values = list(columns[name])  # which keeps them alive, so that no two have one id
    for value in values:
        if id(value) not in encoded:
            encoded[id(value)] = tuple(map(read, as_list(value)))
    return [encoded[id(value)] for value in values]


def _checked_image(value: Any) -> bytes:
    return value if isinstance(value, bytes) and not image_fault(value) else encoded_image(value)


def encoded_image(value: Any) -> bytes:
    """PNG or JPEG of an image in any form of `data.pixels`; `no_image` with the reason for what is none."""
    try:
        return _normalised(value) if isinstance(value, bytes) else encode_image(value)
    except BadImage as error:
        return no_image(str(error))


@lru_cache(maxsize=_CACHED_IMAGES)
def _normalised(content: bytes) -> bytes:
    """Normalise an image's bytes; cached, as the rollouts of a group share an image."""
    return encode_image(content)


def prompt_sample(sample_id: str, images: Sequence[bytes], **fields: Any) -> Sample:
    """Sample of a row with its images."""
    if len(images) < 2:
        return Sample(sample_id=sample_id, image=images[0] if images else None, **fields)
    return PromptSample(sample_id=sample_id, image=images[0], further_images=tuple(images[1:]), **fields)


def batch_samples(prompts: Sequence[Any], columns: Columns) -> list[Sample]:
    """Sample of each row; rows with the same name and image object share one `Sample`."""
    count = len(prompts)
    names = [str(name) for name in columns.get("sample_id") or (f"row-{row}" for row in range(count))]
    questions = columns.get("question") or [None] * count
    images = batch_images(columns) or [()] * count
    samples: dict[tuple[str, int], Sample] = {}
    rows = []
    for row, name in enumerate(names):
        key = name, id(images[row])
        if key not in samples:
            prompt = completion_text(prompts[row])
            samples[key] = prompt_sample(name, images[row], prompt=prompt, question=questions[row])
        rows.append(samples[key])
    return rows


def _image_response(value: Any, sample_id: str) -> Response:
    if isinstance(value, Mapping):
        value = next((value[name] for name in (*_IMAGE_PARTS, "bytes", "url") if value.get(name) is not None), value)
    if isinstance(value, str) and not value.startswith("data:"):
        raise UserError(
            f"sample {sample_id}: the completion's image is {type(value).__name__}; give encoded bytes or a PIL image"
        )
    return Response.of_image(encoded_image(value))
