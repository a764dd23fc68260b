"""A caption, its reference, and what judges of assertions say of them."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

from scripted_server import ScriptedServer

from rubricworks.grading import AssertionGrader, GradedCaption
from rubricworks.llm import ChatClient, Endpoint

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
CAPTION = "A silver hubcap shines on a red car, which adds depth to the picture. A man in a hat waits at the left."
REFERENCE = "A red car with silver hubcaps is parked. A man stands at the left."
OF_CAPTION = (
    ("There is a silver hubcap", True),
    ("The car is red", True),
    ("The hubcap adds depth to the picture", False),
    ("A man waits at the left", True),
    ("The man wears a hat", False),
)
OF_REFERENCE = (("There is a red car", True), ("The hubcaps are silver", True), ("A man stands at the left", False))

Marked = tuple[tuple[str, Any], ...]


def assessment(
    of_caption: Marked = OF_CAPTION, of_reference: Marked = OF_REFERENCE, ratings: tuple[Any, ...] = (10, 7, 4)
) -> dict[str, Any]:
    """Answer of a judge to one call."""
    clarity, flow, coherency = ratings
    return {
        "synthetic_features": {
            "atomic_assertions": [{"text": text, "is_verified": mark} for text, mark in of_caption],
            "clarity_score": clarity,
            "fluency_score": flow,
            "coherency_score": coherency,
            "linguistic_scores_explanation": "reads well",
        },
        "gt_features": {"atomic_assertions": [{"text": text, "is_covered": mark} for text, mark in of_reference]},
    }


def decomposition(of_caption: Marked = OF_CAPTION, of_reference: Marked = OF_REFERENCE) -> dict[str, Any]:
    """The same from text alone."""
    answer = assessment(of_caption, of_reference)
    for assertion in answer["synthetic_features"]["atomic_assertions"]:
        del assertion["is_verified"]
    return answer


def verification(marked: Marked) -> dict[str, Any]:
    return {
        "assertions": [{"id": n, "text": text, "is_verified": mark} for n, (text, mark) in enumerate(marked, start=1)]
    }


def grade(
    judge: ScriptedServer,
    verifier: ScriptedServer | None = None,
    *,
    image: bytes = PNG,
    caption: str = CAPTION,
    reference: str = REFERENCE,
    **options: Any,
) -> GradedCaption:
    """One caption graded over HTTP; the judge is called `judge`, the verifier `eye`."""

    async def run() -> GradedCaption:
        async with AsyncExitStack() as stack:
            judging, *looking = [
                await stack.enter_async_context(ChatClient(Endpoint(url=server.url, model=model), attempts=1))
                for server, model in ((judge, "judge"), (verifier, "eye"))
                if server is not None
            ]
            grader = AssertionGrader(judging, verifier=looking[0] if looking else None, **options)
            return await grader.grade("s1", image, caption, reference)

    return asyncio.run(run())


def system_of(body: dict[str, Any]) -> str:
    return body["messages"][0]["content"]


def text_of(body: dict[str, Any]) -> str:
    user = body["messages"][1]["content"]
    return user if isinstance(user, str) else user[-1]["text"]


def shows_image(body: dict[str, Any]) -> bool:
    return "image_url" in json.dumps(body["messages"])
