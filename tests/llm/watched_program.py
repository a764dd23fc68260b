"""Programs that make calls, and can be looked at between their steps."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from scripted_server import Said, fail, say

PROGRAM = """
import asyncio, gc, json, os, sys
from pathlib import Path
from pydantic import BaseModel
from rubricworks.llm import ChatClient, ChatError, Endpoint, telemetry

class Answer(BaseModel):
    n: int

def step():
    print("waiting", flush=True)
    sys.stdin.readline()

async def ask(client, *questions):
    for text in questions:
        try:
            await client.chat([{"role": "user", "content": text}], Answer)
        except ChatError as error:
            assert text.startswith(error.error_class.value), (text, error)

telemetry.start_from_environment()
telemetry.start_from_environment()
"""

CALLS = """
def client(purpose, price=0.0, cache=None, key=None):
    endpoint = Endpoint(url=sys.argv[1], model="m", prices=(price, 0.0), api_key_env=key)
    return ChatClient(endpoint, purpose=purpose, cache=cache, attempts=2)

async def main():
    judge = client("judge", 2.0, Path(sys.argv[2]), key="SECRET_KEY")
    await ask(judge, "good 1", "good 2", "good 1", "good 1", "malformed", "refused", "transport", "truncated")
    step()
    writer, another = client("writer", 1.0), client("judge", 2.0)
    await ask(writer, "good 1")
    await ask(another, "good 1", "patience")
    step()
    for closed in (judge, writer):
        await closed.close()
    del closed, judge, writer
    gc.collect()
    step()
    await ask(another, "good 9", "transport")
    await another.close()

asyncio.run(main())
step()
"""

SAID = {"good": say('{"n": 1}', tokens=(100, 10)), "malformed": say("said-in-prose", tokens=(50, 5)),
        "refused": say(None, refusal="said-no", tokens=(30, 3)), "transport": fail(400, "said-bad-request asked-this"),
        "truncated": say('{"n"', finish="length", tokens=(20, 1024))}  # fmt: skip


def script() -> Callable[[int, dict[str, Any]], Said]:
    turned_away = iter([fail(429, "slow", Retry_After="0"), fail(429, "slow", Retry_After="0")])

    def answer(_: int, body: dict[str, Any]) -> Said:
        question = body["messages"][0]["content"].split()[0]
        if question == "patience":
            return next(turned_away, SAID["good"])
        return SAID[question]

    return answer


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "RUBRICWORKS_"))}


class Program:
    """A process that stops between its steps."""

    def __init__(self, code: str, *arguments: object, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM + code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean() | environment,
        )

    def reach_next_step(self) -> None:
        line = self.process.stdout.readline()
        assert line == "waiting\n", self.process.communicate(timeout=300)

    def go_on(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Its standard error."""
        out, err = self.process.communicate(input="\n", timeout=600)
        assert self.process.returncode == 0, (out, err)
        return err


_LABELS = ("purpose", "model", "endpoint", "class", "kind")


def scrape(port: int) -> dict[tuple[str, ...], float]:
    """Values by metric and its labels' values, in the order of _LABELS."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    return {
        (
            sample.name.removeprefix("rubricworks_chat_"),
            *(sample.labels[name] for name in _LABELS if name in sample.labels),
        ): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("rubricworks_chat_")
    }
