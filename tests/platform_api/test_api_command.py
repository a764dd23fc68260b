"""`rubricworks server`: bad settings are one line before the port opens; good ones answer until told to stop."""

import os
import signal
import socket
import subprocess
import sys

import pytest
from served_api import TOKEN, ask, bearer, followed
from trained_run import write_run

from rubricworks.cli import main
from rubricworks.runs.folder_lock import lock_folder

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("environment", "arguments", "message"),
    [
        ({}, ["--host", "0.0.0.0"], "RUBRICWORKS_API_TOKEN is not set"),
        ({"RUBRICWORKS_API_TOKEN": "  "}, ["--host", "0.0.0.0"], "RUBRICWORKS_API_TOKEN is not set"),
        ({"RUBRICWORKS_API_TOKEN": SECRET}, [], "has 6 characters; a token needs at least 16"),
        ({}, ["--host", "no-such-host.invalid"], "cannot listen on no-such-host.invalid:8080"),
        ({}, ["--host", ""], "can be reached from other machines"),
        ({"RUBRICWORKS_DATABASE_URL": SECRET}, [], "RUBRICWORKS_DATABASE_URL is no SQLAlchemy URL"),
        ({"RUBRICWORKS_DATABASE_URL": f"postgresql://u:{SECRET}@h:port/db"}, [], "RUBRICWORKS_DATABASE_URL"),
        ({"RUBRICWORKS_DATABASE_URL": f"postgres://u:{SECRET}@h/db"}, [], "no database driver for 'postgres'"),
        ({"RUBRICWORKS_DATABASE_URL": f"postgresql+pg8000://u:{SECRET}@h/db"}, [], "write postgresql+psycopg://"),
        ({"RUBRICWORKS_DATABASE_URL": f"oracle+nothing://u:{SECRET}@h/db"}, [], "no database driver"),
        (
            {"RUBRICWORKS_WEBHOOK_NETWORKS": "10.1.2.3/16"},
            [],
            "10.1.2.3/16 has host bits set; write 10.1.0.0",
        ),
        ({"RUBRICWORKS_REQUESTS_A_MINUTE": "many"}, [], "RUBRICWORKS_REQUESTS_A_MINUTE is 'many'; write a number"),
        ({"RUBRICWORKS_PUBLIC_URL": "host"}, [], "RUBRICWORKS_PUBLIC_URL is no address: write https://host"),
        ({"RUBRICWORKS_PUBLIC_URL": "https://"}, [], "RUBRICWORKS_PUBLIC_URL is no address: write https://host"),
        ({"RUBRICWORKS_PUBLIC_URL": "https://h:x"}, [], "RUBRICWORKS_PUBLIC_URL is no address: write https://host"),
        ({"RUBRICWORKS_PUBLIC_URL": f"https://u:{SECRET}@h"}, [], "RUBRICWORKS_PUBLIC_URL is no address"),
        ({"RUBRICWORKS_PUBLIC_URL": "https://h/rubrics/"}, [], "has the path /rubrics/, and pages cannot be served"),
    ],
)
def test_bad_settings_are_one_line(monkeypatch, capsys, tmp_path, environment, arguments, message):
    for name in ("RUBRICWORKS_API_TOKEN", "RUBRICWORKS_DATABASE_URL", "RUBRICWORKS_STORAGE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stopped:
        main(["server", "--runs", str(tmp_path), *arguments])
    printed = capsys.readouterr()
    assert stopped.value.code == 2
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1
    assert SECRET not in printed.err + printed.out


def test_a_folder_that_cannot_be_written_is_told_after_a_missing_token(monkeypatch, capsys, tmp_path):
    for name in ("RUBRICWORKS_API_TOKEN", "RUBRICWORKS_DATABASE_URL", "RUBRICWORKS_STORAGE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "file").write_text("")
    for host, message in (("0.0.0.0", "RUBRICWORKS_API_TOKEN is not set"), ("127.0.0.1", "runs: cannot be written")):
        with pytest.raises(SystemExit):
            main(["server", "--runs", str(tmp_path / "file" / "runs"), "--host", host, "--port", "0"])
        assert message in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("RUBRICWORKS_API_TOKEN", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(SystemExit) as stopped:
        main(["server", "--runs", str(tmp_path), "--port", str(listener.getsockname()[1])])
    assert stopped.value.code == 2
    assert "Address already in use" in capsys.readouterr().err


@pytest.mark.slow
def test_serves_on_every_address_with_a_token_until_it_is_told_to_stop(tmp_path):
    environment = {**os.environ, "RUBRICWORKS_API_TOKEN": TOKEN, "RUBRICWORKS_STORAGE": str(tmp_path / "runs")}
    command = [sys.executable, "-m", "rubricworks.cli", "server", "--host", "::", "--port", "0"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    try:
        port = process.stdout.readline().strip().rpartition(":")[2]
        if socket.has_dualstack_ipv6():
            assert ask(f"http://[::1]:{port}/healthz")[0] == 200
        url = f"http://127.0.0.1:{port}"
        assert ask(url + "/readyz", **bearer())[1]["checks"]["storage"]["status"] == "ok"
        assert ask(url + "/version")[0] == 401
        run = write_run(tmp_path / "runs", "going-1")
        with lock_folder(run), followed(url, f"{run.name}/events") as stream:
            assert stream.readline().startswith(b"event: run")
            process.send_signal(signal.SIGTERM)
            stream.read()  # ends well: a stop does not wait for browsers
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=300)
    text = (tmp_path / "log").read_text()
    assert process.returncode == -signal.SIGTERM
    assert "Traceback" not in text
    assert [line for line in text.splitlines() if "alembic" in line or "uvicorn" in line] == []
    assert TOKEN not in text
    assert "/version" in text
    assert "GET /readyz" not in text, "probes would be most of the log"


@pytest.mark.slow
def test_prints_its_address_and_nothing_else_to_somebody_at_this_machine(tmp_path):
    """No line of a migration, a start or a request: they are no news at a terminal."""
    command = [sys.executable, "-m", "rubricworks.cli", "server", "--port", "0", "--runs", str(tmp_path / "runs")]
    environment = {name: value for name, value in os.environ.items() if name != "RUBRICWORKS_API_TOKEN"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    url = process.stdout.readline().strip()
    try:
        assert ask(f"{url}/api/v1/runs")[1]["items"] == []
        assert ask(f"{url}/nothing")[0] == 404
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=300) == ("", "")
