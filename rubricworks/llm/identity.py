"""Identity of an endpoint's model, as its answers state it: `model` and `system_fingerprint`.

A name may stand for another model tomorrow (an alias that is moved, a router), and then numbers of before and after do
not compare. The first answer pins the identity, in a file beside the answers' cache, so that a resumed run knows it.
"""

import hashlib
import json
import logging
import threading
from pathlib import Path
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.llm.endpoint import Endpoint
from rubricworks.storage import write_atomic

IDENTITY_FILE = "identities.json"
logger = logging.getLogger(__name__)
_file_lock = threading.Lock()


class Identity(NamedTuple):
    """Self-description of a model in an answer; empty where the server gives none."""

    model: str = ""
    fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.model or 'an unnamed model'}{f' ({self.fingerprint})' if self.fingerprint else ''}"


class IdentityPin:
    """Identities that one endpoint has answered with; a second one is an alarm, or the end of the run."""

    def __init__(self, endpoint: Endpoint, purpose: str, folder: Path | None) -> None:
        """
        Args:
            folder: place of the file that keeps the first identity; None keeps it in memory.
        """
        self._endpoint = endpoint
        self._name = f"{purpose} {endpoint.label}".strip()
        # No URL in the file, as in the cache beside it.
        self._key = f"{endpoint.model} {hashlib.sha256(endpoint.label.encode()).hexdigest()[:16]}"
        self._file = folder / IDENTITY_FILE if folder is not None else None
        self._known: set[Identity] = set()

    def check(self, identity: Identity) -> None:
        """Note an answer's identity.

        Raises:
            UserError: it is not the first one, and the endpoint says that this ends the run.
        """
        if identity in self._known:
            return
        if not self._known:
            self._known.add(self._pinned(identity))
        if identity in self._known:
            return
        before = ", ".join(map(str, sorted(self._known)))
        message = f"{self._name}: answered as {before} before, and now as {identity}"
        if self._endpoint.on_change == "refuse":
            raise UserError(
                f"{message}; its verdicts of before and after do not compare. Name a dated model, or set on_change to "
                "warn"
            )
        self._known.add(identity)
        logger.warning("%s; figures of before and after may not compare", message)

    def _pinned(self, identity: Identity) -> Identity:
        """The identity in the file; this one, if the file has none yet."""
        if self._file is None:
            return identity
        with _file_lock:
            try:
                entries = json.loads(self._file.read_bytes())
            except (OSError, ValueError):
                entries = {}
            if (entry := entries.get(self._key)) is not None:
                return Identity(*entry)
            write_atomic(self._file, json.dumps(entries | {self._key: identity}, indent=2).encode())
            return identity
