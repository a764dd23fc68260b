"""One question to a model, and its outcome: a reply with a validated value, or the error of a call that failed."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from rubricworks.llm.answers import parse_json
from rubricworks.llm.request import RequestFrame
from rubricworks.llm.usage import Usage
from rubricworks.rubrics import ErrorClass

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


class ChatError(Exception):
    """A call failed for good, after its retries and repair turns."""

    def __init__(
        self, error_class: ErrorClass, message: str, raw: str = "", attempts: int = 1, request: str = ""
    ) -> None:
        super().__init__(f"{error_class.value}: {message}")
        self.error_class = error_class
        self.message = message
        self.raw = raw
        """What the model or server said last, for a dead-letter row."""
        self.attempts = attempts
        """Requests that were sent, repair turns included."""
        self.request = request
        """Digest of the question, in hexadecimal: the cache key that its answer would have had."""


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
