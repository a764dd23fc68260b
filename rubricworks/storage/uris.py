"""URIs of the S3 store: recognise, join and split them."""

import re
from typing import NamedTuple

from rubricworks.errors import UserError

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]")


class S3Place(NamedTuple):
    """A bucket and the prefix of its keys, which is empty or has no slash at either end."""

    bucket: str
    prefix: str


def is_remote(uri: object) -> bool:
    """Return True for an s3:// URI; folders and file:// are local."""
    return str(uri).startswith("s3://")


def join(uri: str, *parts: str) -> str:
    """Join parts to a URI of either scheme, or to a bare path."""
    return "/".join([uri.rstrip("/"), *(part.strip("/") for part in parts if part)])


def s3_place(uri: str) -> S3Place:
    """Split an s3:// URI into bucket and prefix.

    Raises:
        UserError: it is no s3:// URI, or its bucket name is invalid.
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
