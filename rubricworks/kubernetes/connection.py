"""Client of a cluster's API: by the service account inside a pod, by a kubeconfig elsewhere.

Objects are plain JSON dictionaries. Requests are retried for some minutes while the server restarts or is overloaded;
a refusal becomes a one-line error that says what to do.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.errors import TransientError, UserError

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
OLDEST = (1, 29)
"""Version of Kubernetes from which a Job tries each part alone (`backoffLimitPerIndex`)."""
_TIMEOUT = (10, 60)
"""Seconds to connect, and between two chunks of a response."""
_PATIENCE = 300.0
"""Seconds for which requests are retried."""
_RETRY_STATUSES = {409, 429, 500, 502, 503, 504}
"""409 is also the answer to a request that lost a race, such as for the counter of a quota."""
_EXISTS = "AlreadyExists"
"""Reason of a 409 that stays."""
_QUOTA = "exceeded quota"
"""Words of a 403 by which a ResourceQuota, not the account's rights, refuses an object."""

Json = dict[str, Any]


class Cluster(NamedTuple):
    """API client for one namespace of a cluster."""

    namespace: str
    api: Any
    """kubernetes.client.ApiClient."""
    patience: float = _PATIENCE

    def get(self, path: str, **query: str) -> Json:
        return self._request("GET", path, query)

    def version(self) -> str:
        """Version of the cluster, such as `v1.31.2-gke.100`."""
        return str(self.get("/version").get("gitVersion", ""))

    def list(self, path: str, **labels: str) -> list[Json]:
        """List the objects with these labels (`**{"rubricworks/stage": "…"}`)."""
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        return self._request("GET", path, {"labelSelector": selector} if selector else {}).get("items") or []

    def create(self, path: str, body: Json) -> Json | None:
        """Create the object and return the server's copy; None if one of this name already exists."""
        from kubernetes.client import ApiException

        try:
            return self._request("POST", path, {}, body)
        except ApiException as error:
            if _field(error, "reason") == _EXISTS:
                return None
            raise

    def patch(self, path: str, body: Json) -> Json:
        return self._request("PATCH", path, {}, body)

    def delete(self, path: str) -> None:
        """Delete the object and all that it owns; a missing object is no error."""
        from kubernetes.client import ApiException

        try:
            self._request("DELETE", path, {"propagationPolicy": "Background"})
        except ApiException as error:
            if error.status != 404:
                raise

    def stream(self, path: str, **query: str) -> Any:
        """Return the open response body, for logs."""
        return self._call("GET", path, query, None, _preload_content=False, _request_timeout=(10, None))

    def _request(self, method: str, path: str, query: dict[str, str], body: Json | None = None) -> Json:
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        deadline, pause = time.monotonic() + self.patience, 0.2
        while True:
            try:
                return self._call(method, path, query, body, response_type="object", _request_timeout=_TIMEOUT)
            except (ApiException, HTTPError) as error:
                if not _may_pass(error) or time.monotonic() > deadline:
                    raise
            time.sleep(pause * random.uniform(0.7, 1.3))
            pause = min(2 * pause, 10)

    def _call(self, method: str, path: str, query: dict[str, str], body: Json | None, **options: Any) -> Any:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json" if method == "POST" else "application/merge-patch+json"
        return self.api.call_api(
            path.format(namespace=self.namespace),
            method,
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
            _return_http_data_only=True,
            **options,
        )


def connect(namespace: str | None = None, *, patience: float = _PATIENCE) -> Cluster:
    """Connect with this pod's service account or this user's kubeconfig (KUBECONFIG).

    Raises:
        UserError: there is neither, or the package `kubernetes` is missing.
    """
    try:
        from kubernetes import client, config
    except ImportError:
        raise UserError('work on several pods needs more packages: pip install "rubricworks[cluster]"') from None
    settings = client.Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
            config.load_incluster_config(client_configuration=settings)
            default_namespace = _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.is_file() else None
        else:
            # The package reads the variable on import, which may be long ago.
            file = os.environ.get("KUBECONFIG")
            config.load_kube_config(file, client_configuration=settings)
            _, context = config.list_kube_config_contexts(file)
            default_namespace = context["context"].get("namespace")
    except config.ConfigException as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"no cluster to work on: {reason}; run inside one, or set KUBECONFIG") from None
    settings.retries = False
    return Cluster(namespace or default_namespace or "default", client.ApiClient(settings), patience)


@contextmanager
def report_api_errors(action: str, namespace: str) -> Iterator[None]:
    """Convert errors of the API into a one-line UserError.

    Args:
        action: verb phrase for the message, such as `create a TrainJob`.
    """
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        message = _field(error, "message") or str(error.reason)
        is_quota = is_over_quota(message)
        kind = TransientError if is_quota or _may_pass(error) else UserError
        advice = _advice(error.status, message)
        raise kind(f"could not {action} in namespace {namespace}: {message} ({error.status}); {advice}") from error
    except HTTPError as error:
        raise TransientError(
            f"could not {action}: the cluster's API does not answer ({type(error).__name__})"
        ) from error


def is_over_quota(message: str) -> bool:
    """Return True for a refusal that lasts as long as others use the namespace's quota."""
    return _QUOTA in message


def _may_pass(error: Exception) -> bool:
    """Return True if the same request may succeed later."""
    from kubernetes.client import ApiException

    is_final = isinstance(error, ApiException) and (
        error.status not in _RETRY_STATUSES or _field(error, "reason") == _EXISTS
    )
    return not is_final


def _field(error: Any, name: str) -> str:
    """Return a field of the Status object that the API answers with; empty if there is none."""
    try:
        return str(json.loads(error.body)[name])
    except (TypeError, ValueError, KeyError):
        return ""


def _advice(status: int, message: str) -> str:
    if is_over_quota(message):
        return "wait until others are done, or ask for more (kubectl describe resourcequota)"
    if status == 403 and " cannot " not in message:  # admitted by the rights, refused by a policy
        return "mend the recipe's cluster section, or what refuses it in the namespace"
    return _ADVICE.get(status, "run again when the cluster is well")


_ADVICE = {
    401: "the token is not accepted: log in again, or look at the pod's service account",
    403: "give the service account the rights of the chart's role for pipelines",
    404: "is it installed? TrainJobs need Kubeflow Trainer 2.3 or later, InferenceServices need KServe",
    422: "mend the recipe's cluster section",
}
