"""Models of a run across its stages: shared, restarted, and ended however the run ends."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from vllm_stand_in import model_folder

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.served import EVENTS_FILE, ServedModel
from rubricworks.runtime.serving import local_server
from rubricworks.runtime.serving.identity import ServedIdentity, Weights
from rubricworks.runtime.serving.local_server import LocalServer
from rubricworks.runtime.serving.local_servers import LocalServers
from rubricworks.runtime.serving.run_socket import SOCKET_ENV, RunServers, ask_run

IDENTITY = ServedIdentity("sha256:1", "vllm", "0.30.0", "")


@pytest.fixture
def served(tmp_path) -> tuple[ServedModel, ServedIdentity, Weights]:
    folder = model_folder(tmp_path / "model", "a red house")
    return ServedModel(name="captioner", model=str(folder)), IDENTITY, Weights(str(folder), "sha256:1")


def ask(served: ServedModel, urls: list[str], count: int = 1) -> set[str]:
    async def run() -> set[str]:
        endpoint = Endpoint.model_validate({"serve": served})
        # One attempt: only a server that is gone, and will be started again, is waited for.
        async with ChatClient(endpoint, attempts=1) as client:
            calls = (client.chat([{"role": "user", "content": f"q{number}"}]) for number in range(count))
            return {reply.value for reply in await asyncio.gather(*calls)}

    os.environ |= dict(zip(served.variables, urls, strict=True))
    try:
        return asyncio.run(run())
    finally:
        for variable in served.variables:
            del os.environ[variable]


def events(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / EVENTS_FILE).read_text().splitlines()]


def test_a_model_that_sleeps_is_started_with_the_routes_for_it(tmp_path, vllm, served):
    model = served[0].model_copy(update={"sleep": True})
    with LocalServers(tmp_path) as servers:
        servers.serve(model, *served[1:])
        [start] = vllm.starts
        assert "--enable-sleep-mode" in start
        assert psutil.Process(start[0]).environ()["VLLM_SERVER_DEV_MODE"] == "1"


def test_two_stages_share_a_server_that_ends_with_the_last_of_them(tmp_path, vllm, served, monkeypatch):
    with RunServers(tmp_path, {"captioner": ["recap", "write_exams"]}) as servers:
        monkeypatch.setenv(SOCKET_ENV, servers.environment()[SOCKET_ENV])
        first = ask_run(*served, print)
        servers.stage_ended("recap")
        second = ask_run(*served, print)
        assert first.urls == second.urls
        assert ask(served[0], second.urls) == {"a red house"}
        assert len(vllm.starts) == 1
        servers.stage_ended("prepare")
        assert vllm.left()
        servers.stage_ended("write_exams")
        assert vllm.left() == []
    assert [event["event"] for event in events(tmp_path)] == ["ready", "stopped"]
    assert events(tmp_path)[1]["reason"] == "write_exams was the last stage that calls it"


def idle_for(served, seconds):
    return served[0].model_copy(update={"idle": seconds}), *served[1:]


@contextmanager
def stage(servers: RunServers, served) -> Iterator[list[str]]:
    """Hold a model as a stage does, whose process ends with the block."""
    model, identity, weights = served
    request = {"served": model.model_dump(mode="json"), "identity": identity, "weights": weights}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(servers.environment()[SOCKET_ENV])
        connection.sendall(json.dumps(request).encode() + b"\n")
        yield json.loads(connection.makefile("rb").readline())["urls"]


def test_an_idle_server_stops_between_two_stages_and_starts_with_the_next(tmp_path, vllm, served):
    stopped = threading.Event()

    def say(line):
        if "stopped" in line:
            stopped.set()

    served = idle_for(served, 0)
    with RunServers(tmp_path, {"captioner": ["audit", "train_rlr3"]}, say) as servers:
        with stage(servers, served), stage(servers, served) as urls:
            assert ask(served[0], urls) == {"a red house"}
        servers.stage_ended("audit")
        assert stopped.wait(60)
        assert vllm.left() == []
        with stage(servers, served) as urls:
            assert ask(served[0], urls) == {"a red house"}
        servers.stage_ended("train_rlr3")
    assert [event["event"] for event in events(tmp_path)] == ["ready", "stopped", "ready", "stopped"]
    assert events(tmp_path)[1]["reason"] == "no stage called it for 0 s"
    assert vllm.left() == []


@pytest.mark.parametrize("seconds", [None, 3600])
def test_a_server_stays_between_two_stages_unless_it_is_idle_for_longer(tmp_path, vllm, served, seconds):
    served = idle_for(served, seconds)
    with RunServers(tmp_path, {"captioner": ["audit", "train_rlr3"]}) as servers:
        for name in ("audit", "train_rlr3"):
            with stage(servers, served) as urls:
                assert ask(served[0], urls) == {"a red house"}
            servers.stage_ended(name)
    assert len(vllm.starts) == 1
    assert vllm.left() == []


def test_a_failed_start_reaches_the_stage_through_the_run(tmp_path, vllm, served, monkeypatch):
    broken = served[0].model_copy(update={"arguments": {"misbehave": "exit"}})
    with RunServers(tmp_path) as servers:
        monkeypatch.setenv(SOCKET_ENV, servers.environment()[SOCKET_ENV])
        with pytest.raises(UserError, match="no room for the KV cache"):
            ask_run(broken, *served[1:], print)
        assert ask_run(*served, print).urls


def test_a_killed_server_is_started_again_and_its_calls_wait_for_it(tmp_path, vllm, served):
    with LocalServers(tmp_path) as servers:
        urls = servers.serve(*served).urls
        assert ask(served[0], urls) == {"a red house"}
        first = psutil.Process(vllm.starts[0][0])
        first.kill()
        psutil.wait_procs([first])
        assert ask(served[0], urls, count=3) == {"a red house"}
        assert len(vllm.starts) == 2
        assert vllm.starts[0][0] not in {os.getpgid(pid) for pid in vllm.left()}
    assert [event["event"] for event in events(tmp_path)] == ["ready", "restarted", "stopped"]
    assert vllm.left() == []


def test_a_server_that_never_stays_is_lost_and_its_calls_fail_at_once(tmp_path, vllm, served):
    lost = threading.Event()
    reasons = []
    with LocalServers(tmp_path, on_lost=lambda *reason: (reasons.append(reason), lost.set())) as servers:
        servers.serve(*served)
        (tmp_path / "model" / "model.safetensors").unlink()  # what comes next ends at once
        os.kill(vllm.starts[0][0], signal.SIGKILL)
        assert lost.wait(120)
    assert reasons[0][0] == "captioner"
    assert "ended before it was ready" in reasons[0][1]
    assert vllm.left() == []


def test_replicas_share_the_calls(tmp_path, vllm, served):
    both = served[0].model_copy(update={"replicas": 2})
    with LocalServers(tmp_path) as servers:
        urls = servers.serve(both, *served[1:]).urls
        assert len(set(urls)) == 2
        ask(both, urls, count=16)
    assert len(set(vllm.chats)) == 2


_PROGRAM = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from rubricworks.llm.served import ServedModel
    from rubricworks.runtime.serving.identity import ServedIdentity, Weights
    from rubricworks.runtime.serving.run_socket import RunServers
    model, run = sys.argv[1:]
    with RunServers(Path(run)) as servers:
        served = ServedModel(name="captioner", model=model)
        servers._servers.serve(served, ServedIdentity("sha256:1", "vllm", "0.30.0", ""), Weights(model, "sha256:1"))
        print("ready", flush=True)
        time.sleep(3600)
""")


