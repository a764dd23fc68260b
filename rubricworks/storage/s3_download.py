"""One object on its way down: what has arrived, where to go on after a broken connection, and whether it is whole."""

import hashlib
from collections.abc import Callable
from typing import Any

from rubricworks.storage.s3_errors import Damaged, status_of

CHECKSUM = "rubricworks-sha256"
"""Name of the object's metadata that holds the sha256 of its content."""
_READ_BYTES = 1 << 20


class Download:
    """Hands on an object's bytes; `go_on` is called until it comes back without an error."""

    def __init__(self, take: Callable[[bytes], object], begin_anew: Callable[[], object]) -> None:
        """
        Args:
            take: is given the bytes, in order.
            begin_anew: forgets what was given.
        """
        self._take, self._begin_anew = take, begin_anew
        self._forget()

    def go_on(self, get: Callable[..., Any]) -> None:
        """Ask for what is missing: all, or from where the connection broke if it is the same object still.

        Args:
            get: the client's `get_object`, with the object's name.
        Raises:
            Damaged: it is not what was written; nothing of it is kept.
        """
        wanted = {"Range": f"bytes={self._size}-", "If-Match": f'"{self._etag}"'} if self._size else {}
        try:
            response = get(request_headers=wanted)
        except Exception as error:
            if self._size and status_of(error) in (412, 416):
                self._start_over()
                raise Damaged("it was replaced while it was read") from error
            raise
        try:
            if self._size and response.status != 206:
                self._start_over()
            self._etag = response.headers.get("ETag", "").strip('"')
            while chunk := response.read(_READ_BYTES):
                self._take(chunk)
                self._size += len(chunk)
                self._sha256.update(chunk)
                self._md5.update(chunk)
        finally:
            response.close()
            response.release_conn()
        if problem := self._difference(response.headers):
            self._start_over()
            raise Damaged(problem)

    def _start_over(self) -> None:
        self._begin_anew()
        self._forget()

    def _forget(self) -> None:
        self._size, self._etag = 0, ""
        self._sha256, self._md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)

    def _difference(self, headers: Any) -> str:
        if told := headers.get(f"x-amz-meta-{CHECKSUM}"):
            return "" if told == self._sha256.hexdigest() else "its sha256 is not that of what was written"
        # Of an object in parts, or under a key, the ETag is not the MD5.
        names = {name.lower(): value for name, value in headers.items()}
        under_key = "x-amz-server-side-encryption-customer-algorithm" in names
        under_key = under_key or names.get("x-amz-server-side-encryption", "AES256") != "AES256"
        if len(self._etag) != 32 or under_key or self._etag == self._md5.hexdigest():
            return ""
        return "its MD5 is not that of what was written"
