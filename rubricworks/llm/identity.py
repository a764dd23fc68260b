"""Identity of an endpoint's model, as its answers state it (`model`, `system_fingerprint`), and the prompts it got.

A name may refer to a different model tomorrow (a moved alias, a router), and a judge's prompt may change. Scores before
and after are then not comparable. The first answer, and the first call, pin them in a file beside the answers' cache,
so that a resumed run knows them; the stages of a run in a store hand it on.
"""

import hashlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from rubricworks.errors import UserError
from rubricworks.llm.endpoint import Endpoint
from rubricworks.storage import write_atomic

IDENTITY_FILE = "identities.json"
Value = TypeVar("Value")
logger = logging.getLogger(__name__)
_file_lock = threading.Lock()


class Identity(NamedTuple):
    """A model's self-description in a response; empty if the server gives none."""

    model: str = ""
    fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.model or 'an unnamed model'}{f' ({self.fingerprint})' if self.fingerprint else ''}"


class PinnedEntry(BaseModel):
    """Entry of one endpoint in the file."""

    identity: Identity | None = None
    prompts: tuple[str, ...] = ()
    """Versions of the prompts that it was asked with, such as `judge-2`."""
    revision: str = ""
    """The endpoint's own, in its recipe."""
    others: tuple[Identity, ...] = ()
    """Identities of later answers, which `on_change: warn` let pass."""


_ENTRIES = TypeAdapter(dict[str, PinnedEntry])


def merge_identities(file: Path, content: bytes) -> None:
    """Add another pod's pinned identities to a file, without changing existing entries."""
    with _file_lock:
        entries = _read(file)
        try:
            others = _ENTRIES.validate_json(content)
        except ValidationError:
            return
        for key, other in others.items():
            entry = entries.get(key, other)
            prompts = _joined(entry.prompts, other.prompts)
            revision = entry.revision or other.revision
            entries[key] = PinnedEntry(
                identity=entry.identity or other.identity,
                prompts=prompts,
                revision=revision,
                others=_joined(entry.others, other.others),
            )
        _write(file, entries)


def read_identities(file: Path) -> dict[str, list[PinnedEntry]]:
    """Entries of a file by the name of the model; several where more than one server has it."""
    entries: dict[str, list[PinnedEntry]] = {}
    for key, entry in _read(file).items():
        entries.setdefault(key.rpartition(" ")[0], []).append(entry)
    return entries


def read_identity(file: Path, endpoint: Endpoint) -> PinnedEntry | None:
    """Pinned identity of an endpoint, or None if the file has none."""
    return _read(file).get(_key(endpoint))


class IdentityPin:
    """Identities of one endpoint, and versions of its prompts; a second one is an alarm, or the end of the run."""

    def __init__(self, endpoint: Endpoint, purpose: str, folder: Path | None) -> None:
        """
        Args:
            folder: place of the file that keeps the first identity; None keeps it in memory.
        """
        self._endpoint = endpoint
        self._name = f"{purpose} {endpoint.label}".strip()
        self._key = _key(endpoint)
        self._file = folder / IDENTITY_FILE if folder is not None else None
        self._known: set[Identity] = set()
        self._others: list[Identity] = []
        self._required: tuple[Identity, str] | None = None
        self._prompts: set[str] = set()

    def require(self, identity: Identity, source: str) -> None:
        """Refuse responses from any other model, because figures in use were measured on this one.

        Args:
            source: those figures and their verb, for the error: "a.json measured it".
        """
        self._required = (identity, source)
        self._known.clear()

    def check(self, identity: Identity) -> None:
        """Note an answer's identity.

        Raises:
            UserError: it is not the first one, and the endpoint says that this ends the run, or not the required one.
        """
        if identity in self._known:
            return
        if self._required and identity != self._required[0]:
            raise UserError(
                f"{self._name} answers as {identity}, and {self._required[1]} as {self._required[0]}; measure the "
                "model that answers now"
            )
        if not self._known:
            self._known.add(self._pinned(identity))
        if identity in self._known:
            return
        before = ", ".join(map(str, sorted(self._known)))
        self._tell(f"answered as {before} before, and now as {identity}", "Name a dated model")
        self._known.add(identity)
        self._others.append(identity)
        self._update(lambda entry: entry.model_copy(update={"others": _joined(entry.others, (identity,))}))

    @property
    def entry(self) -> PinnedEntry:
        """The identities and the prompts that this process knows."""
        return PinnedEntry(
            identity=min(self._known.difference(self._others), default=None),
            prompts=tuple(sorted(self._prompts)),
            revision=self._endpoint.revision,
            others=tuple(self._others),
        )

    def note_prompt(self, version: str) -> None:
        """Note the version of a prompt that is about to be sent.

        Raises:
            UserError: another version of the same prompt was sent before, and the endpoint says that this ends the run.
        """
        if version in self._prompts:
            return
        before = self._prompts if self._file is None else self._entry().prompts
        others = sorted(
            prompt for prompt in before if prompt != version and _prompt_name(prompt) == _prompt_name(version)
        )
        if others:
            self._tell(f"was asked by prompt {', '.join(others)} before, and now by {version}", "Start a new run")
        self._prompts.add(version)
        self._update(lambda entry: entry.model_copy(update={"prompts": _joined(entry.prompts, (version,))}))

    def _tell(self, change: str, remedy: str) -> None:
        message = f"{self._name}: {change}"
        if self._endpoint.on_change == "refuse":
            raise UserError(
                f"{message}; its verdicts of before and after do not compare. {remedy}, or set on_change to warn"
            )
        logger.warning("%s; figures of before and after may not compare", message)

    def _pinned(self, identity: Identity) -> Identity:
        """The identity in the file; this one, if the file has none yet."""
        first = {"identity": identity, "revision": self._endpoint.revision}
        entry = self._update(lambda entry: entry.model_copy(update=first if entry.identity is None else {}))
        return identity if entry is None or entry.identity is None else entry.identity

    def _entry(self) -> PinnedEntry:
        assert self._file is not None
        return _read(self._file).get(self._key, PinnedEntry())

    def _update(self, change: Callable[[PinnedEntry], PinnedEntry]) -> PinnedEntry | None:
        """Change the file's entry and return it; None without a file."""
        if self._file is None:
            return None
        with _file_lock:
            entries = _read(self._file)
            before = entries.get(self._key)
            entry = change(before or PinnedEntry())
            if entry != before:
                _write(self._file, entries | {self._key: entry})
            return entry


def _key(endpoint: Endpoint) -> str:
    """Name of an endpoint's entry. The file contains no URLs.

    A model that the run serves has an entry for each of its identities: a retrained one is another model.
    """
    label = f"{endpoint.label} {endpoint.revision}" if endpoint.serve else endpoint.label
    return f"{endpoint.model} {hashlib.sha256(label.encode()).hexdigest()[:16]}"


def _joined(first: tuple[Value, ...], second: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _prompt_name(version: str) -> str:
    return version.rpartition("-")[0]


def _read(file: Path) -> dict[str, PinnedEntry]:
    """Entries of a file; empty if it is missing or incomplete."""
    try:
        return _ENTRIES.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return {}


def _write(file: Path, entries: dict[str, PinnedEntry]) -> None:
    write_atomic(file, _ENTRIES.dump_json(entries, indent=2))
