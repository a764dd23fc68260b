"""A judge that fails as it is told to: OpenAI's protocol on loopback, answering or failing by what a request shows."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Fault(StrEnum):
    """A judge's failure."""

    ERROR = "error"
    SILENT = "silent"
    DROPS = "drops"
    EMPTY = "empty"
    REFUSES = "refuses"
    CUT = "cut"


STORIES = {
    Fault.ERROR: "the judge answers HTTP 500",
    Fault.SILENT: "the judge takes the request and never answers",
    Fault.DROPS: "the judge breaks the connection in the middle of its answer",
    Fault.EMPTY: "the judge's answer is empty",
    Fault.REFUSES: "the judge apologises, and gives no verdict",
    Fault.CUT: "the judge's answer ends in the middle, at its token limit",
}
_REFUSAL = "I'm sorry, but I can't help with that."


class BadJudge:
    """Behaviour of the server; the suite changes it from case to case."""

    def __init__(self, answer: str | None) -> None:
        """
        Args:
            answer: text of a good answer.
        """
        self.answer = answer
        self.fault: Fault | None = None
        self.marks: tuple[str, ...] = ()
        """A request that shows one of these meets the fault."""
        self.asked = 0
        self.freed = threading.Event()
        """Set when silent requests may end."""
        self.url = ""

    def begin(self, fault: Fault | None, marks: tuple[str, ...]) -> None:
        """Start a case."""
        self.freed.set()
        self.fault, self.marks, self.asked, self.freed = fault, marks, 0, threading.Event()

    def fails(self, request: str) -> Fault | None:
        """Fault that a request meets, if any."""
        self.asked += 1
        return self.fault if any(mark in request for mark in self.marks) else None


@contextmanager
def serve_bad_judge(answer: str | None) -> Iterator[BadJudge]:
    """Serve a judge at `url`, without faults at first."""
    judge = BadJudge(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._send(200, {"object": "list", "data": [{"id": "judge", "object": "model"}]})

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
            self.close_connection = True
            match judge.fails(text):
                case Fault.ERROR:
                    self._send(500, {"error": {"message": "the judge is down", "type": "server_error"}})
                case Fault.SILENT:
                    judge.freed.wait()
                case Fault.DROPS:
                    self.wfile.write(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
                    )
                case Fault.EMPTY:
                    self._say("")
                case Fault.REFUSES:
                    self._say(_REFUSAL)
                case Fault.CUT:
                    good = judge.answer or ""
                    self._say(good[: len(good) // 2], finish="length")
                case None:
                    self._say(judge.answer or "")

        def _say(self, text: str, finish: str = "stop") -> None:
            message = {"role": "assistant", "content": text, "refusal": None}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            choices = [{"index": 0, "message": message, "finish_reason": finish}]
            body = {"id": "1", "object": "chat.completion", "created": 0, "model": "judge", "choices": choices}
            self._send(200, {**body, "usage": usage})

        def _send(self, status: int, body: dict[str, object]) -> None:
            encoded = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, format: str, *arguments: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    judge.url = f"http://127.0.0.1:{server.server_port}/v1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield judge
    finally:
        judge.freed.set()
        server.shutdown()
        server.server_close()
