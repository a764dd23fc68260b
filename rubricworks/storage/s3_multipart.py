"""Large objects in parts: each part is repeated on its own, and an upload that fails leaves none behind."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rubricworks.storage.s3_errors import code_of

PART_BYTES = 16 << 20
LARGE_BYTES = 2 * PART_BYTES
"""From here on an object goes up in parts."""
_MOST_PARTS = 9_000
"""S3 allows 10,000; a part grows when there would be more."""
_AT_ONCE = 3


def upload_in_parts(
    client: Any,
    bucket: str,
    key: str,
    path: Path,
    *,
    headers: Mapping[str, Any],
    part_headers: Mapping[str, str],
    ask: Callable[[Callable[[], Any]], Any],
    is_there: Callable[[], bool],
) -> None:
    """Upload a file.

    Args:
        client: a `minio.Minio`.
        headers: of the object: type, checksum, encryption.
        part_headers: of every part: a key of one's own.
        ask: makes a request, again and again where that helps.
        is_there: whether the object is complete, asked when the server no longer knows the upload.
    Raises:
        OSError: the file cannot be read, or changed meanwhile.
    """
    from minio.datatypes import Part

    size = path.stat().st_size
    part_bytes = max(PART_BYTES, -(-size // _MOST_PARTS))
    count = -(-size // part_bytes)
    upload_id = ask(partial(client._create_multipart_upload, bucket, key, dict(headers)))

    def send(number: int) -> Any:
        with path.open("rb") as file:
            file.seek((number - 1) * part_bytes)
            content = file.read(part_bytes)
        if len(content) != min(part_bytes, size - (number - 1) * part_bytes):
            raise OSError(f"{path} changed while it was uploaded")
        etag = ask(lambda: client._upload_part(bucket, key, content, dict(part_headers) or None, upload_id, number))
        return Part(number, etag)

    try:
        with ThreadPoolExecutor(min(_AT_ONCE, count)) as pool:
            parts = list(pool.map(send, range(1, count + 1)))
        if path.stat().st_size != size:
            raise OSError(f"{path} changed while it was uploaded")
        _complete(client, bucket, key, upload_id, parts, part_headers, ask, is_there)
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
    ask: Callable[[Callable[[], Any]], Any],
    is_there: Callable[[], bool],
) -> None:
    def complete() -> None:
        try:
            client._complete_multipart_upload(bucket, key, upload_id, parts)
        except Exception as error:
            # The answer to an earlier try was lost: the upload is gone because it is an object now.
            if code_of(error) != "NoSuchUpload" or not is_there():
                raise

    ask(complete)


def abort_unfinished(client: Any, bucket: str, prefix: str) -> int:
    """Drop uploads below a prefix that nobody completes any more; servers that cannot list them have none to drop."""
    from minio.error import MinioException

    try:
        found = client._list_multipart_uploads(bucket, prefix=prefix).uploads
    except (MinioException, ValueError):
        return 0
    for upload in found:
        with suppress(MinioException):
            client._abort_multipart_upload(bucket, upload.object_name, upload.upload_id)
    return len(found)
