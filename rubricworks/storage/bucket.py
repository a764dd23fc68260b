"""Bucket: the objects below one s3:// URI, through the `minio` client.

Every request is retried, with growing pauses, while the server fails or does not answer (see `s3_errors`). Objects are
written with their sha256, which is checked on reading; objects of other writers are checked by MD5 where the server
gives it. A large file is uploaded in parts, each retried on its own; a broken download resumes where it stopped.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rubricworks.errors import UserError
from rubricworks.storage.confined_files import UnreadableFile
from rubricworks.storage.files import TEMPORARY_SUFFIX
from rubricworks.storage.s3_client import create_client, create_encryption
from rubricworks.storage.s3_errors import error_code, http_status, is_missing, is_retryable, to_user_error
from rubricworks.storage.s3_settings import S3Settings, settings_from_environment
from rubricworks.storage.s3_transfers import CHECKSUM, LARGE_BYTES, Download, abort_unfinished, upload_in_parts
from rubricworks.storage.uris import join, s3_place

T = TypeVar("T")
_PAGE = 1_000


class StoredObject(NamedTuple):
    """An object in a listing."""

    key: str
    """Relative to the bucket's URI."""
    size: int
    etag: str
    modified: datetime


def open_bucket(uri: str, settings: S3Settings | None = None) -> "Bucket":
    """Return the bucket of an s3:// URI, without any request.

    Raises:
        UserError: a setting or the URI is wrong.
    """
    s3_place(uri)
    settings = settings or settings_from_environment()
    return Bucket(uri, settings, create_client(settings))


