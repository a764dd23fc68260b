"""A Postgres that takes connections and answers no statement; what the service asks of a connection."""

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pydantic import SecretStr
from served_api import ask, served
from sqlalchemy import event

from rubricworks.cli import main
from rubricworks.platform_api.db import postgres
from rubricworks.platform_api.db.engine import open_engine
from rubricworks.platform_api.settings import ApiSettings

CANCEL = 80877102


def message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


READY = message(b"R", struct.pack("!i", 0)) + message(b"K", struct.pack("!ii", 1, 1)) + message(b"Z", b"I")
CANCELLED = message(b"E", b"SERROR\0VERROR\0C57014\0Mcanceling statement due to user request\0\0") + message(b"Z", b"E")


@contextmanager
def frozen_postgres() -> Iterator[tuple[int, list[str]]]:
    """Its port, and what it was sent: statements, which only their cancellation ends."""
    sent: list[str] = []
    sessions: list[socket.socket] = []

    def converse(connection: socket.socket) -> None:
        with connection:
            while head := connection.recv(4):
                content = connection.recv(struct.unpack("!i", head)[0] - 4, socket.MSG_WAITALL)
                code = struct.unpack("!i", content[:4])[0]
                if code == CANCEL:
                    sent.append("cancel")
                    sessions[-1].sendall(CANCELLED)
                    return
                if code >> 16 == 3:
                    break
                connection.sendall(b"N")  # no TLS, no GSSAPI
            sessions.append(connection)
            connection.sendall(READY)
            while connection.recv(1 << 16):
                sent.append("statement")

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    connection = listening.accept()[0]
                except OSError:
                    return
                threading.Thread(target=converse, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1], sent
        listening.shutdown(socket.SHUT_RDWR)


def test_a_statement_without_an_answer_is_cancelled_and_the_caller_told(monkeypatch):
    monkeypatch.setattr(postgres, "_ANSWER_SECONDS", 0.5)
    with frozen_postgres() as (port, sent):
        settings = ApiSettings(database=SecretStr(f"postgresql://u:p@127.0.0.1:{port}/x"))
        with served(settings) as url:
            status, body = ask(f"{url}/api/v1/caller", Cookie="rubricworks_session=x")
    assert (status, body["title"]) == (503, "Database unavailable"), body
    assert "the database does not answer" in body["detail"]
    assert ("statement" in sent, "cancel" in sent) == (True, True)


def asked_of_a_connection(url: str) -> dict[str, object]:
    """Options with which a connection is opened."""
    engine, asked = open_engine(url), {}

    @event.listens_for(engine.sync_engine, "do_connect")
    def intercept(_dialect, _record, _arguments, options):
        asked.update(options)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        asyncio.run(engine.connect().start())
    return asked


def test_a_connection_has_deadlines_and_prepares_nothing_that_a_pooler_loses():
    asked = asked_of_a_connection("postgresql://u:p@127.0.0.1/x")
    assert asked["prepare_threshold"] is None
    assert {name: asked[name] for name in ("connect_timeout", "tcp_user_timeout", "keepalives_idle")} == {
        "connect_timeout": 5,
        "tcp_user_timeout": 20_000,
        "keepalives_idle": 20,
    }


def test_the_options_of_a_url_come_before_ours():
    asked = asked_of_a_connection("postgresql://u:p@127.0.0.1/x?connect_timeout=9&application_name=a")
    assert (asked["connect_timeout"], asked["application_name"]) == ("9", "a")


def test_a_command_on_a_database_without_an_answer_is_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(postgres, "_ANSWER_SECONDS", 0.5)
    with frozen_postgres() as (port, _):
        monkeypatch.setenv("RUBRICWORKS_DATABASE_URL", f"postgresql://u:s3cret@127.0.0.1:{port}/x")
        with pytest.raises(SystemExit) as end:
            main(["tokens", "list", "--runs", str(tmp_path)])
    printed = capsys.readouterr().err
    assert (end.value.code, printed.count("\n")) == (2, 1), printed
    assert f"127.0.0.1:{port}/x cannot be opened: no answer within 0.5 s" in printed
    assert "s3cret" not in printed
