"""Factory of the `minio` client, which is imported when a store is first used.

Credentials for the S3 store: from the environment, a web identity token (IRSA), a file, or the container's agent.

    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN        or MINIO_ACCESS_KEY, MINIO_SECRET_KEY
    AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN                          exchanged at AWS_ENDPOINT_URL_STS or Amazon's
    AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE                           or ~/.aws/credentials
    AWS_CONTAINER_CREDENTIALS_FULL_URI, …_RELATIVE_URI                 EKS Pod Identity and ECS

The first that is set is used. Files and tokens are read again when they are needed, so rotated ones take effect.
"""

import configparser
import os
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rubricworks.errors import UserError
from rubricworks.proxies import proxy_of
from rubricworks.storage.s3_settings import S3Settings

if TYPE_CHECKING:
    from minio.credentials import Provider
    from urllib3 import PoolManager

_CONNECT_S, _READ_S = 10.0, 60.0
_CONNECTIONS = 16
_STS = "https://sts.amazonaws.com"


def create_client(settings: S3Settings) -> Any:
    """Create a `minio.Minio` without retries of its own, because `Bucket` retries.

    Raises:
        UserError: the client is not installed, there are no credentials, or the endpoint or the region cannot be.
    """
    try:
        from minio import Minio
    except ImportError:
        raise UserError("s3:// needs the minio client; pip install 'rubricworks[store]'") from None
    parts = urlsplit(settings.endpoint)
    try:
        client = Minio(
            parts.netloc,
            secure=parts.scheme == "https",
            region=settings.region,
            http_client=_pool(settings, settings.endpoint),
            credentials=None if settings.is_anonymous else provider_from_environment(settings),
        )
    except ValueError as error:
        raise UserError(
            f"{settings.endpoint}: not the address of an S3 server, or AWS_REGION is wrong ({error}); write "
            "https://s3.REGION.amazonaws.com without the bucket, or leave the address out"
        ) from None
    if settings.has_virtual_hosts:
        client.enable_virtual_style_endpoint()
    return client


def _pool(settings: S3Settings, url: str | None) -> "PoolManager":
    """Connections to a URL, through the proxy that the environment names for it; None is this machine's own agent."""
    import urllib3

    options: dict[str, Any] = {
        "timeout": urllib3.Timeout(connect=_CONNECT_S, read=_READ_S),
        "maxsize": _CONNECTIONS,
        "retries": False,
        "ca_certs": settings.ca_file or _default_certificates(),
    }
    proxy = proxy_of(url) if url else None
    if proxy is None:
        return urllib3.PoolManager(**options)
    secret = f"{proxy.user}:{proxy.password or ''}" if proxy.user else None
    headers = urllib3.make_headers(proxy_basic_auth=secret)
    return urllib3.ProxyManager(str(proxy.with_user(None)), proxy_headers=headers, **options)


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


_HINT = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SHARED_CREDENTIALS_FILE, "
    "or AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN; or RUBRICWORKS_S3_ANONYMOUS=true for a public bucket"
)


def provider_from_environment(settings: S3Settings) -> "Provider":
    """Return the credentials provider for the environment.

    Raises:
        UserError: there are no credentials, or only half of a pair.
    """
    from minio import credentials

    names = {name for name, value in os.environ.items() if value}
    for access, secret, provider in (
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", credentials.EnvAWSProvider),
        ("MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", credentials.EnvMinioProvider),
    ):
        if {access, secret} & names:
            if not {access, secret} <= names:
                raise UserError(f"of {access} and {secret} only one is set; set both")
            return provider()
    if {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"} <= names:
        sts = os.environ.get("AWS_ENDPOINT_URL_STS")
        role = credentials.IamAwsProvider(custom_endpoint=sts, http_client=_pool(settings, sts or _STS))
        return _with_user_errors(
            role, "AWS_WEB_IDENTITY_TOKEN_FILE could not be exchanged for credentials of AWS_ROLE_ARN"
        )
    file = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials")
    if file.is_file() or "AWS_SHARED_CREDENTIALS_FILE" in names:
        profile = os.environ.get("AWS_PROFILE") or "default"
        problem = f"{file} holds no access key and secret of the profile {profile!r}"
        return _with_user_errors(credentials.AWSConfigProvider(str(file)), problem)
    if {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} & names:
        agent = credentials.IamAwsProvider(http_client=_pool(settings, None))
        return _with_user_errors(agent, "the container's agent gave no credentials")
    raise UserError(f"no credentials for the S3 store; {_HINT}")


def _with_user_errors(inner: "Provider", problem: str) -> "Provider":
    """Wrap a provider: one thread at a time, and UserErrors in place of its own, which may quote a token."""
    from minio.credentials import Provider

    class WithUserErrors(Provider):
        lock = threading.Lock()

        def retrieve(self):
            with self.lock:
                try:
                    return inner.retrieve()
                except (ValueError, KeyError, OSError, AttributeError, configparser.Error) as error:
                    status = str(error).rpartition("status code ")[2]
                    detail = f" (HTTP {status})" if status.isdigit() else f" ({type(error).__name__})"
            # Raised outside the handler, so that the original error is not chained to it.
            raise UserError(f"{problem}{detail}; {_HINT}")

    return WithUserErrors()
