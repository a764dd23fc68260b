"""Processes that are watched from outside, and where they show and send what they do."""

import socket
from collections.abc import Callable, Iterator

import pytest
from otlp_server import OtlpServer
from watched_program import Program


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def run(code: str, *arguments: object, **environment: str) -> Program:
        programs.append(Program(code, *arguments, **environment))
        return programs[-1]

    yield run
    for program in programs:
        program.process.kill()
        program.process.communicate()


@pytest.fixture
def collector() -> Iterator[OtlpServer]:
    server = OtlpServer()
    yield server
    server.close()


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
