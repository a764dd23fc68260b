"""A judge that knows every verdict, behind a server that answers some requests wrongly and remembers which."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from judge_faults import FAULTS, text_of
from scripted_server import Said, fail, say

from rubricworks.rubrics import ErrorClass

GOOD = "good"
PATIENCE = "HTTP 429"


class Call(NamedTuple):
    """Content of a call, the same in every repair turn."""

    model: str
    caption: str
    titles: tuple[str, ...]


def truth(model: str, caption: str, title: str) -> int:
    """The verdict of this judge."""
    return hashlib.sha256(f"{model}|{caption}|{title}".encode()).digest()[0] % 2


class FaultyJudge:
    """The script of a server; `pick` names what comes of a call's n-th request, from 0."""

    def __init__(self, pick: Callable[[Call, int], str]) -> None:
        self.pick = pick
        self.asked: dict[Call, list[str]] = defaultdict(list)
        """Call → what its requests were answered with."""

    def __call__(self, number: int, body: dict[str, Any]) -> Said:
        call = call_of(body)
        name = self.pick(call, len(self.asked[call]))
        self.asked[call].append(name)
        if name == PATIENCE:
            return fail(429, Retry_After="0.01")
        verdicts = [
            {"id": number, "reasoning": f"because {number}", "score": truth(call.model, call.caption, title)}
            for number, title in enumerate(call.titles, start=1)
        ]
        return say(text_of(verdicts)) if name == GOOD else FAULTS[name].say(verdicts)

    def ends(self, call: Call) -> ErrorClass | None:
        """Error class of the call by its last answer; None if it succeeded."""
        last = self.asked[call][-1]
        return None if last == GOOD else FAULTS[last].ends

    @property
    def requests(self) -> int:
        return sum(map(len, self.asked.values()))


def call_of(body: dict[str, Any]) -> Call:
    user = body["messages"][1]["content"]
    text = user if isinstance(user, str) else user[-1]["text"]
    criteria = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    caption = text.split("<caption>\n")[1].split("\n</caption>")[0]
    return Call(body["model"], caption, tuple(criterion["criterion"] for criterion in criteria))
