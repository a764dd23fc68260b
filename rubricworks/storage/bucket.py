"""The objects below one s3:// URI, through the `minio` client.

Every request is repeated, with growing pauses, for as long as the server fails or does not answer (see `s3_errors`).
What is written carries its sha256, and what is read is compared with it; objects of others are compared with their MD5
where the server tells it. A large file goes up in parts, each repeated on its own, and comes down from where the
connection broke.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rubricworks.errors import UserError
from rubricworks.storage.files import ASIDE_SUFFIX
from rubricworks.storage.s3_client import client_of, encryption_of
from rubricworks.storage.s3_download import CHECKSUM, Download
from rubricworks.storage.s3_errors import code_of, gone, passes, status_of, user_error
from rubricworks.storage.s3_multipart import LARGE_BYTES, abort_unfinished, upload_in_parts
from rubricworks.storage.s3_settings import S3Settings, settings_from_environment
from rubricworks.storage.uris import join, s3_place

T = TypeVar("T")
_PAGE = 1_000


class StoredObject(NamedTuple):
    """An object as a listing shows it."""

    key: str
    """Relative to the bucket's URI."""
    size: int
    etag: str
    modified: datetime


def open_bucket(uri: str, settings: S3Settings | None = None) -> "Bucket":
    """The objects below an s3:// URI; asks the server nothing yet. Raises UserError: a setting or the URI is wrong."""
    s3_place(uri)
    settings = settings or settings_from_environment()
    return Bucket(uri, settings, client_of(settings))