class Bucket:
    """The objects below one URI; thread-safe. Keys are relative to the URI.

    Every method raises UserError if the server refuses, or fails for longer than `S3Settings.patience_s`.
    """

    def __init__(self, uri: str, settings: S3Settings, client: Any) -> None:
        self.uri = uri.rstrip("/")
        self.settings = settings
        self._place = s3_place(uri)
        self._client = client
        self._encryption = create_encryption(settings)
        self._customer_key = self._encryption if settings.sse == "c" else None

    def below(self, *parts: str) -> "Bucket":
        """Return the bucket of a folder, over the same connections."""
        return Bucket(join(self.uri, *parts), self.settings, self._client)

    def objects(self, under: str = "") -> Iterator[StoredObject]:
        """List the objects whose keys start with `under`, in the order of their keys; all by default."""
        prefix = self._key(under) if under else f"{self._place.prefix}/" if self._place.prefix else ""
        key_start = len(self._place.prefix) + 1 if self._place.prefix else 0
        last = None
        while True:
            page = self._request(partial(self._page, prefix, last), under, "listed")
            for item in page:
                if not item.object_name.endswith("/"):
                    key, etag = item.object_name[key_start:], (item.etag or "").strip('"')
                    yield StoredObject(key, item.size or 0, etag, item.last_modified)
            if len(page) < _PAGE:
                return
            last = page[-1].object_name

    def folders(self, rest: float = 0.0) -> list[str]:
        """List the names of the folders directly below that hold objects.

        Args:
            rest: pause after each page, as a multiple of what it took, in which other threads get on.
        """

        def list_folders() -> list[str]:
            prefix = f"{self._place.prefix}/" if self._place.prefix else ""
            names, begin = [], time.monotonic()
            items = self._client.list_objects(self._place.bucket, prefix=prefix, recursive=False)
            for number, item in enumerate(items, 1):
                if item.is_dir:
                    names.append(item.object_name[len(prefix) :].rstrip("/"))
                if rest and number % _PAGE == 0:
                    time.sleep(rest * (time.monotonic() - begin))
                    begin = time.monotonic()
            return names

        return sorted(self._request(list_folders, "", "listed"))

    def exists(self, key: str) -> bool:
        return self._stat(key) is not None

    def read(self, key: str, most: int | None = None) -> bytes:
        """Read a whole object.

        Args:
            most: bytes of the largest object that is read.
        Raises:
            FileNotFoundError: there is no such object.
            UserError: it is damaged, too large, or cannot be read.
        """
        content = bytearray()

        def add(part: bytes) -> None:
            content.extend(part)
            if most is not None and len(content) > most:
                raise UnreadableFile(f"{join(self.uri, key)} has more than the {most >> 20} MB that are read")

        self._receive(key, add, content.clear)
        return bytes(content)

    def read_end(self, key: str, begin: int, most: int) -> tuple[bytes, int]:
        """Read an object from a byte on, and at most its last bytes; what is read is not verified.

        Args:
            begin: place of the first byte; 0 if the object has become shorter.
            most: number of bytes.
        Returns:
            the bytes, and the place of the first one.
        Raises:
            FileNotFoundError: there is no such object.
            UserError: it cannot be read.
        """
        stat = self._stat(key)
        if stat is None:
            raise FileNotFoundError(f"{join(self.uri, key)}: there is no such object")
        start = max(begin if begin <= stat.size else 0, stat.size - most)
        return (self.read_range(key, start, stat.size - start) if start < stat.size else b""), start

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read some bytes of an object; they are not verified. Raises as `read_end` does."""

        def get() -> bytes | None:
            try:
                response = self._client.get_object(
                    self._place.bucket, self._key(key), start, length, ssec=self._customer_key
                )
            except Exception as error:
                if is_missing(error):
                    return None
                raise
            try:
                return bytes(response.read(decode_content=False))
            finally:
                response.close()
                response.release_conn()

        content = self._request(get, key, "read")
        if content is None:
            raise FileNotFoundError(f"{join(self.uri, key)}: there is no such object")
        return content

    def download(self, key: str, path: Path) -> None:
        """Write an object to a file atomically. Raises as `read` does."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
        try:
            with temporary.open("xb") as file:

                def restart() -> None:
                    file.seek(0)
                    file.truncate()

                self._receive(key, file.write, restart)
            temporary.replace(path)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise UserError(f"{path} cannot be written: {error.strerror}; make room in the workspace") from error
        finally:
            temporary.unlink(missing_ok=True)

    def write(self, key: str, content: bytes, *, only_new: bool = False) -> bool:
        """Write an object.

        Args:
            only_new: keep an existing object. Atomic (If-None-Match) if the server supports it.
        Returns:
            False if `only_new` and an object with other content exists.
        """
        headers = self._headers(hashlib.sha256(content).hexdigest())
        if only_new:
            if (existing := self._read_existing(key)) is not None:
                return existing == content
            headers["If-None-Match"] = "*"

        def put() -> None:
            self._client._put_object(self._place.bucket, self._key(key), content, dict(headers))

        try:
            self._request(put, key, "written", explain=False)
        except Exception as error:
            if only_new and (http_status(error) == 412 or error_code(error) == "PreconditionFailed"):
                # The object may be our own: the response was lost, and the request sent again.
                return self._read_existing(key) == content
            if only_new and (http_status(error) == 501 or error_code(error) == "NotImplemented"):
                return self.write(key, content)
            raise self._to_user_error(error, key, "written") from error
        return True

    def upload(self, path: Path, key: str) -> str:
        """Upload a file, in parts if it is large, and return its sha256.

        Raises:
            OSError: the file cannot be read, or changes during the upload.
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
            part_headers=self._customer_key.headers() if self._customer_key else {},
            send=lambda request: self._request(request, key, "written"),
            is_complete=lambda: (item := self._stat(key)) and item.metadata.get(f"x-amz-meta-{CHECKSUM}") == digest,
        )
        return digest

    def delete(self, *keys: str) -> None:
        """Delete objects, in this order; a missing one is no error."""
        for key in keys:
            self._request(partial(self._client.remove_object, self._place.bucket, self._key(key)), key, "deleted")

    def delete_unfinished_uploads(self) -> int:
        """Delete the parts of interrupted uploads below the URI and return the number of uploads."""
        prefix = f"{self._place.prefix}/" if self._place.prefix else ""
        return self._request(partial(abort_unfinished, self._client, self._place.bucket, prefix), "", "written")

    def _receive(self, key: str, write: Callable[[bytes], object], restart: Callable[[], object]) -> None:
        download = Download(write, restart)
        get = partial(self._client.get_object, self._place.bucket, self._key(key), ssec=self._customer_key)
        try:
            self._request(partial(download.resume, get), key, "read", explain=False)
        except Exception as error:
            if is_missing(error):
                raise FileNotFoundError(f"{join(self.uri, key)}: there is no such object") from None
            if isinstance(error, UnreadableFile) or (isinstance(error, OSError) and not is_retryable(error)):
                raise
            raise self._to_user_error(error, key, "read") from error

    def _read_existing(self, key: str) -> bytes | None:
        try:
            return self.read(key)
        except FileNotFoundError:
            return None

    def _stat(self, key: str) -> Any:
        def stat() -> Any:
            try:
                return self._client.stat_object(self._place.bucket, self._key(key), ssec=self._customer_key)
            except Exception as error:
                if is_missing(error):
                    return None
                raise

        return self._request(stat, key, "read")

    def _page(self, prefix: str, last: str | None) -> list[Any]:
        items = self._client.list_objects(self._place.bucket, prefix=prefix, recursive=True, start_after=last)
        return list(islice(items, _PAGE))

    def _headers(self, sha256: str) -> dict[str, object]:
        encryption = self._encryption.headers() if self._encryption else {}
        return {"Content-Type": "application/octet-stream", f"x-amz-meta-{CHECKSUM}": sha256, **encryption}

    def _key(self, key: str) -> str:
        return f"{self._place.prefix}/{key}" if self._place.prefix else key

    def _request(self, request: Callable[[], T], key: str, action: str, *, explain: bool = True) -> T:
        import stamina

        try:
            for attempt in stamina.retry_context(
                on=is_retryable, attempts=None, timeout=self.settings.patience_s, wait_initial=0.2, wait_max=8.0
            ):
                with attempt:
                    return request()
            raise AssertionError("stamina gives the last error")
        except UserError:
            raise
        except Exception as error:
            if not explain:
                raise
            raise self._to_user_error(error, key, action) from error

    def _to_user_error(self, error: Exception, key: str, action: str) -> UserError:
        place = join(self.uri, key)
        return error if isinstance(error, UserError) else to_user_error(error, place, action, self.settings)
