"""Preflight check that a storage location can be written and read."""

import os
import secrets
from dataclasses import replace

from rubricworks.errors import UserError
from rubricworks.storage.bucket import open_bucket
from rubricworks.storage.files import local_path, write_atomic
from rubricworks.storage.s3_settings import settings_from_environment
from rubricworks.storage.uris import is_remote, join

_PATIENCE_S = 20.0
"""Retries of the check end after this, so that a person gets an answer."""


def check_storage(uri: str) -> str:
    """Write, read and delete a small object, or file, below a URI.

    Returns:
        One line for the user.
    Raises:
        UserError: the bucket does not exist, credentials are wrong or expired, the server does not answer, or the
            location cannot be written or read.
    """
    name = f".check-{secrets.token_hex(8)}"
    content = name.encode()
    if not is_remote(uri):
        folder = local_path(uri)
        write_atomic(folder / name, content)
        os.unlink(folder / name)
        return f"{folder} can be written"
    settings = settings_from_environment()
    bucket = open_bucket(uri, replace(settings, patience_s=min(settings.patience_s, _PATIENCE_S)))
    next(iter(bucket.objects()), None)
    bucket.write(name, content)
    try:
        if bucket.read(name) != content:
            raise UserError(f"{join(uri, name)}: what was written is not what is read; is this an S3 server?")
    except FileNotFoundError:
        raise UserError(f"{join(uri, name)}: what was written cannot be read; is this an S3 server?") from None
    finally:
        bucket.delete(name)
    return f"{uri} at {settings.endpoint} can be written"
