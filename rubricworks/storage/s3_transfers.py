"""Transfers of large objects: multipart uploads, downloads that resume after a broken connection and are verified.

Each part of an upload is retried on its own, and a failed upload is aborted.
"""

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rubricworks.storage.s3_errors import DamagedObject, error_code, http_status

PART_BYTES = 16 << 20
LARGE_BYTES = 2 * PART_BYTES
"""Size from which an object is uploaded in parts."""
_MAX_PARTS = 9_000
"""Parts grow when there would be more; S3 allows 10,000."""
_AT_ONCE = 3


def upload_in_parts(
    client: Any,
    bucket: str,
    key: str,
    path: Path,
    *,
    headers: Mapping[str, object],
    part_headers: Mapping[str, str],
    send: Callable[[Callable[[], Any]], Any],
    is_complete: Callable[[], bool],
) -> None:
    """Upload a file in parts.

    Args:
        client: a `minio.Minio`.
        headers: headers of the object: type, checksum, encryption.
        part_headers: headers of every part: a customer-provided key.
        send: makes a request, with retries.
        is_complete: returns True if the object is complete, called when the server no longer knows the upload.
    Raises:
        OSError: the file cannot be read, or changes during the upload.
    """
    from minio.datatypes import Part

    size = path.stat().st_size
    part_bytes = max(PART_BYTES, -(-size // _MAX_PARTS))
    count = -(-size // part_bytes)
    upload_id = send(partial(client._create_multipart_upload, bucket, key, dict(headers)))

    def upload_part(number: int) -> Any:
        with path.open("rb") as file:
            file.seek((number - 1) * part_bytes)
            content = file.read(part_bytes)
        if len(content) != min(part_bytes, size - (number - 1) * part_bytes):
            raise OSError(f"{path} changed while it was uploaded")
        etag = send(lambda: client._upload_part(bucket, key, content, dict(part_headers) or None, upload_id, number))
        return Part(number, etag)

    try:
        with ThreadPoolExecutor(min(_AT_ONCE, count)) as pool:
            parts = list(pool.map(upload_part, range(1, count + 1)))
        if path.stat().st_size != size:
            raise OSError(f"{path} changed while it was uploaded")
        _complete(client, bucket, key, upload_id, parts, part_headers, send, is_complete)
    except BaseException:
        with suppress(Exception):
            client._abort_multipart_upload(bucket, key, upload_id)
        raise


def _complete(
    client: Any,
    bucket: str,
    key: str,
    upload_id: str,
    parts: list[Any],
    part_headers: Mapping[str, str],
    send: Callable[[Callable[[], Any]], Any],
    is_complete: Callable[[], bool],
) -> None:
    def complete() -> None:
        try:
            client._complete_multipart_upload(bucket, key, upload_id, parts)
        except Exception as error:
            # The response to an earlier try was lost: the upload is unknown because it is an object now.
            if error_code(error) != "NoSuchUpload" or not is_complete():
                raise

    send(complete)


def abort_unfinished(client: Any, bucket: str, prefix: str) -> int:
    """Abort the interrupted uploads below a prefix and return their number; 0 if the server cannot list them."""
    from minio.error import MinioException

    try:
        uploads = client._list_multipart_uploads(bucket, prefix=prefix).uploads
    except (MinioException, ValueError):
        return 0
    for upload in uploads:
        with suppress(MinioException):
            client._abort_multipart_upload(bucket, upload.object_name, upload.upload_id)
    return len(uploads)


CHECKSUM = "rubricworks-sha256"
"""Name of the object metadata with the sha256 of its content."""
_READ_BYTES = 1 << 20


class Download:
    """State of one download; call `resume` until it returns without an error."""

    def __init__(self, write: Callable[[bytes], object], restart: Callable[[], object]) -> None:
        """
        Args:
            write: called with the bytes, in order.
            restart: discards all that was written.
        """
        self._write, self._restart = write, restart
        self._reset()

    def _reset(self) -> None:
        self._size, self._etag, self._checksum = 0, "", ""
        self._digest = hashlib.sha256()

    def resume(self, get: Callable[..., Any]) -> None:
        """Request the missing bytes: all, or from the break on if the object has not changed.

        Args:
            get: the client's `get_object`, bound to the object.
        Raises:
            DamagedObject: the content does not match its checksum; nothing of it is kept.
        """
        headers = {"Range": f"bytes={self._size}-", "If-Match": f'"{self._etag}"'} if self._size else {}
        try:
            response = get(request_headers=headers)
        except Exception as error:
            if self._size and http_status(error) in (412, 416):
                self._start_over()
                raise DamagedObject("it was replaced while it was read") from error
            raise
        try:
            if self._size and response.status != 206:
                self._start_over()
            self._etag = response.headers.get("ETag", "").strip('"')
            if not self._size:
                self._checksum = response.headers.get(f"x-amz-meta-{CHECKSUM}", "")
                self._digest = hashlib.sha256() if self._checksum else hashlib.md5(usedforsecurity=False)
            while chunk := response.read(_READ_BYTES, decode_content=False):  # as stored: the digest is of that
                self._write(chunk)
                self._size += len(chunk)
                self._digest.update(chunk)
        finally:
            response.close()
            response.release_conn()
        if problem := self._mismatch(response.headers):
            self._start_over()
            raise DamagedObject(problem)

    def _start_over(self) -> None:
        self._restart()
        self._reset()

    def _mismatch(self, headers: Any) -> str:
        digest = self._digest.hexdigest()
        if self._checksum:
            return "" if digest == self._checksum else "its sha256 is not that of what was written"
        # The ETag of a multipart or encrypted object is not its MD5.
        names = {name.lower(): value for name, value in headers.items()}
        encrypted = "x-amz-server-side-encryption-customer-algorithm" in names
        encrypted = encrypted or names.get("x-amz-server-side-encryption", "AES256") != "AES256"
        if len(self._etag) != 32 or encrypted or self._etag == digest:
            return ""
        return "its MD5 is not that of what was written"
