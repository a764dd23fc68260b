"""What an S3 server or the way to it complains of: which of it passes, and what to say of the rest."""

import re
from typing import Any

from rubricworks.errors import UserError

_PASSING = {
    *("InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout", "OperationAborted"),
    *("ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"),
    "ConditionalRequestConflict",
    # The line had damaged what was sent.
    *("XAmzContentSHA256Mismatch", "BadDigest", "IncompleteBody"),
}
"""Codes after which the same request may well succeed."""
_FULL = {
    *("QuotaExceeded", "InsufficientCapacity", "InsufficientStorage", "StorageFull"),
    *("XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "ServiceQuotaExceededException"),
}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}
_WRONG = {
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidClientTokenId"),
    *("InvalidSecurity", "UnrecognizedClientException", "NotSignedUp"),
}


class StoreFull(UserError):
    """Nothing more can be written until somebody makes room."""


class Damaged(Exception):
    """What arrived is not what was written."""


def code_of(error: BaseException) -> str:
    """The S3 error code, or empty."""
    if code := getattr(error, "code", None):
        return str(code)
    # The client reads only application/xml; some servers send text/xml.
    found = re.search(r"<Code>(\w+)</Code>", str(getattr(error, "_body", None) or ""))
    return found[1] if found else ""


def status_of(error: BaseException) -> int:
    """The HTTP status of what the server answered, or 0 if it did not."""
    response: Any = getattr(error, "response", None)
    status = getattr(response, "status", None) or getattr(error, "status_code", None) or getattr(error, "_code", None)
    return status if isinstance(status, int) else 0


def passes(error: BaseException) -> bool:
    """Whether to ask again: the server is overloaded or restarts, or the connection broke."""
    from minio.error import MinioException
    from urllib3.exceptions import HTTPError, LocationValueError, SSLError

    if isinstance(error, Damaged):
        return True
    if isinstance(error, MinioException):
        status = status_of(error)
        full = code_of(error) in _FULL or status == 507
        return not full and (code_of(error) in _PASSING or status >= 500 or status in (408, 429))
    if isinstance(error, HTTPError):
        cause = getattr(error, "reason", None) or error
        return not isinstance(cause, SSLError | LocationValueError) and "certificate" not in str(error).lower()
    return isinstance(error, ConnectionError | TimeoutError)


def gone(error: BaseException) -> bool:
    """Whether there is no such object."""
    return code_of(error) in ("NoSuchKey", "NoSuchVersion", "ResourceNotFound")


def user_error(error: BaseException, place: str, doing: str, settings: Any) -> UserError:
    """One line for whoever runs this; it repeats nothing that was sent.

    Args:
        place: the s3:// URI that was worked on.
        doing: `read`, `written`, `listed` or `deleted`.
        settings: the `S3Settings` in force.
    """
    code, status = code_of(error), status_of(error)
    bucket = place.removeprefix("s3://").partition("/")[0]
    if code == "NoSuchBucket":
        return UserError(f"{place}: there is no bucket {bucket!r} at {settings.endpoint}; make it, or correct its name")
    if code in _FULL or status == 507:
        return StoreFull(
            f"{place} cannot be written: the store is full ({code or status}); make room or raise its quota, and run "
            "again: what was committed is kept"
        )
    if code in _EXPIRED:
        return UserError(f"{place}: the S3 credentials have expired ({code}); renew them and run again")
    if code in _WRONG:
        return UserError(f"{place}: the S3 credentials are not valid at {settings.endpoint} ({code}); correct them")
    if code == "RequestTimeTooSkewed":
        return UserError(f"{place}: the clocks here and at {settings.endpoint} differ too much; set this machine's")
    if status == 403 or code == "AccessDenied":
        return UserError(
            f"{place} may not be {doing} with these S3 credentials ({code or status}); grant it, or change them"
        )
    if isinstance(error, Damaged):
        return UserError(f"{place} is damaged: {error}; delete it and run the stage that made it again")
    if gone(error):
        return UserError(f"{place}: there is no such object")
    if code or status:
        why = " (encrypted with a key of one's own? then set RUBRICWORKS_S3_SSE=c and its key)" if status == 400 else ""
        return UserError(
            f"{place} cannot be {doing}: {settings.endpoint} answers {code or 'HTTP'} ({status}){why}; mend it and run "
            "again: what was committed is kept"
        )
    if "certificate" in str(error).lower() or "SSL" in str(error):
        return UserError(
            f"{place}: the certificate of {settings.endpoint} is not trusted; "
            "name the file of its CA in RUBRICWORKS_S3_CA_FILE"
        )
    reason = type(getattr(error, "reason", None) or error).__name__
    return UserError(
        f"{place} cannot be {doing}: {settings.endpoint} did not answer for {settings.patience_s:.0f} s ({reason}); "
        "check the address and the network, and run again: what was committed is kept"
    )
