"""Calls of an installation's API through the proxy that the environment names."""

import http.server
import json
import socket
import threading

import pytest
from certificates import tls_contexts
from object_store import Line

from rubricworks.tracking.installation import ApiClient


class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"path": self.path, "token": self.headers["Authorization"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture
def api():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_requests_over_http_are_passed_on_by_the_proxy(api, monkeypatch):
    line = Line(f"http://127.0.0.1:{api.server_port}")
    monkeypatch.setenv("http_proxy", line.url.replace("//", "//user:word@"))
    answer = ApiClient("http://rubrics.example.test/", "rw_x").get("runs", limit=1)
    line.close()
    assert answer["token"] == "Bearer rw_x"
    assert [request.path for request in line.requests] == ["http://rubrics.example.test/api/v1/runs?limit=1"]
    assert line.requests[0].headers["Proxy-Authorization"] == "Basic dXNlcjp3b3Jk"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert ApiClient(f"http://127.0.0.1:{api.server_port}", None).get("runs")["path"] == "/api/v1/runs"


def test_requests_over_https_go_through_a_tunnel_that_sees_no_token(api, monkeypatch, tmp_path):
    for_server, _ = tls_contexts(tmp_path, "rubrics.example.test")
    api.socket = for_server.wrap_socket(api.socket, server_side=True)
    seen = []

    def pass_on(source, target):
        while content := source.recv(1 << 16):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)

    def tunnel(listening):
        caller = listening.accept()[0]
        seen.append(caller.recv(1 << 16))
        onward = socket.create_connection(("127.0.0.1", api.server_port))
        caller.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=pass_on, args=(onward, caller), daemon=True).start()
        pass_on(caller, onward)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=tunnel, args=(listening,), daemon=True).start()
        monkeypatch.setenv("https_proxy", f"http://user:word@127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        answer = ApiClient("https://rubrics.example.test", "rw_x").get("runs")
    assert answer == {"path": "/api/v1/runs", "token": "Bearer rw_x"}
    assert seen[0].startswith(b"CONNECT rubrics.example.test:443 HTTP/1.")
    assert (b"Proxy-Authorization: Basic dXNlcjp3b3Jk" in seen[0], b"rw_x" in seen[0]) == (True, False)
