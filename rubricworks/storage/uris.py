"""Which URIs name an S3 store, and how their parts are put together."""

import re
from typing import NamedTuple

from rubricworks.errors import UserError

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]")


class S3Place(NamedTuple):
    """A bucket, and what the keys in it begin with: empty, or without a slash at either end."""

    bucket: str
    prefix: str


def is_remote(uri: object) -> bool:
    """Whether a URI names an S3 store; folders and file:// do not."""
    return str(uri).startswith("s3://")


def join(uri: str, *parts: str) -> str:
    """The URI of what lies below another, of either scheme, or below a bare path."""
    return "/".join([uri.rstrip("/"), *(part.strip("/") for part in parts if part)])


def s3_place(uri: str) -> S3Place:
    """Bucket and prefix of an s3:// URI.

    Raises:
        UserError: it is no such URI, or names no bucket that S3 allows.
    """
    if not is_remote(uri):
        raise UserError(f"{uri}: not an s3:// URI; write s3://bucket/folder")
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise UserError(
            f"{uri}: {bucket!r} is no name of a bucket (3 to 63 small letters, digits, dots and dashes); "
            "write s3://bucket/folder"
        )
    parts = [part for part in prefix.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise UserError(f"{uri}: a key with . or .. in it names no folder; write s3://bucket/folder")
    return S3Place(bucket, "/".join(parts))
