"""The socket of `rubricworks server`."""

import socket

import pyarrow as pa
import pytest
import uvicorn

from rubricworks.listening import listen
from rubricworks.platform_api.serving import serve


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_accepted_connections_send_small_packets_at_once(host):
    try:
        listening = listen(host, 0)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with listening, socket.create_connection(listening.getsockname()[:2]), listening.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_arrow_gives_freed_memory_back(monkeypatch, tmp_path):
    """Its own pools keep 90 MB; the variable that chooses one says nothing after the import."""
    pools = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: pools.append(pa.default_memory_pool().backend_name))
    monkeypatch.setenv("RUBRICWORKS_DATABASE_URL", f"sqlite:///{tmp_path / 'platform.sqlite'}")
    before = pa.default_memory_pool()
    with listen("127.0.0.1", 0) as listening:
        try:
            serve(listening, str(tmp_path))
        finally:
            pa.set_memory_pool(before)
    assert pools == ["system"]