class Bucket:
    """Reads and writes below one URI; safe to use from several threads. Keys are relative to the URI.

    Every method raises UserError when the server refuses, or has failed for longer than the patience.
    """

    def __init__(self, uri: str, settings: S3Settings, client: Any) -> None:
        self.uri = uri.rstrip("/")
        self.settings = settings
        self._place = s3_place(uri)
        self._client = client
        self._encryption = encryption_of(settings)
        self._own_key = self._encryption if settings.sse == "c" else None

    def below(self, *parts: str) -> "Bucket":
        """The objects of a folder, over the same connections."""
        return Bucket(join(self.uri, *parts), self.settings, self._client)

    def objects(self, under: str = "") -> Iterator[StoredObject]:
        """The objects whose keys begin so, in the order of their keys; all of them by default."""
        begin = self._key(under) if under else f"{self._place.prefix}/" if self._place.prefix else ""
        cut = len(self._place.prefix) + 1 if self._place.prefix else 0
        last = None
        while True:
            page = self._ask(partial(self._page, begin, last), under, "listed")
            for found in page:
                if not found.object_name.endswith("/"):
                    yield StoredObject(
                        found.object_name[cut:], found.size or 0, (found.etag or "").strip('"'), found.last_modified
                    )
            if len(page) < _PAGE:
                return
            last = page[-1].object_name

    def folders(self) -> list[str]:
        """The names of what lies directly below and holds objects."""

        def ask() -> list[str]:
            begin = f"{self._place.prefix}/" if self._place.prefix else ""
            found = self._client.list_objects(self._place.bucket, prefix=begin, recursive=False)
            return [one.object_name[len(begin) :].rstrip("/") for one in found if one.is_dir]

        return sorted(self._ask(ask, "", "listed"))

    def exists(self, key: str) -> bool:
        return self._stat(key) is not None

    def read(self, key: str) -> bytes:
        """The whole of an object.

        Raises:
            FileNotFoundError: there is none.
            UserError: it is damaged, or cannot be read.
        """
        content = bytearray()
        self._receive(key, content.extend, content.clear)
        return bytes(content)

    def download(self, key: str, path: Path) -> None:
        """Write an object to a file, which is there whole or not at all. Raises as `read` does."""
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}{ASIDE_SUFFIX}")
        try:
            with aside.open("xb") as file:

                def begin_anew() -> None:
                    file.seek(0)
                    file.truncate()

                self._receive(key, file.write, begin_anew)
            aside.replace(path)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise UserError(f"{path} cannot be written: {error.strerror}; make room in the workspace") from error
        finally:
            aside.unlink(missing_ok=True)

    def write(self, key: str, content: bytes, *, only_new: bool = False) -> bool:
        """Write an object whole.

        Args:
            only_new: leave an object that is there alone. Atomic (If-None-Match) where the server knows how.
        Returns:
            False if `only_new` and another was there first; one with the same content counts as ours.
        """
        headers = self._headers(hashlib.sha256(content).hexdigest())
        if only_new:
            if (there := self._there(key)) is not None:
                return there == content
            headers["If-None-Match"] = "*"

        def put() -> None:
            self._client._put_object(self._place.bucket, self._key(key), content, dict(headers))

        try:
            self._ask(put, key, "written", explain=False)
        except Exception as error:
            if only_new and (status_of(error) == 412 or code_of(error) == "PreconditionFailed"):
                # Ours, when the answer to it was lost and it was sent again.
                return self._there(key) == content
            if only_new and (status_of(error) == 501 or code_of(error) == "NotImplemented"):
                return self.write(key, content)
            raise self._explained(error, key, "written") from error
        return True

    def upload(self, path: Path, key: str) -> str:
        """Write a file's content to an object and return its sha256; in parts if it is large.

        Raises:
            OSError: the file cannot be read, or changes meanwhile.
        """
        size = path.stat().st_size
        if size < LARGE_BYTES:
            content = path.read_bytes()
            self.write(key, content)
            return hashlib.sha256(content).hexdigest()
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        upload_in_parts(
            self._client,
            self._place.bucket,
            self._key(key),
            path,
            headers=self._headers(digest),
            part_headers=self._own_key.headers() if self._own_key else {},
            ask=lambda request: self._ask(request, key, "written"),
            is_there=lambda: (found := self._stat(key)) and found.metadata.get(f"x-amz-meta-{CHECKSUM}") == digest,
        )
        return digest

    def delete(self, *keys: str) -> None:
        """Delete objects, in this order; one that is not there is no error."""
        for key in keys:
            self._ask(partial(self._client.remove_object, self._place.bucket, self._key(key)), key, "deleted")

    def delete_unfinished_uploads(self) -> int:
        """Drop the parts that killed uploads left below; returns of how many uploads."""
        begin = f"{self._place.prefix}/" if self._place.prefix else ""
        return self._ask(partial(abort_unfinished, self._client, self._place.bucket, begin), "", "written")

    def _receive(self, key: str, take: Callable[[bytes], object], begin_anew: Callable[[], object]) -> None:
        download = Download(take, begin_anew)
        get = partial(self._client.get_object, self._place.bucket, self._key(key), ssec=self._own_key)
        try:
            self._ask(partial(download.go_on, get), key, "read", explain=False)
        except Exception as error:
            if gone(error):
                raise FileNotFoundError(f"{join(self.uri, key)}: there is no such object") from None
            if isinstance(error, OSError) and not passes(error):
                raise
            raise self._explained(error, key, "read") from error

    def _there(self, key: str) -> bytes | None:
        try:
            return self.read(key)
        except FileNotFoundError:
            return None

    def _stat(self, key: str) -> Any:
        def ask() -> Any:
            try:
                return self._client.stat_object(self._place.bucket, self._key(key), ssec=self._own_key)
            except Exception as error:
                if gone(error):
                    return None
                raise

        return self._ask(ask, key, "read")

    def _page(self, begin: str, last: str | None) -> list[Any]:
        found = self._client.list_objects(self._place.bucket, prefix=begin, recursive=True, start_after=last)
        return list(islice(found, _PAGE))

    def _headers(self, sha256: str) -> dict[str, Any]:
        encryption = self._encryption.headers() if self._encryption else {}
        return {"Content-Type": "application/octet-stream", f"x-amz-meta-{CHECKSUM}": sha256, **encryption}

    def _key(self, key: str) -> str:
        return f"{self._place.prefix}/{key}" if self._place.prefix else key

    def _ask(self, request: Callable[[], T], key: str, doing: str, *, explain: bool = True) -> T:
        import stamina

        try:
            for attempt in stamina.retry_context(
                on=passes, attempts=None, timeout=self.settings.patience_s, wait_initial=0.2, wait_max=8.0
            ):
                with attempt:
                    return request()
            raise AssertionError("stamina gives the last error")
        except UserError:
            raise
        except Exception as error:
            if not explain:
                raise
            raise self._explained(error, key, doing) from error

    def _explained(self, error: Exception, key: str, doing: str) -> UserError:
        place = join(self.uri, key)
        return error if isinstance(error, UserError) else user_error(error, place, doing, self.settings)
