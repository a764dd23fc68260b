"""Checklists as models write them, from servers that say what a test tells them to, and a writer that asks those."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from scripted_server import Said, ScriptedServer, say

from rubricworks.data.tables import Sample
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.synthesis import ChecklistResult, ChecklistWriter

ANSWER = {
    "criterion": "The final answer gives the number of birds.",
    "reference": "expr_verify(target='3')",
    "weight": 3,
}
WRONG = {
    "criterion": "The final answer gives the number of nests.",
    "reference": "expr_verify(target='5')",
    "weight": 3,
}
STEP = {"criterion": "The response names the bird.", "reference": "a heron", "weight": 1}
THREE = ("one", "two", "three")

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
SAMPLE = Sample(sample_id="s1", image=PNG, question="how many birds are there ?", answer="3", task="count")
VERIFIERS = {"count": ("expr_verify",), "document": ("text_verify", "list_verify")}


def checklist(*essential: Any, additional: Any = ()) -> str:
    """A writer's whole answer."""
    return json.dumps({"essential": list(essential), "additional": list(additional)})


def scoring(*items: tuple[str, Any]) -> str:
    """A scorer's whole answer: criterion and credit of the essential items."""
    scored = [{"criterion": text, "rationale": "r", "credit": credit} for text, credit in items]
    return json.dumps({"thought": "t", "essential": scored, "additional": []})


def models(answers: dict[str, Any]) -> Callable[[int, dict[str, Any]], Said]:
    """Model → what it says: a text, one text a turn, an HTTP answer, or a function of the user's words."""
    turns: dict[str, int] = {}

    def script(_: int, body: dict[str, Any]) -> Said:
        answer = answers[body["model"]]
        if isinstance(answer, list):
            turn = turns[body["model"]] = turns.get(body["model"], -1) + 1
            answer = answer[min(turn, len(answer) - 1)]
        if callable(answer):
            answer = answer(_words(body))
        return say(answer, tokens=(100, 10)) if isinstance(answer, str) else answer

    return script


def write(
    server: ScriptedServer,
    sample: Sample = SAMPLE,
    teachers: Sequence[str] = THREE,
    merger: str | None = "merger",
    examiner: Any = None,
    **options: Any,
) -> ChecklistResult:
    """Write a checklist for a sample with models of this server; an examiner is a model's name, or a grader."""

    async def run() -> ChecklistResult:
        async with AsyncExitStack() as stack:

            async def client(model: str) -> ChatClient:
                return await stack.enter_async_context(ChatClient(server.url, model, attempts=1))

            judge = Grader(await client(examiner)) if isinstance(examiner, str) else examiner
            writer = ChecklistWriter(
                [await client(teacher) for teacher in teachers],
                await client(merger) if merger else None,
                examiner=judge,
                **{"verifiers": VERIFIERS, **options},
            )
            return await writer.write(sample)

    return asyncio.run(run())


def titles(result: ChecklistResult) -> list[str]:
    assert result.rubric is not None
    return [criterion.criterion for criterion in result.rubric.criteria]


def _words(body: dict[str, Any]) -> str:
    content = body["messages"][1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]
