"""Check that a model sees images: it is asked for the colour of a plain picture, which only the picture tells.

A text model behind a server that drops images would describe, or judge, what it never saw. vLLM refuses images for such
a model; other servers ignore them, and the model names a colour by chance or says that it sees nothing. An answer with
no colour at all passes: a model that is trained for one task may not answer others.
"""

import io
import re

from rubricworks.errors import UserError
from rubricworks.llm.answers import read_answer, split_thought
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.http.connections import Connections, RequestFailed
from rubricworks.llm.messages import image_part, text_part, user_message
from rubricworks.llm.request import RequestFrame

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
_MAX_QUOTE = 120


async def check_sees_images(endpoint: Endpoint) -> None:
    """Send one request with a picture.

    Raises:
        UserError: the server refuses the picture, or the model answers without having seen it.
    """
    question = user_message([image_part(_picture()), text_part(QUESTION)])
    body = RequestFrame(endpoint, None).encode([question], 0).body
    connections = Connections(endpoint)
    try:
        pool = connections.pool()
        payload = await connections.exchange(pool, "POST", pool.replicas[0].chat_url, body)
    except RequestFailed as error:
        # A server that is busy or failing says nothing about its model; one that fails at images often names them.
        if error.status in _REFUSALS and (error.status < 500 or "image" in str(error)):
            raise UserError(
                f"{endpoint.label} takes no images, and is shown some: {error}; give a model that sees"
            ) from None
        return
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


def _picture() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (_SIDE, _SIDE), _PURPLE).save(file, "PNG")
    return file.getvalue()
