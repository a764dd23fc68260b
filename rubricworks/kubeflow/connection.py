"""The way to Kubeflow Pipelines: found, let in, and asked.

Profiles, bearer tokens (from the environment, or a file that is renewed), session cookies and private certificate
authorities are known. `backend` asks the installation first, which `kfp.Client` would do five times and less plainly.
"""

import contextlib
import io
import json
import logging
import os
import urllib.request
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rubricworks.environment import fill, variable
from rubricworks.errors import UserError
from rubricworks.kubeflow.backend import ask_backend, words
from rubricworks.recipe.kubeflow import KubeflowConfig

if TYPE_CHECKING:
    from kfp import Client

_TIMEOUT = (10, 120)
"""Seconds to connect and to answer; kfp's own client would wait for ever."""
_TOKEN_VARIABLE = "RUBRICWORKS_KUBEFLOW_TOKEN"
_POD_TOKEN = Path("/var/run/secrets/kubeflow/pipelines/token")
"""Where a pod finds one, if its PodDefault or its manifest asks for it (also KF_PIPELINES_SA_TOKEN_PATH)."""


@dataclass(frozen=True)
class Kubeflow:
    """An installation that answers."""

    client: "Client"
    url: str
    pages: str
    """Where people look at it."""
    namespace: str | None
    """The profile; None where the installation has a single user."""
    version: str
    """Of the backend, as far as it tells."""

    def run_page(self, run_id: str) -> str:
        return f"{self.pages}/#/runs/details/{run_id}"

    @contextlib.contextmanager
    def asked(self, what: str) -> Iterator["Client"]:
        """The client, for one request; what goes wrong becomes one line that says what was asked."""
        import urllib3
        from kfp_server_api import ApiException

        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield self.client
        except ApiException as error:
            raise UserError(f"Kubeflow at {self.url} cannot {what}: {_reason(error)}") from error
        except urllib3.exceptions.HTTPError as error:
            raise UserError(
                f"Kubeflow at {self.url} cannot {what}: it does not answer ({words(error)}); try again"
            ) from error


def connect(config: KubeflowConfig, namespace: str | None = None) -> Kubeflow:
    """Find the installation and be let in.

    Args:
        namespace: the profile, where the configuration names none.
    Raises:
        UserError: it is not there, does not let us in, or is of a version that is not supported.
    """
    url = fill(config.url, "cluster.kubeflow.url, where Kubeflow Pipelines answers").rstrip("/")
    if urlsplit(url).scheme not in ("http", "https"):
        raise UserError(f"cluster.kubeflow.url: {url!r} has no http:// or https://; write it whole")
    token, token_file = _token(config)
    cookie = variable(config.cookie_env, "cluster.kubeflow.cookie_env") if config.cookie_env else ""
    headers = {"Cookie": cookie} if cookie else {}
    if token or token_file:
        headers["Authorization"] = f"Bearer {token or _read(token_file)}"
    backend = ask_backend(url, headers, config.ca_file)
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
            namespace=profile or "kubeflow",  # which kfp takes for none
            existing_token=token or None,
            # Read anew for each request: a pod's token is renewed while a run is watched.
            credentials=ServiceAccountTokenVolumeCredentials(str(token_file)) if token_file else None,
            cookies=cookie,
            ssl_ca_cert=config.ca_file,
            proxy=_proxy(url),
            ui_host=config.ui,
        )
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # its line for every retry tells a user nothing
    rest = client._run_api.api_client.rest_client
    rest.request = partial(_in_time, rest.request)
    return client


def _in_time(request: Any, *args: Any, _request_timeout: Any = None, **kwargs: Any) -> Any:
    return request(*args, _request_timeout=_request_timeout or _TIMEOUT, **kwargs)


def _proxy(url: str) -> str | None:
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _token(config: KubeflowConfig) -> tuple[str, Path | None]:
    """A token, or the file that holds one and may be renewed; neither where the way is open."""
    if config.token_env:
        return variable(config.token_env, "cluster.kubeflow.token_env"), None
    if config.token_file:
        path = Path(fill(config.token_file, "cluster.kubeflow.token_file"))
        _read(path)
        return "", path
    if token := os.environ.get(_TOKEN_VARIABLE, "").strip():
        return token, None
    of_pod = Path(os.environ.get("KF_PIPELINES_SA_TOKEN_PATH") or _POD_TOKEN)
    return "", of_pod if of_pod.is_file() else None


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
    """The server's own words, first line; of a refusal, what to do."""
    try:
        said = json.loads(error.body or "")
        words = (
            str(said.get("message") or said.get("error") or said.get("title") or "") if isinstance(said, dict) else ""
        )
    except ValueError:
        words = ""
    words = " ".join((words or str(error.reason or "")).split())[:300].rstrip(".")
    if error.status in (401, 403):
        return f"{words or 'refused'} (HTTP {error.status}); renew the token, or ask for the right in this namespace"
    return f"{words} (HTTP {error.status})" if error.status else words
