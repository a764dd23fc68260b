"""Whether an endpoint answers and serves its model, asked before a run starts so that none fails midway."""

import json

from rubricworks.errors import UserError
from rubricworks.llm.connections import Connections, RequestFailed
from rubricworks.llm.endpoint import Endpoint

_TIMEOUT_S = 15.0


async def check_endpoint(endpoint: Endpoint) -> None:
    """Ask for the list of models and look for this one; a model that is not listed may still answer a one-token chat.

    Raises:
        UserError: which endpoint, what went wrong, and the command line that shows it.
    """
    try:
        names = _names(await _request(endpoint, "GET", "models", timeout_s=_TIMEOUT_S))
    except RequestFailed as error:
        # A server may have no list, or fail to make one (`transformers serve` does before its first download).
        if error.status not in (404, 405) and error.status < 500:
            raise UserError(f"{endpoint.label} is not usable: {error}; test it with: {_curl(endpoint)}") from None
        names = None
    if names is not None and endpoint.model in names:
        return
    # Some servers list nothing, or only what they have loaded, and gateways know names that they do not list.
    body = {"model": endpoint.model, "messages": [{"role": "user", "content": "ping"}], "max_tokens": 1}
    try:
        timeout = max(endpoint.timeout_s, _TIMEOUT_S)
        await _request(endpoint, "POST", "chat/completions", json.dumps(body).encode(), timeout_s=timeout)
    except RequestFailed as error:
        served = f"it serves {', '.join(sorted(names)[:8])}" if names else "it lists no models"
        raise UserError(
            f"{endpoint.label} is not usable: the model does not answer ({error}), and {served}; "
            f"test it with: {_curl(endpoint)}"
        ) from None


async def list_models(endpoint: Endpoint) -> list[str]:
    """What the server of an endpoint lists, whichever model the endpoint names.

    Raises:
        UserError: it cannot be asked.
    """
    try:
        names = _names(await _request(endpoint, "GET", "models", timeout_s=_TIMEOUT_S))
    except RequestFailed as error:
        raise UserError(f"{endpoint.url} lists no models: {error}; test it with: {_curl(endpoint)}") from None
    return sorted({name.removeprefix("models/") for name in names or ()})


async def _request(endpoint: Endpoint, method: str, path: str, body: bytes | None = None, *, timeout_s: float) -> bytes:
    """One request on connections of its own: a server that has just failed may be closing the last one.

    Every replica is asked, and all must answer; the first one's answer is returned.
    """
    connections = Connections(endpoint.model_copy(update={"timeout_s": timeout_s}))
    try:
        lane = connections.lane()
        urls = [replica.models_url if path == "models" else replica.chat_url for replica in lane.replicas]
        answers = [await connections.exchange(lane, method, url, body) for url in urls]
        return answers[0]
    finally:
        await connections.close()


def _names(payload: bytes) -> set[str] | None:
    try:
        listed = {str(entry["id"]) for entry in json.loads(payload)["data"]}
    except (ValueError, KeyError, TypeError):
        return None
    return listed | {name.removeprefix("models/") for name in listed}


def _curl(endpoint: Endpoint) -> str:
    """The same question on the command line; variables stay names, so no key is printed."""
    key = f' -H "Authorization: Bearer ${endpoint.api_key_env}"' if endpoint.api_key_env else ""
    url = endpoint.url.rstrip("/")
    path = "/models" if url.count("/") > 2 or url.startswith("${") else "/v1/models"
    return f'curl -sS "{url}{path}"{key}'
