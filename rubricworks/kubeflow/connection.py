"""Connection to Kubeflow Pipelines: address, authentication and requests.

Supports profiles, bearer tokens (from the environment or a renewed file), session cookies and private certificate
authorities. `backend` checks the installation first; `kfp.Client` would retry five times, with less readable errors.
"""

import contextlib
import io
import json
import logging
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rubricworks.environment import fill, variable
from rubricworks.errors import UserError
from rubricworks.kubeflow.backend import KubeflowAway, is_away, one_line, read_backend
from rubricworks.proxies import proxy_of
from rubricworks.recipe.kubeflow import KubeflowConfig
from rubricworks.redaction import foreign_line

if TYPE_CHECKING:
    from kfp import Client

_TIMEOUT = (10, 120)
"""Timeouts in seconds to connect and to read; kfp's own client has none."""
_TOKEN_VARIABLE = "RUBRICWORKS_KUBEFLOW_TOKEN"
_POD_TOKEN = Path("/var/run/secrets/kubeflow/pipelines/token")
"""Default path of a pod's token, mounted by a PodDefault or the manifest; KF_PIPELINES_SA_TOKEN_PATH overrides it."""


@dataclass(frozen=True)
class Kubeflow:
    """A Kubeflow Pipelines installation and the client for it."""

    client: "Client"
    url: str
    pages: str
    """URL of its web pages."""
    namespace: str | None
    """Profile; None in a single-user installation."""
    version: str
    """Version of the backend, see `Backend.version`."""

    def run_page(self, run_id: str) -> str:
        return f"{self.pages}/#/runs/details/{run_id}"

    @contextlib.contextmanager
    def request(self, action: str) -> Iterator["Client"]:
        """Lend the client for one request and name the action in its errors.

        Raises:
            KubeflowAway: it does not answer, fails, or refuses access.
            UserError: it refuses the request.
        """
        import urllib3
        from kfp_server_api import ApiException

        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield self.client
        except ApiException as error:
            kind = KubeflowAway if is_away(error.status or 0) else UserError
            raise kind(f"Kubeflow at {self.url} cannot {action}: {_reason(error)}") from error
        except urllib3.exceptions.HTTPError as error:
            raise KubeflowAway(
                f"Kubeflow at {self.url} cannot {action}: it does not answer ({one_line(error)}); try again"
            ) from error

    @contextlib.contextmanager
    def reading(self, action: str) -> Iterator["Client"]:
        """Lend the client for one read as `request` does, and tell an answer that is no Kubeflow's in the same way."""
        try:
            with self.request(action) as client:
                yield client
        except UserError:
            raise
        except (ValueError, TypeError, AttributeError, RecursionError) as error:  # kfp takes answers unchecked
            raise KubeflowAway(
                f"Kubeflow at {self.url} cannot {action}: its answer is none of Kubeflow's; look at what answers there"
            ) from error


def connect(config: KubeflowConfig, namespace: str | None = None) -> Kubeflow:
    """Connect to the installation of a configuration.

    Args:
        namespace: default profile, if the configuration names none.
    Raises:
        KubeflowAway: the installation does not answer, or refuses access.
        UserError: it has an unsupported version, or the configuration has a mistake.
    """
    url = fill(config.url, "cluster.kubeflow.url, where Kubeflow Pipelines answers").rstrip("/")
    if urlsplit(url).scheme not in ("http", "https"):
        raise UserError(f"cluster.kubeflow.url: {url!r} has no http:// or https://; write it whole")
    token, token_file = _token(config)
    cookie = variable(config.cookie_env, "cluster.kubeflow.cookie_env") if config.cookie_env else ""
    headers = {"Cookie": cookie} if cookie else {}
    if token or token_file:
        headers["Authorization"] = f"Bearer {token or _read(token_file)}"
    backend = read_backend(url, headers, config.ca_file)
    profile = config.namespace or namespace or os.environ.get("RUBRICWORKS_KUBEFLOW_NAMESPACE") or None
    if profile is None and backend.multi_user:
        raise UserError(
            f"Kubeflow at {url} has a namespace for every user; name yours in cluster.namespace or "
            "RUBRICWORKS_KUBEFLOW_NAMESPACE"
        )
    client = _client(url, config, profile, token, token_file, cookie)
    return Kubeflow(client, url, fill(config.ui or url, "cluster.kubeflow.ui").rstrip("/"), profile, backend.version)


def _client(
    url: str, config: KubeflowConfig, profile: str | None, token: str, token_file: Path | None, cookie: str
) -> "Client":
    import kfp
    from kfp.client import ServiceAccountTokenVolumeCredentials

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = kfp.Client(
            host=url,
            namespace=profile or "kubeflow",  # kfp's value for no profile
            existing_token=token or None,
            # Read for each request: a pod's token is renewed while a run is followed.
            credentials=ServiceAccountTokenVolumeCredentials(str(token_file)) if token_file else None,
            cookies=cookie,
            ssl_ca_cert=config.ca_file,
            proxy=str(proxy_of(url) or "") or None,
            ui_host=config.ui,
        )
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # its line per retry does not help a user
    rest = client._run_api.api_client.rest_client
    rest.request = partial(_with_timeout, rest.request)
    return client


def _with_timeout(request: Any, *args: Any, _request_timeout: Any = None, **kwargs: Any) -> Any:
    return request(*args, _request_timeout=_request_timeout or _TIMEOUT, **kwargs)


def _token(config: KubeflowConfig) -> tuple[str, Path | None]:
    """Token, or the file that holds a renewed one; both empty if no authentication is set."""
    if config.token_env:
        return variable(config.token_env, "cluster.kubeflow.token_env"), None
    if config.token_file:
        path = Path(fill(config.token_file, "cluster.kubeflow.token_file"))
        _read(path)
        return "", path
    if token := os.environ.get(_TOKEN_VARIABLE, "").strip():
        return token, None
    pod_token = Path(os.environ.get("KF_PIPELINES_SA_TOKEN_PATH") or _POD_TOKEN)
    return "", pod_token if pod_token.is_file() else None


def _read(path: Path | None) -> str:
    assert path is not None
    try:
        text = path.read_text().strip()
    except OSError as error:
        raise UserError(
            f"cluster.kubeflow.token_file: {path}: {error.strerror}; name the file that holds it"
        ) from error
    if not text:
        raise UserError(f"cluster.kubeflow.token_file: {path} is empty; log in again")
    return text


def _reason(error: Any) -> str:
    """Message of the server's error on one line, with advice if access is refused."""
    try:
        body = json.loads(error.body or "")
        message = (
            str(body.get("message") or body.get("error") or body.get("title") or "") if isinstance(body, dict) else ""
        )
    except (ValueError, RecursionError):
        message = ""
    message = foreign_line(message or error.reason or "").rstrip(".")
    if error.status in (401, 403):
        return f"{message or 'refused'} (HTTP {error.status}); renew the token, or ask for the right in this namespace"
    return f"{message} (HTTP {error.status})" if error.status else message
