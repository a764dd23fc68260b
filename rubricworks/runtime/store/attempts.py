"""What the store keeps of a stage: its index of files, and which attempt has it now.

state/STAGE/index.json      path, as seen from the run → size and sha256; written when all of them are there
state/STAGE/attempt.json    the latest attempt; an earlier one, on a node that was cut off, writes no index any more
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
ASIDE = "replaced/"
"""Where in a run lies what was made from something else, to be looked at."""


class File(NamedTuple):
    """A file as the index names it."""

    size: int
    sha256: str
    """Empty where nobody wrote it down."""


def begin_attempt(bucket: Bucket, stage: str) -> str:
    """Take a stage over; returns the attempt's name."""
    attempt = secrets.token_hex(6)
    told = json.dumps({"attempt": attempt, "host": socket.gethostname()})
    bucket.write(f"{STATE}/{stage}/{ATTEMPT}", told.encode())
    return attempt


def latest_attempt(bucket: Bucket, stage: str) -> str:
    """Names the attempt that has a stage; empty if none began."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        return str(json.loads(bucket.read(f"{STATE}/{stage}/{ATTEMPT}"))["attempt"])
    return ""


def check_attempt(bucket: Bucket, stage: str, attempt: str) -> None:
    """See that no later attempt has taken the stage over.

    Raises:
        UserError: one has.
    """
    if latest_attempt(bucket, stage) != attempt:
        raise UserError(f"{join(bucket.uri, stage)}: a later attempt of {stage} has taken over; this one stops")


def write_index(bucket: Bucket, stage: str, attempt: str, files: dict[str, File]) -> None:
    content = json.dumps({"attempt": attempt, "files": files}, sort_keys=True).encode()
    bucket.write(f"{STATE}/{stage}/{INDEX}", content)


def read_index(bucket: Bucket, stage: str) -> dict[str, File]:
    """Path, as seen from the run → file, of what a stage has kept.

    A finished stage that somebody copied there without its index counts with all that lies in its folder.
    """
    try:
        content: Any = json.loads(bucket.read(f"{STATE}/{stage}/{INDEX}"))
        return {path: File(*file) for path, file in content["files"].items()}
    except FileNotFoundError:
        if not bucket.exists(f"{stage}/{DONE}"):
            return {}
        return {found.key: File(found.size, "") for found in bucket.objects(f"{stage}/")}
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{join(bucket.uri, STATE, stage, INDEX)}: not an index; delete it and {join(bucket.uri, stage)}"
        ) from None