@pytest.mark.parametrize("victim", ["run", "guard", "server"])
def test_a_kill_of_any_process_leaves_none_once_the_run_ends(tmp_path, vllm, served, victim):
    command = [sys.executable, "-c", _PROGRAM, served[2].place, str(tmp_path)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "ready\n"
    process = psutil.Process(run.pid)
    guards = [child for child in process.children() if "guard.py" in " ".join(child.cmdline())]
    if victim == "guard":
        assert guards
        for guard in guards:
            guard.kill()
    elif victim == "server":
        os.kill(vllm.starts[0][0], signal.SIGKILL)
    run.send_signal(signal.SIGKILL if victim == "run" else signal.SIGINT)
    run.wait()
    _, left = psutil.wait_procs(guards, timeout=60)
    assert left == []
    assert vllm.left() == []


def test_weights_larger_than_memory_are_refused_before_a_server_starts(tmp_path, vllm, served):
    with (tmp_path / "model" / "huge.safetensors").open("wb") as weights:
        weights.truncate(1 << 43)  # sparse
    with LocalServers(tmp_path) as servers, pytest.raises(UserError, match=r"its weights take 8192\.0 GiB") as caught:
        servers.serve(*served)
    assert "\n" not in str(caught.value)
    assert vllm.starts == []


def test_accelerators_that_the_machine_lacks_are_refused(tmp_path, vllm, served, monkeypatch):
    smi = vllm.folder / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '0, 81000\\n1, 81000\\n'\n")
    smi.chmod(0o755)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with LocalServers(tmp_path) as servers:
        with pytest.raises(
            UserError, match=r"serve\.captioner\.accelerators: 1 x 3 are needed, and 2 of this machine's 2"
        ):
            servers.serve(served[0].model_copy(update={"accelerators": 3}), *served[1:])
        place = servers.serve(served[0].model_copy(update={"accelerators": 1}), *served[1:])
        assert place.devices == ["0"]
        assert servers.environment() == {"CUDA_VISIBLE_DEVICES": "0"}
    assert servers.environment() == {}


@contextmanager
def other_program(port: int = 0) -> Iterator[int]:
    """A program of somebody else's, which answers 501 on its port."""
    with ThreadingHTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_port_that_another_program_takes_first_is_left_for_a_free_one(tmp_path, vllm, served, monkeypatch):
    with other_program() as taken, LocalServers(tmp_path) as servers:
        ports, free_port = [taken], local_server._free_port
        monkeypatch.setattr(local_server, "_free_port", lambda: ports.pop() if ports else free_port())
        urls = servers.serve(*served).urls
        assert ask(served[0], urls) == {"a red house"}
        assert len(vllm.starts) == 2
    assert vllm.left() == []


def test_ports_that_are_all_taken_are_one_line_and_nothing_is_left(tmp_path, vllm, served, monkeypatch):
    with other_program() as taken, LocalServers(tmp_path) as servers:
        monkeypatch.setattr(local_server, "_free_port", lambda: taken)
        with pytest.raises(UserError, match=r"captioner \(vllm, 0\.30\.0\) finds no free port; its log: \S+$"):
            servers.serve(*served)
    assert vllm.left() == []


def test_a_server_whose_port_is_taken_while_it_is_down_does_not_move(tmp_path, vllm, served):
    """Its calls go to that port."""
    model, identity, weights = served
    server = LocalServer(model, identity, weights.place, tmp_path / "log", None)
    server.start()
    port = int(server.url.rpartition(":")[2])
    server.end()
    problem = rf"captioner \(vllm, 0\.30\.0\): port {port} was taken while it was down; resume the run$"
    with other_program(port), pytest.raises(UserError, match=problem):
        server.start()
    assert vllm.left() == []
