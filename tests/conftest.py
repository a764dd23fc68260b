"""Fixtures for every test of something that calls a model."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import stamina
from scripted_server import ScriptedServer


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    """Starts scripted servers, which stop with the test."""
    servers: list[ScriptedServer] = []

    def start(script: Any, port: int = 0) -> ScriptedServer:
        servers.append(ScriptedServer(script, port))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def quick_retries() -> Iterator[None]:
    """Three attempts and no waiting between them."""
    stamina.set_testing(True, attempts=3, cap=True)
    yield
    stamina.set_testing(False)
