"""Who we are to the S3 store: from the environment, a web identity token (IRSA), a file, or the container's agent.

    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN        or MINIO_ACCESS_KEY, MINIO_SECRET_KEY
    AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN                          exchanged at AWS_ENDPOINT_URL_STS or Amazon's
    AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE                           or ~/.aws/credentials
    AWS_CONTAINER_CREDENTIALS_FULL_URI, …_RELATIVE_URI                 EKS Pod Identity and ECS

The first that is there counts. Files and tokens are read again when they are needed: rotated ones take effect.
"""

import configparser
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from rubricworks.errors import UserError

if TYPE_CHECKING:
    from minio.credentials import Provider
    from urllib3 import PoolManager

_HINT = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SHARED_CREDENTIALS_FILE, "
    "or AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN"
)


def provider_from_environment(http: "PoolManager") -> "Provider":
    """What signs requests.

    Raises:
        UserError: there is nothing to sign with, or only half of it.
    """
    from minio import credentials

    here = {name for name, value in os.environ.items() if value}
    for access, secret, provider in (
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", credentials.EnvAWSProvider),
        ("MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", credentials.EnvMinioProvider),
    ):
        if {access, secret} & here:
            if not {access, secret} <= here:
                raise UserError(f"of {access} and {secret} only one is set; set both")
            return provider()
    if {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"} <= here:
        role = credentials.IamAwsProvider(custom_endpoint=os.environ.get("AWS_ENDPOINT_URL_STS"), http_client=http)
        return _explained(role, "AWS_WEB_IDENTITY_TOKEN_FILE could not be exchanged for credentials of AWS_ROLE_ARN")
    file = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials")
    if file.is_file() or "AWS_SHARED_CREDENTIALS_FILE" in here:
        profile = os.environ.get("AWS_PROFILE") or "default"
        what = f"{file} holds no access key and secret of the profile {profile!r}"
        return _explained(credentials.AWSConfigProvider(str(file)), what)
    if {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} & here:
        agent = credentials.IamAwsProvider(http_client=http)
        return _explained(agent, "the container's agent gave no credentials")
    raise UserError(f"no credentials for the S3 store; {_HINT}")


def _explained(inner: "Provider", what: str) -> "Provider":
    """The same, asked by one thread at a time; its errors, which may quote a token, become ours."""
    from minio.credentials import Provider

    class Explained(Provider):
        lock = threading.Lock()

        def retrieve(self):
            with self.lock:
                try:
                    return inner.retrieve()
                except (ValueError, KeyError, OSError, AttributeError, configparser.Error) as error:
                    status = str(error).rpartition("status code ")[2]
                    told = f" (HTTP {status})" if status.isdigit() else f" ({type(error).__name__})"
            # Raised out here, so that what was caught does not travel with it.
            raise UserError(f"{what}{told}; {_HINT}")

    return Explained()
