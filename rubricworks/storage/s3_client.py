"""Factory of the `minio` client, which is imported when a store is first used."""

from functools import cache
from typing import Any
from urllib.parse import urlsplit

from rubricworks.errors import UserError
from rubricworks.storage.s3_credentials import provider_from_environment
from rubricworks.storage.s3_settings import S3Settings

_CONNECT_S, _READ_S = 10.0, 60.0
_CONNECTIONS = 16


def create_client(settings: S3Settings) -> Any:
    """Create a `minio.Minio` without retries of its own, because `Bucket` retries.

    Raises:
        UserError: the client is not installed, or there are no credentials.
    """
    try:
        import urllib3
        from minio import Minio
    except ImportError:
        raise UserError("s3:// needs the minio client; pip install 'rubricworks[store]'") from None
    http = urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=_CONNECT_S, read=_READ_S),
        maxsize=_CONNECTIONS,
        retries=False,
        ca_certs=settings.ca_file or _default_certificates(),
    )
    parts = urlsplit(settings.endpoint)
    return Minio(
        parts.netloc,
        secure=parts.scheme == "https",
        region=settings.region,
        http_client=http,
        credentials=provider_from_environment(http),
    )


@cache
def _default_certificates() -> str:
    import certifi

    return certifi.where()


def create_encryption(settings: S3Settings) -> Any:
    """Create the server-side encryption of the settings; None leaves it to the bucket's own rule."""
    if settings.sse is None:
        return None
    from minio.sse import SseCustomerKey, SseKMS, SseS3

    if settings.sse == "s3":
        return SseS3()
    if settings.sse == "c":
        assert settings.sse_key is not None
        return SseCustomerKey(settings.sse_key)
    return SseKMS(settings.sse.removeprefix("kms:"), {})
