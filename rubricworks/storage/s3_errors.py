"""Errors of S3 requests: which to retry, and the message for the user otherwise."""

import re
from typing import Any

from rubricworks.errors import TransientError, UserError

_RETRYABLE_CODES = {
    *("InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout", "OperationAborted"),
    *("ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"),
    "ConditionalRequestConflict",
    # The request was damaged on the way.
    *("XAmzContentSHA256Mismatch", "BadDigest", "IncompleteBody"),
}
"""Codes after which the same request may succeed."""
_FULL_CODES = {
    *("QuotaExceeded", "InsufficientCapacity", "InsufficientStorage", "StorageFull"),
    *("XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "ServiceQuotaExceededException"),
}
_EXPIRED_CODES = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}
_INVALID_CODES = {
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidClientTokenId"),
    *("InvalidSecurity", "UnrecognizedClientException", "NotSignedUp"),
}


class StoreFull(TransientError):
    """The store is full; nothing can be written until somebody makes room."""


class DamagedObject(Exception):
    """The content that arrived is not the content that was written."""


def error_code(error: BaseException) -> str:
    """Return the S3 error code; empty if there is none."""
    if code := getattr(error, "code", None):
        return str(code)
    # The client reads only application/xml; some servers send text/xml.
    match = re.search(r"<Code>(\w+)</Code>", str(getattr(error, "_body", None) or ""))
    return match[1] if match else ""


def http_status(error: BaseException) -> int:
    """Return the HTTP status of the response; 0 if there was none."""
    response: Any = getattr(error, "response", None)
    status = getattr(response, "status", None) or getattr(error, "status_code", None) or getattr(error, "_code", None)
    return status if isinstance(status, int) else 0


def is_retryable(error: BaseException) -> bool:
    """Return True if a retry may help: the server is overloaded or restarting, or the connection broke."""
    from minio.error import MinioException
    from urllib3.exceptions import HTTPError, LocationValueError, SSLError

    if isinstance(error, DamagedObject):
        return True
    if isinstance(error, MinioException):
        status = http_status(error)
        full = error_code(error) in _FULL_CODES or status == 507
        return not full and (error_code(error) in _RETRYABLE_CODES or status >= 500 or status in (408, 429))
    if isinstance(error, HTTPError):
        cause = getattr(error, "reason", None) or error
        return not isinstance(cause, SSLError | LocationValueError) and "certificate" not in str(error).lower()
    return isinstance(error, ConnectionError | TimeoutError)


def is_missing(error: BaseException) -> bool:
    """Return True if the error says that there is no such object."""
    return error_code(error) in ("NoSuchKey", "NoSuchVersion", "ResourceNotFound")


def to_user_error(error: BaseException, place: str, action: str, settings: Any) -> UserError:
    """Return the one-line error for the user; it quotes nothing of the request.

    Args:
        place: the s3:// URI of the request.
        action: `read`, `written`, `listed` or `deleted`.
        settings: the `S3Settings` in force.
    """
    code, status = error_code(error), http_status(error)
    bucket = place.removeprefix("s3://").partition("/")[0]
    if code == "NoSuchBucket":
        return UserError(f"{place}: there is no bucket {bucket!r} at {settings.endpoint}; make it, or correct its name")
    if code in _FULL_CODES or status == 507:
        return StoreFull(
            f"{place} cannot be written: the store is full ({code or status}); make room or raise its quota, and run "
            "again: what was committed is kept"
        )
    if code in _EXPIRED_CODES:
        return TransientError(f"{place}: the S3 credentials have expired ({code}); renew them and run again")
    if code in _INVALID_CODES:
        return UserError(f"{place}: the S3 credentials are not valid at {settings.endpoint} ({code}); correct them")
    if code == "RequestTimeTooSkewed":
        return TransientError(
            f"{place}: the clocks here and at {settings.endpoint} differ too much; set this machine's"
        )
    if code in ("AuthorizationHeaderMalformed", "PermanentRedirect"):
        return UserError(f"{place}: the bucket is in another region than {settings.region}; set AWS_REGION to its own")
    if status == 403 or code == "AccessDenied":
        return UserError(
            f"{place} may not be {action} with these S3 credentials ({code or status}); grant it, or change them"
        )
    if isinstance(error, DamagedObject):
        return UserError(f"{place} is damaged: {error}; delete it and run the stage that made it again")
    if is_missing(error):
        return UserError(f"{place}: there is no such object")
    if code or status:
        key_hint = " (encrypted with a key of one's own? then set RUBRICWORKS_S3_SSE=c and its key)"
        hint = key_hint if status == 400 else ""
        kind = TransientError if (status or 0) >= 500 else UserError
        return kind(
            f"{place} cannot be {action}: {settings.endpoint} answers {code or 'HTTP'} ({status}){hint}; mend it and "
            "run again: what was committed is kept"
        )
    if "certificate" in str(error).lower() or "SSL" in str(error):
        return UserError(
            f"{place}: the certificate of {settings.endpoint} is not trusted; "
            "name the file of its CA in RUBRICWORKS_S3_CA_FILE"
        )
    reason = type(getattr(error, "reason", None) or error).__name__
    return TransientError(
        f"{place} cannot be {action}: {settings.endpoint} did not answer for {settings.patience_s:.0f} s ({reason}); "
        "check the address and the network, and run again: what was committed is kept"
    )
