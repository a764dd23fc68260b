"""Models that answer well, as the script of a `ScriptedServer`: they look at the pixels and read the prompts.

`captioner-3` is a bad one: it always says "square" and "sharp". The writer proposes criteria for everything that any
candidate says, so that whatever must not stand in a rubric has to be dropped by the library.
"""

import base64
import json
import re
from typing import Any

from photographs import look_at
from scripted_server import Said, fail, say

CAPTIONERS = ("captioner-1", "captioner-2", "captioner-3")
WEIGHTS = {"colour": 3, "shape": 2, "kind": 1}
"""Of the three criteria that a good rubric has here."""


class StubModels:
    """Callable as a server's script; `judge_answers` turns the judge into one that writes prose."""

    def __init__(self) -> None:
        self.judge_answers: str | None = None

    def __call__(self, _: int, body: dict[str, Any]) -> Said:
        if not body:
            names = (*CAPTIONERS, "writer", "judge", "pairwise")
            return Said(json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode())
        text, image = _read(body["messages"])
        model = body["model"]
        if model in CAPTIONERS:
            return say(_caption(model, *look_at(image)))
        if model == "writer":
            return say(json.dumps({"rubrics": _criteria(text, *look_at(image))}))
        if model == "judge":
            return say(self.judge_answers or json.dumps({"verdicts": _verdicts(text)}))
        if model == "pairwise":
            return say(json.dumps(_comparison(text, *look_at(image))))
        return fail(404, f"no model {model}")


class OneModel:
    """All of them behind one name: what is asked tells who is meant."""

    name = "our-model"

    def __init__(self) -> None:
        self.prompts: list[str] = []
        """Texts of the requests for captions."""
        self._models = StubModels()

    def __call__(self, number: int, body: dict[str, Any]) -> Said:
        if not body:
            return Said(json.dumps({"object": "list", "data": [{"id": self.name}]}).encode())
        if body["model"] != self.name:
            return fail(404, f"no model {body['model']}")
        text, _ = _read(body["messages"])
        tags = {"criteria": "judge", "caption_a": "pairwise", "candidate": "writer"}
        role = next((role for tag, role in tags.items() if _blocks(tag, text)), CAPTIONERS[0])
        if role == CAPTIONERS[0]:
            self.prompts.append(text)
        return self._models(number, {**body, "model": role})


def points(caption: str, colour: str, shape: str) -> dict[str, bool]:
    """Facts that a caption states, of the three, by whole words."""
    words = caption.split()
    return {"colour": colour in words, "shape": shape in words, "kind": "photograph" in words}


def _caption(model: str, colour: str, shape: str) -> str:
    return f"a {colour} square photograph , sharp" if model == "captioner-3" else f"a {colour} {shape} photograph"


def _read(messages: list[dict[str, Any]]) -> tuple[str, bytes]:
    """The user's text and image, the first of each."""
    content = next(message["content"] for message in messages if message["role"] == "user")
    if isinstance(content, str):
        return content, b""
    texts = [part["text"] for part in content if part["type"] == "text"]
    images = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    return texts[0], base64.b64decode(images[0].partition("base64,")[2])


def _blocks(tag: str, text: str) -> list[str]:
    return [block.strip() for block in re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", text, re.DOTALL)]


def _criteria(text: str, colour: str, shape: str) -> list[dict[str, Any]]:
    candidates, student = _blocks("candidate", text), _blocks("student_caption", text)

    def criterion(title: str, word: str, weight: int) -> dict[str, Any]:
        return {
            "criterion": title,
            "description": f"the caption should say {word}",
            "evaluation_rule": f"passes if the caption says '{word}'; fails if not",
            "weight": weight,
            "justification": "it is plain to see",
            "student_already_met": all(word in caption.split() for caption in student),
            "reference_teachers": [f"Model {n}" for n, text in enumerate(candidates, 1) if word in text.split()],
            "teacher_consensus": word,
        }

    return [
        criterion("colour", colour, WEIGHTS["colour"]),
        criterion("shape", shape, WEIGHTS["shape"]),
        criterion("kind", "photograph", WEIGHTS["kind"]),
        criterion("Colour!", colour, 3),
        criterion("sharpness", "sharp", 2),
        criterion("article", "a", 7),
    ]


def _verdicts(text: str) -> list[dict[str, Any]]:
    (listed,), (caption,) = _blocks("criteria", text), _blocks("caption", text)
    verdicts = []
    for criterion in json.loads(listed):
        word = criterion["evaluation_rule"].split("'")[1]
        is_met = word in caption.split()
        verdicts.append({"id": criterion["id"], "reasoning": f"{word}: {is_met}", "score": int(is_met)})
    return verdicts


def _comparison(text: str, colour: str, shape: str) -> dict[str, str]:
    (first,), (second,) = _blocks("caption_a", text), _blocks("caption_b", text)
    a, b = (sum(points(caption, colour, shape).values()) for caption in (first, second))
    return {"reason": f"{a} facts against {b}", "judgment": "A" if a > b else "B" if b > a else "Tie"}
