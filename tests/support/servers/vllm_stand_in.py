"""Program in place of `vllm`: an HTTP server that answers with the content of its model's weights file.

`serve MODEL --misbehave 500|never|exit|400` acts as a broken server does. Every chat is a line in `$CHATS`, and every
start a line in `$STARTS`, so that a test knows how often a model was asked and started.
"""

import sys
from pathlib import Path

_PROGRAM = """#!{python}
import json, os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
words = [word for word in sys.argv if word != "--enable-sleep-mode"]
options = dict(zip(words[3::2], words[4::2]))
misbehave = options.get("--misbehave")
with open(os.environ["STARTS"], "a") as starts:
    starts.write(json.dumps([os.getpid(), *sys.argv[1:]]) + "\\n")
if misbehave == "exit":
    print("(EngineCore pid=7) ERROR: ValueError: no room for the KV cache", file=sys.stderr)
    print("RuntimeError: engine failed", file=sys.stderr)
    sys.exit(1)
child = os.fork()  # as vLLM's engine is
if child == 0:
    time.sleep(3600)
answer = (Path(sys.argv[2]) / "model.safetensors").read_text()
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.reply(503 if misbehave == "never" else 200, {{}})
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if misbehave in ("500", "400"):
            return self.reply(int(misbehave), {{"error": {{"message": "no chat template"}}}})
        if request["messages"][-1]["content"] != "ping":
            with open(os.environ["CHATS"], "a") as chats:
                chats.write(f"{{os.getpid()}}\\n")
        choice = {{"index": 0, "message": {{"role": "assistant", "content": answer}}, "finish_reason": "stop"}}
        usage = {{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        self.reply(200, {{"id": "1", "object": "chat.completion", "created": 1, "model": options["--served-model-name"],
                        "choices": [choice], "usage": usage}})
ThreadingHTTPServer(("127.0.0.1", int(options["--port"])), Handler).serve_forever()
"""


def install(folder: Path, version: str = "0.30.0") -> Path:
    """Write the program, and the Python beside it that tells its version; return the folder for the path."""
    folder.mkdir(parents=True, exist_ok=True)
    program, python = folder / "vllm", folder / "python3"
    program.write_text(_PROGRAM.format(python=sys.executable))
    python.write_text(f"#!/bin/sh\necho {version}\n")
    for path in (program, python):
        path.chmod(0o755)
    return folder


def model_folder(folder: Path, answer: str) -> Path:
    """Model whose every answer is this text."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text(answer)
    return folder
