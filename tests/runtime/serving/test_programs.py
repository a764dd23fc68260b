"""Programs of a user's own that a run serves: a detector as a child process, and on a cluster its image."""

import asyncio
import json
import os
import signal
import sys
import textwrap
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest
from coloured_squares import square
from pydantic import ValidationError

from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.images.geneval import GenevalScorer
from rubricworks.evaluation.scorers.scorer import Item, ScoringContext
from rubricworks.llm.served import EVENTS_FILE, ServedDefinition, ServedModel
from rubricworks.rubrics import Response
from rubricworks.runtime.serving.identity import served_identity, served_weights
from rubricworks.runtime.serving.local_servers import LocalServers

DETECTOR = textwrap.dedent("""
    import json, sys, time
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    host, port, behaviour = sys.argv[1:]
    if behaviour == "never":
        time.sleep(3600)
    if behaviour == "ends":
        sys.exit("ValueError: no such detector")
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_): pass
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"detections": {"dog": [{"box": [0, 0, 9, 9, 0.99], "color": "brown"}]}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        if behaviour == "500":
            def do_GET(self):
                self.send_error(500, "no weights")
    ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
""")


@pytest.fixture
def detector(tmp_path):
    """Write the program, and return its definition."""

    def define(behaviour: str = "works", **options) -> ServedModel:
        program = tmp_path / "detector.py"
        program.write_text(DETECTOR)
        command = ("python", str(program), "{host}", "{port}", behaviour)
        return ServedModel(name="detector", command=command, **options)

    return define


def serve(servers: LocalServers, served: ServedModel) -> list[str]:
    weights = served_weights(served, {})
    return servers.serve(served, served_identity(served, weights), weights).urls


def processes(program: Path) -> list[int]:
    return [
        process.pid for process in psutil.process_iter(["cmdline"]) if str(program) in (process.info["cmdline"] or [])
    ]


async def geneval_of_a_dog(scorer: GenevalScorer) -> list[float | None]:
    async with AsyncExitStack() as stack:
        score = await scorer.open(ScoringContext(stack, None, None, None))
        answer = json.dumps({"tag": "single_object", "include": [{"class": "dog", "count": 1}]})
        sample = Sample(sample_id="s", prompt="a dog", answer=answer)
        image = Response.of_image(square("top-left", "red"))
        return [part.value for part in await score(Item(sample, image))]


def test_geneval_asks_the_detector_that_the_run_serves_and_nothing_is_left(tmp_path, detector, monkeypatch):
    served = detector()
    scorer = GenevalScorer.model_validate({"serve": served})
    with LocalServers(tmp_path) as servers:
        [url] = serve(servers, served)
        monkeypatch.setenv(served.variables[0], url)
        assert asyncio.run(geneval_of_a_dog(scorer)) == [1.0]
        [pid] = processes(tmp_path / "detector.py")
        os.kill(pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [])
    assert processes(tmp_path / "detector.py") == []
    first = json.loads((tmp_path / EVENTS_FILE).read_text().splitlines()[0])
    assert (first["event"], first["name"]) == ("ready", "detector")


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("ends", r"detector \(program\) ended before it was ready \(exit code 1\): ValueError: no such detector"),
        ("never", r"detector \(program\) was not ready within 0\.5 s; allow more \(serve\.detector\.start_within\)"),
        ("500", r"detector \(program\) answers 500 to a first request: "),
    ],
)
def test_a_program_that_does_not_come_up_is_one_line_and_leaves_nothing(tmp_path, detector, behaviour, message):
    served = detector(behaviour, start_within=0.5 if behaviour == "never" else 60)
    with LocalServers(tmp_path) as servers, pytest.raises(UserError, match=message) as refusal:
        serve(servers, served)
    assert "\n" not in str(refusal.value)
    assert processes(tmp_path / "detector.py") == []


def test_a_program_that_is_not_there_is_named(tmp_path):
    served = ServedModel(name="detector", command=("no-such-program", "{port}"))
    with (
        LocalServers(tmp_path) as servers,
        pytest.raises(UserError, match=r"serve\.detector: no-such-program cannot be run: No such file or directory"),
    ):
        serve(servers, served)


def test_identity_changes_with_the_words_and_with_the_files_that_they_name(tmp_path, detector):
    def identity(served):
        return str(served_identity(served, served_weights(served, {})))

    first, other_words = identity(detector()), identity(detector("500"))
    (tmp_path / "detector.py").write_text(DETECTOR + "# edited")
    edited = ServedModel(name="detector", command=detector().command)
    (tmp_path / "detector.py").write_text(DETECTOR + "# edited")
    assert len({first, other_words, identity(edited)}) == 3
    assert first.endswith(" program")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "set model, or command for a program of your own"),
        ({"command": ["python", "x.py"]}, r"no word holds \{port\}"),
        ({"command": ["x", "{port}"], "model": "./m"}, "model: a command has none"),
        ({"command": ["x", "{port}"], "engine": "vllm"}, "engine: a command has none"),
        ({"command": ["x", "{port}"], "arguments": {"seed": 1}}, "arguments: a command has none"),
        ({"model": "./m", "image": "i"}, r"image: it is that of a command"),
        ({"model": "./m", "engine": "generate", "sleep": True}, "sleep: only vLLM has a sleep mode"),
        ({"model": "./m", "accelerators": 1, "sleep": True}, "sleep: a model with accelerators of its own frees none"),
        (
            {"model": "./m", "arguments": {"enable-sleep-mode": True}},
            "enable-sleep-mode cannot be set here: set `sleep`",
        ),
    ],
)
def test_fields_that_do_not_go_together_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        ServedDefinition.model_validate(fields)


def test_an_address_of_its_own_beside_the_name_is_refused(detector):
    with pytest.raises(ValidationError, match="url: it follows from `serve`"):
        GenevalScorer.model_validate({"serve": detector(), "url": "http://elsewhere"})
    with pytest.raises(ValidationError, match=r"serve\.detector\.replicas: only endpoints of chat models share load"):
        GenevalScorer.model_validate({"serve": detector(replicas=2)})


def test_the_python_of_this_project_runs_a_python_program(tmp_path, detector):
    with LocalServers(tmp_path) as servers:
        serve(servers, detector())
        [pid] = processes(tmp_path / "detector.py")
        assert psutil.Process(pid).cmdline()[0] == sys.executable
