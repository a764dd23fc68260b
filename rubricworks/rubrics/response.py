"""Response: a model's answer to one sample, a text or an image.

A text is interchangeable with its `str`: it compares and hashes equal, and its JSON is the string. An image is
identified by the SHA-256 digest of its bytes. Its JSON holds digest and media type, so a response that comes from JSON
or from a table has no bytes until `with_image` adds them.
"""

import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from rubricworks.errors import UserError

MediaType = Literal["image/png", "image/jpeg"]
_DIGEST = re.compile(r"[0-9a-f]{64}")
_JPEG_SIGNATURE = b"\xff\xd8\xff"


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """A text, or an image: `Response("A red square.")`, `Response.of_image(png)`."""

    text: str | None = None
    image: bytes | None = field(default=None, repr=False)
    """Bytes of the image; None for a text, and for an image whose bytes were not read."""
    media_type: MediaType | None = None
    """None for a text."""
    digest: str = ""
    """SHA-256 of the image in hexadecimal, computed from `image` if absent; empty for a text."""

    def __post_init__(self) -> None:
        if self.text is not None:
            if not isinstance(self.text, str):
                raise TypeError(f"a response's text is a str, not {type(self.text).__name__}")
            if self.image is not None or self.media_type is not None or self.digest:
                raise ValueError("a response is either a text or an image; give one of them")
            return
        if self.image is None and not self.digest:
            raise ValueError("a response is a text or an image; give one of them")
        if self.media_type not in get_args(MediaType):
            raise ValueError(f"media type {self.media_type!r}: choose {' or '.join(get_args(MediaType))}")
        if self.digest and not _DIGEST.fullmatch(self.digest):
            raise ValueError(f"digest {self.digest[:80]!r}: not 64 hexadecimal digits of SHA-256")
        if self.image is not None:
            digest = hashlib.sha256(self.image).hexdigest()
            if self.digest not in ("", digest):
                raise ValueError(f"the image has digest {digest}, not {self.digest}")
            object.__setattr__(self, "digest", digest)

    @classmethod
    def of(cls, value: "str | Response") -> "Response":
        """Response of a text, or `value` itself if it is one."""
        return value if isinstance(value, Response) else cls(value)

    @classmethod
    def of_image(cls, image: bytes) -> Self:
        """Response of an encoded image; its signature gives the media type.

        Bytes without a JPEG signature count as PNG: `Grader` rejects those that no decoder reads.
        """
        return cls(image=image, media_type="image/jpeg" if image.startswith(_JPEG_SIGNATURE) else "image/png")

    @property
    def is_image(self) -> bool:
        return self.text is None

    @property
    def key(self) -> str:
        """Text, or digest of the image: the column `response` of a table."""
        return self.digest if self.text is None else self.text

    def require_text(self, reader: str) -> str:
        """Text of the response.

        Args:
            reader: name of what reads the text, for the message.
        Raises:
            UserError: the response is an image.
        """
        if self.text is None:
            raise UserError(f"{reader} reads text, and the response is an image ({self.media_type} {self.digest[:12]})")
        return self.text

    def with_image(self, image: bytes) -> Self:
        """Add the bytes of an image whose digest and media type are known.

        Raises:
            ValueError: the bytes have another digest, or the response is a text.
        """
        return replace(self, image=image)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.text == other
        if not isinstance(other, Response):
            return NotImplemented
        return (self.text, self.media_type, self.digest) == (other.text, other.media_type, other.digest)

    def __hash__(self) -> int:
        return hash(self.key)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(cls._dump)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        image = {
            "type": "object",
            "properties": {
                "digest": {"type": "string", "pattern": f"^{_DIGEST.pattern}$"},
                "media_type": {"enum": list(get_args(MediaType))},
            },
            "required": ["digest", "media_type"],
            "additionalProperties": False,
        }
        return {"anyOf": [{"type": "string"}, image], "title": cls.__name__}

    @classmethod
    def _validate(cls, value: Any) -> "Response":
        if isinstance(value, str | Response):
            return cls.of(value)
        if isinstance(value, dict) and value.keys() == {"digest", "media_type"} and isinstance(value["digest"], str):
            return cls(digest=value["digest"], media_type=value["media_type"])
        raise ValueError("a response is a text, or digest and media_type of an image")

    def _dump(self) -> str | dict[str, str | None]:
        return {"digest": self.digest, "media_type": self.media_type} if self.text is None else self.text
