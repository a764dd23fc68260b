"""Servers listen where an IPv6-only cluster reaches them, and on machines that have IPv4 alone."""

import socket
import threading
import urllib.request
from types import SimpleNamespace

import pytest

from rubricworks.listening import every_address, listen, url_of
from rubricworks.tracking.promotion_messages import consumer_server

HAS_IPV6 = socket.has_dualstack_ipv6()
needs_ipv6 = pytest.mark.skipif(not HAS_IPV6, reason="this machine has no IPv6")


def accepts(port: int, host: str) -> bool:
    try:
        with socket.create_connection((host, port), timeout=60):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        pytest.param("::", {"127.0.0.1", "::1"}, marks=needs_ipv6),
        pytest.param("::1", {"::1"}, marks=needs_ipv6),
        ("0.0.0.0", {"127.0.0.1"}),
        ("127.0.0.1", {"127.0.0.1"}),
    ],
)
def test_a_socket_is_reached_by_ipv4_and_ipv6_where_it_listens_on_every_address(host, reached):
    with listen(host, 0) as listening:
        port = listening.getsockname()[1]
        assert {address for address in ("127.0.0.1", "::1") if accepts(port, address)} == reached


def test_every_address_is_that_of_ipv4_on_a_machine_without_ipv6(monkeypatch):
    original = socket.socket

    class WithoutIpv6(original):
        def __init__(self, family=socket.AF_INET, *args, **options):
            if family == socket.AF_INET6:
                raise OSError(97, "Address family not supported by protocol")
            super().__init__(family, *args, **options)

    monkeypatch.setattr(socket, "socket", WithoutIpv6)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ])  # fmt: skip
    assert every_address() == "0.0.0.0"
    with listen("::", 0) as listening:
        assert listening.getsockname()[0] == "0.0.0.0"
    with listen("localhost", 0) as listening:
        assert url_of(listening).startswith("http://127.0.0.1:")


def test_a_consumer_of_models_is_reached_by_both():
    server = consumer_server(0, "k3y", SimpleNamespace(serving=dict), host="::")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for address in ("127.0.0.1", *(["[::1]"] if HAS_IPV6 else [])):
            with urllib.request.urlopen(f"http://{address}:{server.server_port}", timeout=60) as answer:
                assert answer.read() == b'{"serving": {}}'
    finally:
        server.shutdown()
        server.server_close()


def test_a_taken_port_and_a_host_of_another_machine_are_errors():
    with listen("127.0.0.1", 0) as listening, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", listening.getsockname()[1])
    with pytest.raises(OSError, match="assign"):
        listen("192.0.2.1", 0)
