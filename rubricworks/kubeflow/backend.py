"""Version and mode of a Kubeflow Pipelines backend, read before anything is sent to it.

Older backends ignore fields of kfp-kubernetes, which writes a pipeline's placement. The Kubeflow UI reports the
backend's version. The bare API server reports none; a health field that exists since 2.14 tells that it is at least
that version, which is accepted.
"""

import json
import re
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from rubricworks.errors import TransientError, UserError
from rubricworks.redaction import foreign_line

OLDEST, TOO_NEW = (2, 16), (3, 0)
"""Range of supported backend versions, the upper bound excluded."""
SUPPORTED = f"{OLDEST[0]}.{OLDEST[1]} or later, before {TOO_NEW[0]}"

_HEALTH = "/apis/v2beta1/healthz"
_CHECK_SECONDS = 10


class KubeflowAway(TransientError):
    """Kubeflow does not answer, fails, or refuses this client, whatever is asked of it."""


def is_away(status: int) -> bool:
    """Return True for an HTTP status that tells of the installation, and nothing of the request."""
    return not 400 <= status < 500 or status in (401, 403, 408, 429)


@dataclass(frozen=True)
class Backend:
    """A supported backend."""

    version: str
    """Reported version, or `2.14 or later`."""
    multi_user: bool
    """True if every user has a namespace, the profile, that runs belong to."""


def read_backend(url: str, headers: dict[str, str], ca_file: str | None) -> Backend:
    """Read version and mode of the backend at an address.

    Args:
        headers: authentication headers.
        ca_file: certificates that verify the server's; None for the system's.
    Raises:
        KubeflowAway: the backend does not answer, or refuses access.
        UserError: it has an unsupported version, or is none.
    """
    health = _health(url, headers, ca_file)
    return Backend(_supported_version(url, health), bool(_field(health, "multi_user", "apiServerMultiUser")))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirect: it leads to a login page, which must not receive the token."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _health(url: str, headers: dict[str, str], ca_file: str | None) -> dict[str, object]:
    """Health report of the installation."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise UserError(
            f"cluster.kubeflow.ca_file: {ca_file}: not readable certificates ({one_line(error)})"
        ) from error
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(urllib.request.Request(url + _HEALTH, headers=headers), timeout=_CHECK_SECONDS) as answer:
            return _object(url, answer.read(100_000))
    except urllib.error.HTTPError as error:
        kind = KubeflowAway if is_away(error.code) else UserError
        raise kind(_refusal(url, error.code, bool(headers))) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            hint = "name the authority's certificates in cluster.kubeflow.ca_file"
        else:
            hint = (
                "check cluster.kubeflow.url, or forward it: kubectl -n kubeflow port-forward svc/ml-pipeline-ui 8080:80"
            )
        raise KubeflowAway(f"no Kubeflow Pipelines at {url} ({one_line(reason)}); {hint}") from None


def _object(url: str, body: bytes) -> dict[str, object]:
    try:
        health = json.loads(body)
    except (ValueError, RecursionError):
        raise KubeflowAway(_refusal(url, 302, False)) from None
    if not isinstance(health, dict):
        raise UserError(f"{url} is not Kubeflow Pipelines; check cluster.kubeflow.url")
    return health


def _refusal(url: str, status: int, has_credentials: bool) -> str:
    if 300 <= status < 400:
        return (
            f"Kubeflow at {url} answers with a page to log in; name a token in cluster.kubeflow.token_env or "
            "token_file, or the session's cookie in cookie_env"
        )
    if status in (401, 403):
        no_token = "asks for a token; name it in cluster.kubeflow.token_env"
        reason = "does not accept the token; renew it" if has_credentials else no_token
        return f"Kubeflow at {url} {reason} (HTTP {status})"
    if status == 404:
        return f"{url} has no v2 API of Kubeflow Pipelines ({SUPPORTED}); check cluster.kubeflow.url"
    return f"Kubeflow at {url} answers HTTP {status}; look at its ml-pipeline pods and try again"


def _supported_version(url: str, health: dict[str, object]) -> str:
    tag = str(_field(health, "apiServerTagName", "tag_name") or "")
    if match := re.match(r"v?(\d+)\.(\d+)", tag):
        number = int(match[1]), int(match[2])
        if not OLDEST <= number < TOO_NEW:
            raise UserError(f"Kubeflow Pipelines at {url} is {tag}; these pipelines need {SUPPORTED}")
        return tag.removeprefix("v")
    if not _field(health, "pipeline_store", "pipelineStore"):
        raise UserError(f"Kubeflow Pipelines at {url} is older than 2.14; these pipelines need {SUPPORTED}")
    return "2.14 or later"


def _field(health: dict[str, object], *names: str) -> Any:
    """Value of a health field under either name, the API server's or the UI's."""
    return next((health[name] for name in names if health.get(name) not in (None, "")), None)


def one_line(error: object) -> str:
    """Text of an error on one line."""
    return foreign_line(error, 200) or type(error).__name__
