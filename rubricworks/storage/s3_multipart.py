"""Multipart upload of large objects: each part is retried on its own, and a failed upload is aborted."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rubricworks.storage.s3_errors import error_code

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
