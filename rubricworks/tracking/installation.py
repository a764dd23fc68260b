"""Client of an installation's API, which alone writes its models' aliases; see docs/platform.md.

An installation is named by RUBRICWORKS_API. The token is RUBRICWORKS_API_TOKEN, or the one that `rubricworks login`
stored. A request that may have arrived is sent again under the same key, so that it changes nothing twice.
"""

import base64
import http.client
import json
import os
import ssl
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from yarl import URL

from rubricworks.environment import is_loopback
from rubricworks.errors import TransientError, UserError
from rubricworks.proxies import proxy_of

VARIABLE = "RUBRICWORKS_API"
TOKEN_VARIABLE = "RUBRICWORKS_API_TOKEN"
_REQUESTING = ("runner", "admin")
"""Scopes of tokens that may request a promotion."""
_ATTEMPTS, _PAUSE, _TIMEOUT = 3, 1.0, 60.0
_LARGEST = 64 * 1024 * 1024
_PAGE = 200


class Event(NamedTuple):
    """A server-sent event."""

    name: str
    id: str
    data: Any


class WrongToken(UserError):
    """The API knows no such token, or asks for one."""


class ApiClient:
    """One installation and a token for it."""

    def __init__(self, url: str, token: str | None) -> None:
        """
        Raises:
            UserError: the URL is none of HTTP, or holds a user or a path with a query.
        """
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
            raise UserError(f"{parts.scheme}://…: write the API's address as https://host or http://host:port")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._parts, self._token = parts, token

    @property
    def lacks_token(self) -> bool:
        """True without a token for another machine's API; one of this machine may serve its programs without."""
        host = self._parts.hostname or ""
        return not self._token and not (host == "localhost" or is_loopback(host))

    def get(self, path: str, **query: object) -> Any:
        """Answer to a GET of a path below /api/v1.

        Raises:
            UserError: the API refuses it.
            TransientError: the API does not answer.
        """
        asked = urlencode({name: value for name, value in query.items() if value is not None})
        return self._exchange("GET", f"{path}?{asked}" if asked else path, None, {})

    def items(self, path: str, **query: object) -> Iterator[Any]:
        """Items of a list, page by page. Raises as `get` does."""
        cursor: str | None = None
        while True:
            page = self.get(path, limit=_PAGE, cursor=cursor, **query)
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def post(self, path: str, body: dict[str, Any], *, key: str | None = None) -> Any:
        """Answer to a POST.

        Args:
            key: idempotency key; by default a new one, for this call's own attempts.
        Raises:
            UserError: the API refuses it.
            TransientError: the API does not answer.
        """
        return self._exchange("POST", path, json.dumps(body).encode(), {"Idempotency-Key": key or uuid.uuid4().hex})

    def delete(self, path: str) -> Any:
        """Answer to a DELETE of a path below /api/v1.

        Raises:
            UserError: the API refuses it.
            TransientError: the API does not answer.
        """
        return self._exchange("DELETE", path, None, {})

    def download(self, path: str) -> bytes:
        """Content of a file below /api/v1.

        Raises:
            UserError: the API refuses it.
            TransientError: the API does not answer.
        """
        status, content = self._ask("GET", path, None, {"Accept": "*/*"})
        if status != 200:
            self._read(status, content)
        return content

    def upload(self, path: str, content: bytes, media_type: str) -> Any:
        """Answer to a POST of a file.

        Raises:
            UserError: the API refuses it.
            TransientError: the API does not answer.
        """
        return self._exchange("POST", path, content, {"Idempotency-Key": uuid.uuid4().hex, "Content-Type": media_type})

    def events(self, path: str) -> Iterator[Event]:
        """Server-sent events of a path below /api/v1, until the stream ends or is silent for a minute.

        Raises:
            UserError: the API refuses it.
            TransientError: the API does not answer, or the stream breaks off.
        """
        connection, name, number = self._connect(), "", ""
        try:
            connection.request("GET", self._target(path), headers=self._headers() | {"Accept": "text/event-stream"})
            answer = connection.getresponse()
            if answer.status != 200:
                self._read(answer.status, answer.read(_LARGEST))
            for line in answer:
                field, _, value = line.decode(errors="replace").rstrip("\r\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "id":
                    number = value
                elif field == "data":
                    yield Event(name, number, json.loads(value))
        except TimeoutError:
            return
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            raise self._silent(error) from error
        finally:
            connection.close()

    def _exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        return self._read(*self._ask(method, path, body, headers))

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        headers = self._headers() | ({} if body is None else {"Content-Type": "application/json"}) | headers
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                status, content = self._send(method, path, body, headers)
            except (OSError, http.client.HTTPException) as error:
                if attempt == _ATTEMPTS:
                    raise self._silent(error) from error
            else:
                if status not in (502, 503, 504) or attempt == _ATTEMPTS:
                    return status, content
            time.sleep(_PAUSE * attempt)
        raise AssertionError

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Send one request; a redirect is an answer like others, so the token goes nowhere else."""
        connection = self._connect()
        try:
            connection.request(method, self._target(path), body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_LARGEST)
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        proxy = proxy_of(self.url)
        near, near_port = (proxy.host or "", proxy.port) if proxy else (host, port)
        if self._parts.scheme != "https":
            return http.client.HTTPConnection(near, near_port, timeout=_TIMEOUT)
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(near, near_port, timeout=_TIMEOUT, context=context)
        if proxy:
            connection.set_tunnel(host, port or 443, _proxy_headers(proxy))
        return connection

    def _target(self, path: str) -> str:
        is_relayed = self._parts.scheme == "http" and proxy_of(self.url)
        return f"{self.url if is_relayed else self._parts.path.rstrip('/')}/api/v1/{path}"

    def _headers(self) -> dict[str, str]:
        token = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        proxy = proxy_of(self.url) if self._parts.scheme == "http" else None
        return {"Accept": "application/json", "User-Agent": "rubricworks"} | token | _proxy_headers(proxy)

    def _silent(self, error: Exception) -> TransientError:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return TransientError(f"the API at {self.url} does not answer ({reason})")

    def _read(self, status: int, content: bytes) -> Any:
        try:
            answer = json.loads(content)
        except ValueError:
            raise UserError(f"{self.url} answers HTTP {status}, and not as this API does; check {VARIABLE}") from None
        if 200 <= status < 300:
            return answer
        detail = str(answer.get("detail") if isinstance(answer, dict) else "") or f"HTTP {status}"
        if status == 401:
            raise WrongToken(f"{self.url}: the token is missing, unknown or expired; run: rubricworks login {self.url}")
        raise (TransientError if status >= 500 else UserError)(f"{self.url}: {detail}")


def _proxy_headers(proxy: URL | None) -> dict[str, str]:
    if proxy is None or not proxy.user:
        return {}
    secret = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
    return {"Proxy-Authorization": f"Basic {secret}"}


def named_api() -> ApiClient | None:
    """The API that the environment names; None without one.

    Raises:
        UserError: its address is no URL.
    """
    url = os.environ.get(VARIABLE, "").strip()
    return open_api(url) if url else None


def promoting_api() -> ApiClient | None:
    """The API that the environment names, which alone moves its models' aliases; None without one.

    Raises:
        UserError: its address is no URL, or there is no token that may request promotions.
        TransientError: the API does not answer.
    """
    api = named_api()
    if api is not None and api.lacks_token:
        raise UserError(
            f"{VARIABLE} names {api.url}, which alone moves the aliases of models, and there is no token to request a "
            f"promotion with; nothing is registered or moved: set {TOKEN_VARIABLE} to a runner's token (rubricworks "
            "tokens create), on Kubeflow by cluster.secrets or the chart's pipelines.apiToken"
        )
    if api is not None and (scope := api.get("caller")["scope"]) not in _REQUESTING:
        raise UserError(f"{api.url}: the token in {TOKEN_VARIABLE} is of scope {scope}; a promotion needs a runner's")
    return api


def open_api(url: str) -> ApiClient:
    """The API at an address, with the token of the environment or of a login."""
    client = ApiClient(url, None)
    return ApiClient(url, os.environ.get(TOKEN_VARIABLE, "").strip() or _stored().get(client.url))


def store_token(url: str, token: str | None) -> Path:
    """Store the token of an API in a file that its user alone can read; None forgets it. Returns the file."""
    path, tokens = _credentials(), _stored()
    tokens.pop(url, None)
    if token is not None:
        tokens[url] = token
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(tokens, file, indent=2)
    aside.replace(path)
    return path


def path_of(*parts: object) -> str:
    """A path of the API, with each part quoted."""
    return "/".join(quote(str(part), safe="") for part in parts)


def request_promotion(api: ApiClient, model: str, version: int, reason: str) -> str:
    """Request a promotion, unless the same one is open; return a sentence about it.

    Raises:
        UserError: the API refuses it, or another version's request is open.
        TransientError: the API does not answer.
    """
    for request in api.get("promotions", model=model, state="requested")["items"]:
        if request["version"] == version:
            return f"promotion {request['id']} of {model} version {version} waits for approval at {api.url}/promotions"
    body = {"model": model, "version": version, "reason": reason[:2000]}
    number = api.post("promotions", body)["id"]
    return f"promotion {number} of {model} version {version} waits for approval at {api.url}/promotions"


def _credentials() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "rubricworks" / "credentials.json"


def _stored() -> dict[str, str]:
    try:
        content = json.loads(_credentials().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(url): str(token) for url, token in content.items()} if isinstance(content, dict) else {}
