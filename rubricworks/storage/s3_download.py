"""Download of one object: resume after a broken connection, and verification of the content."""

import hashlib
from collections.abc import Callable
from typing import Any

from rubricworks.storage.s3_errors import DamagedObject, http_status

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
            while chunk := response.read(_READ_BYTES):
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
