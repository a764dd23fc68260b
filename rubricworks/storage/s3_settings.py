"""Settings of the S3 store, from the environment alone and never from a recipe, so that no secret is written.

RUBRICWORKS_S3_ENDPOINT, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL   the server; Amazon's when none is set
AWS_REGION or AWS_DEFAULT_REGION                                   us-east-1 by default, on Amazon the bucket's own;
                                                                   an endpoint of an Amazon region is that region's
RUBRICWORKS_S3_CA_FILE, AWS_CA_BUNDLE or SSL_CERT_FILE             certificates to trust
RUBRICWORKS_S3_SSE             server-side encryption: `s3`, `kms:KEY-ID`, or `c` with a key of one's own in
RUBRICWORKS_S3_SSE_KEY_FILE or RUBRICWORKS_S3_SSE_KEY              (32 bytes, as base64)
RUBRICWORKS_S3_ADDRESSING      `virtual`: the bucket is in the host's name, as https://bucket.host; Amazon's always is
RUBRICWORKS_S3_ANONYMOUS       `true`: public buckets are read without credentials
HTTP_PROXY, HTTPS_PROXY, NO_PROXY                                  the proxy on the way, as for every other request
RUBRICWORKS_S3_PATIENCE        seconds for which requests to a failing server are retried
"""

import base64
import binascii
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from rubricworks.errors import UserError

ENDPOINT_NAMES = ("RUBRICWORKS_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_CA_NAMES = ("RUBRICWORKS_S3_CA_FILE", "AWS_CA_BUNDLE", "SSL_CERT_FILE")
_AMAZON = "https://s3.amazonaws.com"
_AMAZON_HOST = re.compile(r"(.+\.)?amazonaws\.com(\.cn)?")
_AMAZON_REGION = re.compile(r"\bs3(?:-fips)?(?:\.dualstack)?[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.")
_PATIENCE_S = 180.0


@dataclass(frozen=True)
class S3Settings:
    """Address, region, certificates and encryption of one store."""

    endpoint: str = _AMAZON
    """http:// or https:// and a host; no path."""
    region: str | None = None
    """None lets the client ask the server, which only Amazon needs."""
    has_virtual_hosts: bool = False
    """The bucket is in the host's name."""
    is_anonymous: bool = False
    ca_file: str | None = None
    sse: str | None = None
    """`s3`, `kms:KEY-ID` or `c`."""
    sse_key: bytes | None = field(default=None, repr=False)
    """Key of 32 bytes for `c`, without which the objects cannot be read."""
    patience_s: float = _PATIENCE_S
    """Seconds for which requests are retried while the server answers 5xx or not at all."""


def settings_from_environment(environment: Mapping[str, str] | None = None) -> S3Settings:
    """Read the settings from the environment.

    Raises:
        UserError: a variable is invalid; the message names the variable, never a key.
    """
    values = {name: value for name, value in (environment or os.environ).items() if value}
    name = next((name for name in ENDPOINT_NAMES if name in values), "")
    endpoint = values[name].rstrip("/") if name else _AMAZON
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query or "@" in parts.netloc:
        raise UserError(f"{name}: not the address of an S3 server; write https://host or http://host:port")
    region = values.get("AWS_REGION") or values.get("AWS_DEFAULT_REGION")
    is_amazon = bool(_AMAZON_HOST.fullmatch(parts.hostname))
    if is_amazon and (named := _AMAZON_REGION.search(parts.hostname)):
        region = named[1]
        endpoint = endpoint.replace(f"s3-{region}.", f"s3.{region}.")  # a form of before 2019
    ca = next((values[name] for name in _CA_NAMES if name in values), None)
    if ca and not Path(ca).is_file():
        raise UserError(f"{ca}: no such file of certificates; correct {' or '.join(_CA_NAMES[:2])}")
    sse, key = _encryption(values)
    return S3Settings(
        endpoint=endpoint,
        region=region or (None if is_amazon else "us-east-1"),
        has_virtual_hosts=_choice(values, "RUBRICWORKS_S3_ADDRESSING", "path", "virtual"),
        is_anonymous=_choice(values, "RUBRICWORKS_S3_ANONYMOUS", "false", "true"),
        ca_file=ca,
        sse=sse,
        sse_key=key,
        patience_s=_seconds(values),
    )


def _encryption(values: Mapping[str, str]) -> tuple[str | None, bytes | None]:
    sse = values.get("RUBRICWORKS_S3_SSE")
    if sse is None or sse == "s3" or (sse.startswith("kms:") and sse != "kms:"):
        return sse, None
    if sse != "c":
        raise UserError(f"RUBRICWORKS_S3_SSE is {sse!r}; write s3, kms:KEY-ID or c")
    name = "RUBRICWORKS_S3_SSE_KEY_FILE" if "RUBRICWORKS_S3_SSE_KEY_FILE" in values else "RUBRICWORKS_S3_SSE_KEY"
    text = values.get(name, "")
    try:
        if name.endswith("_FILE"):
            text = Path(text).read_text().strip()
        key = base64.b64decode(text, validate=True)
    except (OSError, UnicodeDecodeError, binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise UserError(f"{name}: encryption with a key of one's own needs 32 bytes as base64; set it or its file")
    return sse, key


def _choice(values: Mapping[str, str], name: str, default: str, other: str) -> bool:
    """Return True if a variable has its other value."""
    value = values.get(name, default).strip().lower()
    if value not in (default, other):
        raise UserError(f"{name} is {values[name]!r}; write {default} or {other}")
    return value == other


def _seconds(values: Mapping[str, str]) -> float:
    text = values.get("RUBRICWORKS_S3_PATIENCE", str(_PATIENCE_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UserError(f"RUBRICWORKS_S3_PATIENCE is {text!r}; write how many seconds a failing server is asked again")
    return seconds
