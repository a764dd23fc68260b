"""One question to a model and what comes back: how a value is read from an answer, and how a bad one is sent back."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from rubricworks.llm.answers import parse_json
from rubricworks.llm.request import RequestFrame
from rubricworks.llm.usage import Usage

T = TypeVar("T")
Messages = Sequence[dict[str, Any]]

REPAIR_TURNS = 2
_SHOWN_BACK = 20_000
"""Characters of a malformed answer that a repair turn shows the model."""


class Reply(NamedTuple, Generic[T]):
    """A good answer."""

    value: T
    """The validated value, or the text when no response model was given."""
    raw: str
    usage: Usage
    """Of the call that first got this answer, also when it comes from the cache."""
    cached: bool


class Question(NamedTuple):
    """What is asked, and what an answer must be like."""

    frame: RequestFrame
    messages: Messages
    seed: int
    response: type[Any] | Callable[[str], Any] | None
    check: Callable[[Any], None] | None

    def value(self, text: str | None) -> Any:
        """Raises ValueError when the text does not hold what was asked for."""
        if text is None:
            raise ValueError("the answer is empty")
        if self.response is None:
            return text
        if not isinstance(self.response, type):
            return self.response(text)
        value = parse_json(text, self.response)
        if self.check is not None:
            self.check(value)
        return value

    def repaired(self, text: str, error: str) -> bytes:
        """The request again, with the model's own answer and what is wrong with it."""
        form = "the JSON object" if isinstance(self.response, type) else "what is"
        complaint = f"That answer cannot be used: {error}. Answer again, with nothing but {form} asked for."
        turn = [{"role": "assistant", "content": text[:_SHOWN_BACK]}, {"role": "user", "content": complaint}]
        return self.frame.encode([*self.messages, *turn], self.seed).body
