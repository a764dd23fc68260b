"""Messages of promotions: their signature, and a receiver for what serves a model.

    Rubricworks-Delivery: 17
    Rubricworks-Signature: t=1732320000,v1=<hex of HMAC-SHA256(secret, "1732320000.<body>")>

    serve_consumer(8090, secret, named_api(), apply=load_into_vllm)

The receiver applies one message at a time, answers 2xx once it is applied, and confirms it. A message comes again until
then, so one that was applied is only confirmed; one that is older than what is served changes nothing. A GET tells what
is served, by which the API notices drift.
"""

import hashlib
import hmac
import json
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.errors import UserError
from rubricworks.listening import listen
from rubricworks.storage import write_atomic
from rubricworks.tracking.installation import ApiClient

SIGNATURE = "Rubricworks-Signature"
_OLDEST = 300
"""Seconds after which a signature is none any more."""
_LARGEST = 64 * 1024
_SILENCE = 30.0
"""Seconds after which a sender that has not finished is cut off."""
_NUMBER = re.compile(r"[0-9]{1,18}")
"""A time or a length; Python fails on one of thousands of digits."""


class PromotionMessage(NamedTuple):
    """A version of a model that is to be served."""

    promotion: int
    kind: str
    model: str
    version: int
    digest: str
    """Digest of its files; empty for a version that was registered without one."""


def sign(secret: str, body: str, at: int) -> str:
    """Signature of a message sent at a time in seconds."""
    digest = hmac.new(secret.encode(), f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def read_message(secret: str, body: str, signature: str, *, now: float | None = None) -> PromotionMessage:
    """Check a message's signature and age and read it.

    Raises:
        UserError: another one signed it, it is too old, or it is no message.
    """
    at = signature.removeprefix("t=").partition(",")[0]
    if not _NUMBER.fullmatch(at) or not hmac.compare_digest(sign(secret, body, int(at)).encode(), signature.encode()):
        raise UserError("the signature is not that of this secret")
    if abs((time.time() if now is None else now) - int(at)) > _OLDEST:
        raise UserError(f"the signature is more than {_OLDEST} s old, or this machine's clock is wrong")
    try:
        content = json.loads(body)
        message = PromotionMessage(**{name: content[name] for name in PromotionMessage._fields})
        if [type(value) for value in message] != [*PromotionMessage.__annotations__.values()]:
            raise TypeError("a field of another type")
        return message
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError("the body is no message of a promotion") from error


class Consumer:
    """Server of models: applies messages one at a time and remembers what it serves."""

    def __init__(self, api: ApiClient, apply: Callable[[PromotionMessage], None], state: Path) -> None:
        """
        Args:
            apply: makes the version the one that is served, and returns once it is.
            state: file of what is served, so that a restart forgets nothing.
        """
        self._api, self._apply, self._state = api, apply, state
        self._lock = threading.Lock()

    def receive(self, message: PromotionMessage) -> None:
        """Serve the message's version, unless it or a later one is served, and confirm it."""
        with self._lock:
            served = self._read()
            last = served.get(message.model, {}).get("promotion", 0)
            if last > message.promotion:
                return
            if last < message.promotion:
                self._apply(message)
                served[message.model] = {"promotion": message.promotion, "version": message.version}
                write_atomic(self._state, json.dumps(served).encode())
        self._api.post(f"promotions/{message.promotion}/confirm", {})

    def serving(self) -> dict[str, int]:
        """Model → version that is served."""
        return {model: served["version"] for model, served in self._read().items()}

    def _read(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self._state.read_text())
        except FileNotFoundError:
            return {}
        return content


def consumer_server(
    port: int, secret: str, consumer: Consumer, *, host: str = "127.0.0.1", silence: float = _SILENCE
) -> ThreadingHTTPServer:
    """HTTP server of a consumer, to be run by `serve_forever`.

    Args:
        silence: seconds after which a sender that has not finished is cut off.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = silence

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not _NUMBER.fullmatch(length) or int(length) > _LARGEST:
                return self._answer(413, {"problem": "too large"})
            body = self.rfile.read(int(length)).decode(errors="replace")
            try:
                message = read_message(secret, body, self.headers.get(SIGNATURE, ""))
            except UserError as error:
                return self._answer(403, {"problem": str(error)})
            try:
                consumer.receive(message)
            except (UserError, OSError) as error:  # the message comes again
                self.log_error("promotion %d is not served: %s", message.promotion, error)
                return self._answer(503, {"problem": "not served yet"})
            return self._answer(200, {"serving": consumer.serving()})

        def do_GET(self) -> None:
            self._answer(200, {"serving": consumer.serving()})

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    listening = listen(host, port)
    address: tuple[str, int] = listening.getsockname()[:2]
    server = ThreadingHTTPServer(address, Handler, bind_and_activate=False)
    server.socket.close()
    server.socket, (server.server_name, server.server_port) = listening, address
    return server
