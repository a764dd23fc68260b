"""A checklist of both paths for the tests of its execution, and a scorer's answer to it."""

import asyncio
import json

from rubricworks.data.tables import Sample
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rubrics import Checklist

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
SAMPLE = Sample(sample_id="s1", image=PNG, prompt="Answer step by step.", question="How many red cups are there?")
RUBRIC = Checklist.model_validate(
    {
        "essential": [
            {"criterion": "Gives the number of cups.", "reference": "expr_verify(target='4')", "weight": 3},
            {"criterion": "Says what the cups are for.", "reference": "for tea", "weight": 2},
        ],
        "additional": [
            {"criterion": "Boxes the first cup.", "reference": "bbox_verify(target=[[0, 0, 10, 10]])", "weight": 1}
        ],
    }
).rubric()
CREDITS = ("expr_verify(predict='4')", 1, "bbox_verify(predict=[[0, 0, 10, 5]])")


def scoring(*credits, rubric=RUBRIC, **changes):
    """A scorer's JSON: these credits by position."""
    items = [
        {"criterion": criterion.criterion, "rationale": f"because {number}", "credit": credit}
        for number, (criterion, credit) in enumerate(zip(rubric.criteria, credits, strict=True), start=1)
    ]
    lists = {
        name: [item for item, essential in zip(items, rubric.essential, strict=True) if essential is is_essential]
        for name, is_essential in (("essential", True), ("additional", False))
    }
    return json.dumps({"thought": "t", **lists, **changes})


def grade(*urls, response="There are four.", rubric=RUBRIC, sample=SAMPLE, **options):
    """The scorecard of these judges."""

    async def run():
        clients = [ChatClient(Endpoint(url=url, model=f"m{n}"), attempts=1) for n, url in enumerate(urls)]
        try:
            return await Grader(clients, **options).grade(sample, response, rubric)
        finally:
            for client in clients:
                await client.close()

    return asyncio.run(run())


def message_text(body):
    """All text that a request shows, system message included."""
    texts = []
    for message in body["messages"]:
        parts = message["content"]
        texts += [parts] if isinstance(parts, str) else [part["text"] for part in parts if part["type"] == "text"]
    return "\n".join(texts)


def checklist_in(body):
    return json.loads(message_text(body).split("<checklist>\n")[1].split("\n</checklist>")[0])
