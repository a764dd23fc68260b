"""The socket of `rubricworks server`."""

import socket

import pytest

from rubricworks.platform_api.serving import listen


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_accepted_connections_send_small_packets_at_once(host):
    try:
        listening = listen(host, 0)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with listening, socket.create_connection(listening.getsockname()[:2]), listening.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
