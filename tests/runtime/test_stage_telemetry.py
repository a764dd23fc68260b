"""A stage that is watched: its metrics page while it runs, its spans, and a port that another stage holds."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from PIL import Image
from scripted_server import Said, say

PROGRAM = """
import json, sys
from rubricworks.errors import UserError
from rubricworks.runtime.launch import launch
images, run, url = sys.argv[1:]
try:
    samples = launch("prepare", json.dumps({"source": images, "held_out": 1}), run, {})
    teachers = [{"url": url, "model": "m", "prices": [1.0, 0.0]}]
    launch("caption_committee", json.dumps({"teachers": teachers}), run, {"samples": samples})
except UserError as error:
    sys.exit(f"error: {error}")
"""


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def launch_stages(tmp_path, serve):
    """Two stages in one process, the second of which asks a model four times."""
    (tmp_path / "images").mkdir()
    for number in range(4):
        Image.new("RGB", (32, 24), (40 * number, 80, 120)).save(tmp_path / "images" / f"{number}.png")

    def run(script, **environment: str) -> subprocess.CompletedProcess[str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "RUBRICWORKS_"))
        }
        arguments = [sys.executable, "-c", PROGRAM, str(tmp_path / "images"), str(tmp_path / "run"), serve(script).url]
        return subprocess.run(arguments, capture_output=True, text=True, env=inherited | environment, timeout=600)

    return run


@pytest.mark.slow
def test_a_stage_can_be_scraped_while_it_asks(launch_stages, port):
    pages: list[str] = []

    def script(*_) -> Said:
        pages.append(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120).read().decode())
        return say("a wall")

    done = launch_stages(script, RUBRICWORKS_METRICS_PORT=str(port))
    assert (done.returncode, "metrics" in done.stderr) == (0, False), done.stderr
    assert len(pages) == 4
    assert 'rubricworks_chat_in_flight{endpoint="http://127.0.0.1:' in pages[0]
    assert 'rubricworks_chat_calls_total{model="m",purpose="' in pages[0]


@pytest.mark.slow
def test_a_port_that_another_process_holds_does_not_fail_a_run(launch_stages, tmp_path, port):
    with socket.create_server(("127.0.0.1", port)):
        done = launch_stages([say("a wall")], RUBRICWORKS_METRICS_PORT=str(port))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "metrics" in line] == [
        f"no metrics page: port {port} is taken, maybe by another run; choose another RUBRICWORKS_METRICS_PORT"
    ]
    assert (tmp_path / "run" / "caption_committee" / "done.json").exists()


@pytest.mark.slow
def test_a_port_that_is_none_is_said_before_anything_is_asked(launch_stages, tmp_path):
    done = launch_stages([say("a wall")], RUBRICWORKS_METRICS_PORT="http")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: RUBRICWORKS_METRICS_PORT is 'http'")
    error = json.loads(Path(tmp_path / "run" / "error.json").read_text())
    assert (error["stage"], "traceback" in error) == ("prepare", False)


@pytest.mark.slow
def test_a_collector_that_is_away_does_not_fail_a_run(launch_stages):
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    done = launch_stages([say("a wall")], **away)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert done.stderr.count("Failed to export") == 1
