"""Version and mode of a Kubeflow Pipelines installation, read before anything is sent to it.

A pipeline's placement is written by kfp-kubernetes, whose words an older backend does not know. Where the pages of
Kubeflow answer, they tell the backend's version; the API server alone tells no more than that it is 2.14 or later, by
a field that came then, which is taken.
"""

import json
import re
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from rubricworks.errors import UserError

OLDEST, TOO_NEW = (2, 16), (3, 0)
"""The backends that are supported: from the first to before the second."""
SUPPORTED = f"{OLDEST[0]}.{OLDEST[1]} or later, before {TOO_NEW[0]}"

_HEALTH = "/apis/v2beta1/healthz"
_CHECK_SECONDS = 10


@dataclass(frozen=True)
class Backend:
    """A backend that is supported."""

    version: str
    """As far as it tells."""
    multi_user: bool
    """True if every user has a namespace, the profile, that runs belong to."""


def ask_backend(url: str, headers: dict[str, str], ca_file: str | None) -> Backend:
    """Read what answers at an address.

    Args:
        headers: what lets us in.
        ca_file: certificates that the server's is checked against; None for the system's.
    Raises:
        UserError: it is not there, does not let us in, or is of a version that is not supported.
    """
    health = _health(url, headers, ca_file)
    return Backend(_supported(url, health), bool(_of(health, "multi_user", "apiServerMultiUser")))


class _StayHere(urllib.request.HTTPRedirectHandler):
    """A redirection leads to a login page, where the token has no business."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _health(url: str, headers: dict[str, str], ca_file: str | None) -> dict[str, Any]:
    """Health report of the installation."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise UserError(f"cluster.kubeflow.ca_file: {ca_file}: not readable certificates ({words(error)})") from error
    opener = urllib.request.build_opener(_StayHere, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(urllib.request.Request(url + _HEALTH, headers=headers), timeout=_CHECK_SECONDS) as answer:
            return _object(url, answer.read(100_000))
    except urllib.error.HTTPError as error:
        raise UserError(_refusal(url, error.code, bool(headers))) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            hint = "name the authority's certificates in cluster.kubeflow.ca_file"
        else:
            hint = (
                "check cluster.kubeflow.url, or forward it: kubectl -n kubeflow port-forward svc/ml-pipeline-ui 8080:80"
            )
        raise UserError(f"no Kubeflow Pipelines at {url} ({words(reason)}); {hint}") from None


def _object(url: str, body: bytes) -> dict[str, Any]:
    try:
        health = json.loads(body)
    except ValueError:
        raise UserError(_refusal(url, 302, False)) from None
    if not isinstance(health, dict):
        raise UserError(f"{url} is not Kubeflow Pipelines; check cluster.kubeflow.url")
    return health


def _refusal(url: str, status: int, known: bool) -> str:
    if 300 <= status < 400:
        return (
            f"Kubeflow at {url} answers with a page to log in; name a token in cluster.kubeflow.token_env or "
            "token_file, or the session's cookie in cookie_env"
        )
    if status in (401, 403):
        asks = "asks for a token; name it in cluster.kubeflow.token_env"
        fault = "does not accept the token; renew it" if known else asks
        return f"Kubeflow at {url} {fault} (HTTP {status})"
    if status == 404:
        return f"{url} has no v2 API of Kubeflow Pipelines ({SUPPORTED}); check cluster.kubeflow.url"
    return f"Kubeflow at {url} answers HTTP {status}; look at its ml-pipeline pods and try again"


def _supported(url: str, health: dict[str, Any]) -> str:
    told = str(_of(health, "apiServerTagName", "tag_name") or "")
    if match := re.match(r"v?(\d+)\.(\d+)", told):
        number = int(match[1]), int(match[2])
        if not OLDEST <= number < TOO_NEW:
            raise UserError(f"Kubeflow Pipelines at {url} is {told}; these pipelines need {SUPPORTED}")
        return told.removeprefix("v")
    if not _of(health, "pipeline_store", "pipelineStore"):
        raise UserError(f"Kubeflow Pipelines at {url} is older than 2.14; these pipelines need {SUPPORTED}")
    return "2.14 or later"


def _of(health: dict[str, Any], *names: str) -> Any:
    """Value of a field under either name: the API server's, or that of the pages in front of it."""
    return next((health[name] for name in names if health.get(name) not in (None, "")), None)


def words(error: object) -> str:
    """Text of an error in one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
