"""A stage's index of files and its current attempt, in the store.

state/STAGE/index.json      path relative to the run → size and sha256; written after the files themselves
state/STAGE/attempt.json    the latest attempt; an earlier one, on a node that was cut off, can no longer write an index
"""

import json
import secrets
import socket
from contextlib import suppress
from typing import Any, NamedTuple

from rubricworks.errors import UserError
from rubricworks.runtime.job import DONE
from rubricworks.runtime.store.run_state import STATE
from rubricworks.storage import Bucket, join

INDEX, ATTEMPT = "index.json", "attempt.json"
REPLACED = "replaced/"
"""Prefix in a run of outputs that were moved aside (`job.set_aside`)."""


class IndexEntry(NamedTuple):
    """Size and digest of one file in the index."""

    size: int
    sha256: str
    """Empty if unknown."""


def begin_attempt(bucket: Bucket, stage: str) -> str:
    """Claim the stage for a new attempt and return the attempt's name."""
    attempt = secrets.token_hex(6)
    content = json.dumps({"attempt": attempt, "host": socket.gethostname()})
    bucket.write(f"{STATE}/{stage}/{ATTEMPT}", content.encode())
    return attempt


def latest_attempt(bucket: Bucket, stage: str) -> str:
    """Return the name of the stage's latest attempt, or an empty string."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        return str(json.loads(bucket.read(f"{STATE}/{stage}/{ATTEMPT}"))["attempt"])
    return ""


def check_attempt(bucket: Bucket, stage: str, attempt: str) -> None:
    """Check that this is still the stage's latest attempt.

    Raises:
        UserError: a later attempt has taken over.
    """
    if latest_attempt(bucket, stage) != attempt:
        raise UserError(f"{join(bucket.uri, stage)}: a later attempt of {stage} has taken over; this one stops")


def write_index(bucket: Bucket, stage: str, attempt: str, files: dict[str, IndexEntry]) -> None:
    content = json.dumps({"attempt": attempt, "files": files}, sort_keys=True).encode()
    bucket.write(f"{STATE}/{stage}/{INDEX}", content)


def read_index(bucket: Bucket, stage: str) -> dict[str, IndexEntry]:
    """Read a stage's index, keyed by path relative to the run; empty if there is none.

    A finished stage that was copied to the store without its index is listed from its folder.
    """
    try:
        content: Any = json.loads(bucket.read(f"{STATE}/{stage}/{INDEX}"))
        return {path: IndexEntry(*entry) for path, entry in content["files"].items()}
    except FileNotFoundError:
        if not bucket.exists(f"{stage}/{DONE}"):
            return {}
        return {item.key: IndexEntry(item.size, "") for item in bucket.objects(f"{stage}/")}
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{join(bucket.uri, STATE, stage, INDEX)}: not an index; delete it and {join(bucket.uri, stage)}"
        ) from None
