"""An S3 server for quick tests (`rclone serve s3`), and a line to it that a test can make fail."""

import http.client
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ACCESS, SECRET = "tester", "secret-of-the-tester-7c1d"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def rclone_server(folder: Path, *options: str) -> Iterator[str]:
    """The address of a server whose buckets are the folders below one; by default it asks for the tester's keys."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    program = Path(sys.executable).with_name("rclone")
    command = [program, "serve", "s3", folder, "--addr", f"127.0.0.1:{port}"]
    command += options or ["--auth-key", f"{ACCESS},{SECRET}"]
    environment = {**os.environ, "RCLONE_CONFIG": str(folder.with_suffix(".conf"))}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for_port(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def wait_for_port(port: int, process: subprocess.Popen, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None, f"{process.args} ended with {process.poll()}"
            assert time.monotonic() < deadline, f"{process.args} does not answer"
            time.sleep(0.02)


def environment(endpoint: str, access: str = ACCESS, secret: str = SECRET) -> dict[str, str]:
    """Environment variables that a process needs to reach the store."""
    return {
        "AWS_ACCESS_KEY_ID": access,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": endpoint,
        "RUBRICWORKS_S3_PATIENCE": "60",
    }


Fault = Callable[["Request"], "str | tuple[int, str] | None"]
"""Request → None (let it through), a status and S3 code to answer, or what to do to it: `drop` (close the connection
at once), `drop answer` (do it, and close), `cut` (half of the answer's body), `damage` (another byte in it), `gzip`
(say that the object is gzip-encoded).
"""


class Request:
    """Request as a fault sees it."""

    def __init__(self, method: str, path: str, headers: http.client.HTTPMessage, body: bytes) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body


class Line:
    """A proxy before an S3 server; `fault` decides what becomes of each request."""

    def __init__(self, endpoint: str) -> None:
        self.fault: Fault = lambda request: None
        self.requests: list[Request] = []
        self._to = endpoint.removeprefix("http://")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        line = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(self.command, self.path, self.headers, body)
                line.requests.append(request)
                fault = line.fault(request)
                if isinstance(fault, tuple):
                    status, code = fault
                    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
                    self.reply(status, [("Content-Type", "application/xml")], text.encode())
                    return
                if fault == "drop":
                    self.hang_up()
                    return
                onward = http.client.HTTPConnection(line._to, timeout=300)
                onward.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    onward.putheader(name, value)
                onward.endheaders(body or None)
                answer = onward.getresponse()
                content = answer.read()
                onward.close()
                if fault == "drop answer":
                    self.hang_up()
                    return
                if fault == "damage" and content:
                    content = content[:-1] + bytes([content[-1] ^ 1])
                encoded = [("Content-Encoding", "gzip")] if fault == "gzip" else []
                self.reply(answer.status, answer.getheaders() + encoded, content, cut=fault == "cut")

            def reply(self, status: int, headers: list[tuple[str, str]], content: bytes, *, cut: bool = False) -> None:
                self.send_response_only(status)
                hop = ("transfer-encoding", "connection", "keep-alive")
                for name, value in headers:
                    if name.lower() not in (*hop, *(["content-length"] if self.command != "HEAD" else [])):
                        self.send_header(name, value)
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if cut and len(content) > 1:
                    self.wfile.write(content[: len(content) // 2])
                    self.hang_up()
                elif self.command != "HEAD":
                    self.wfile.write(content)

            def hang_up(self) -> None:
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler


def bucket_name() -> str:
    return f"bucket-{secrets.token_hex(4)}"


def make_bucket(endpoint: str) -> str:
    """The URI of a new bucket; made by the server, which has its own idea of what its folders hold."""
    from minio import Minio

    name = bucket_name()
    Minio(endpoint.removeprefix("http://"), ACCESS, SECRET, secure=False, region="us-east-1").make_bucket(name)
    return f"s3://{name}"
