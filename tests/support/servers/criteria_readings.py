"""A scripted judge's answer to the audit's request to read criteria: one fact each, but for those that a test names."""

import json
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

from scripted_server import Said, say


def criteria_to_read(body: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Criteria that a request asks to read; None for any other request."""
    texts = [message["content"] for message in body["messages"] if isinstance(message["content"], str)]
    asked = next((text for text in texts if text.startswith("<criteria_to_read>\n")), None)
    if asked is None:
        return None
    listed: list[dict[str, Any]] = json.loads(asked.split("\n")[1])
    return listed


def say_readings(criteria: list[dict[str, Any]], *, joined: Collection[str] = (), acts: Collection[str] = ()) -> Said:
    """Readings of criteria.

    Args:
        joined: texts that ask for two things.
        acts: texts whose claim states nothing.
    """
    readings = [
        {
            "id": criterion["id"],
            "assertions": ["the one", "the other"] if criterion["text"] in joined else [criterion["text"]],
            "states_content": criterion["text"] not in acts,
        }
        for criterion in criteria
    ]
    return say(json.dumps({"readings": readings}))


def also_reads(judge: Callable[..., Said]) -> Callable[..., Said]:
    """The judge's script, or its method, with an answer to requests to read criteria."""

    @wraps(judge)
    def answer(*arguments: Any) -> Said:
        criteria = criteria_to_read(arguments[-1])
        return judge(*arguments) if criteria is None else say_readings(criteria)

    return answer
