"""The parts of a chat message: text, images as data URLs, and foreign text fenced by tags.

What a model wrote, or a person, is data when it enters a prompt. `fence` puts it between tags and takes the angle
bracket from any of our own tags inside it, so that a caption cannot close its fence and speak as the prompt.
"""

import base64
import re

_OUR_TAGS = re.compile(r"<(?=\s*/?\s*(?:caption|criteria|candidate|student_caption|reference))", re.IGNORECASE)


def text_part(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def image_part(image: bytes) -> dict[str, object]:
    """An image, PNG or JPEG, as the data URL that OpenAI-compatible servers take.

    Raises:
        ValueError: the bytes are neither PNG nor JPEG.
    """
    if image.startswith(b"\x89PNG\r\n\x1a\n"):
        kind = "png"
    elif image.startswith(b"\xff\xd8\xff"):
        kind = "jpeg"
    else:
        raise ValueError("the image is neither PNG nor JPEG; `rubricworks.data` re-encodes other kinds")
    data = base64.b64encode(image).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{data}"}}


def fence(tag: str, text: str, *, name: str = "") -> str:
    """`text` on lines of its own between `<tag>` and `</tag>`, our own tags inside it blunted (`<` becomes `&lt;`)."""
    if "<" in text:
        text = _OUR_TAGS.sub("&lt;", text)
    opening = f'<{tag} name="{name}">' if name else f"<{tag}>"
    return f"{opening}\n{text}\n</{tag}>"
