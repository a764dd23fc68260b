"""One question to a model, and its outcome: a reply with a validated value, or a ChatError."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from rubricworks.llm.answers import Answer, is_blank, split_thought
from rubricworks.llm.answers.json_object import parse_object
from rubricworks.llm.messages import Message, inert, user_message
from rubricworks.llm.request import RequestFrame
from rubricworks.llm.usage import Usage
from rubricworks.rubrics import ErrorClass

T = TypeVar("T")
Messages = Sequence[Message]

REPAIR_TURNS = 2
_MAX_ECHO_CHARS = 20_000
"""Length of a malformed answer in a repair turn."""


class Reply(NamedTuple, Generic[T]):
    """A valid answer."""

    value: T
    """Validated value, or the text if no response model was given."""
    raw: str
    usage: Usage
    """Usage of the original call, also for a cached answer."""
    cached: bool
    probabilities: tuple[float, ...] = ()
    """Probabilities of the requested binary field, in the order of the answer; see `logprobs`."""


class ChatError(Exception):
    """A call failed after its retries and repair turns."""

    def __init__(
        self,
        error_class: ErrorClass,
        message: str,
        raw: str = "",
        attempts: int = 1,
        request: str = "",
        status: int = 0,
    ) -> None:
        super().__init__(f"{error_class.value}: {message}")
        self.error_class = error_class
        self.message = message
        self.raw = raw
        """Last answer of the model or server, for a dead-letter row."""
        self.attempts = attempts
        """Number of requests sent, including repair turns."""
        self.request = request
        """Digest of the request in hexadecimal, which is its cache key."""
        self.status = status
        """HTTP status of the last answer, if it was an error; else 0."""
        self.unfinished: tuple[Answer, ...] = ()
        """Answers that the server ended early, whose tokens are paid for."""


class NoLogprobs(ChatError):
    """An answer without the log-probabilities that were asked for."""


class Question(NamedTuple):
    """Messages of a request, and the form of its answer."""

    frame: RequestFrame
    messages: Messages
    seed: int
    response: type[Any] | Callable[[str], Any] | None
    check: Callable[[Any], None] | None
    probabilities_of: str = ""
    """JSON field whose probabilities are asked for."""

    def text_of(self, answer: Answer) -> str:
        """Text of an answer to this question, with thoughts if they are in it.

        Where JSON was asked for and the content has none, JSON that came as a tool's arguments or as reasoning counts:
        servers whose reasoning parser meets a schema send it there.
        """
        text = answer.text or ""
        if not isinstance(self.response, type) or text.startswith("{"):
            return text
        split = split_thought(text)
        if not is_blank(split.answer):
            return text
        others = (answer.arguments, split_thought(answer.thought).answer, split.thought)
        return next((other for other in others if other.strip()[:1] == "{" and other.strip()[-1:] == "}"), text)

    def parse(self, text: str) -> Any:
        """Parse the text of an answer. Raises ValueError if it is not a valid answer to this question."""
        if not isinstance(self.response, type):
            answer = _answer_in(text)
            return answer if self.response is None else self.response(answer)
        try:
            value: Any = parse_object(text if text[:1] == "{" else _answer_in(text), self.response)
        except ValueError:
            if text[:1] != "{" or (answer := _answer_in(text)) == text:
                raise
            value = parse_object(answer, self.response)
        if self.check is not None:
            self.check(value)
        return value

    def repair_body(self, text: str, error: str) -> bytes:
        """Body of the request with the model's invalid answer and the error appended."""
        text = text[:_MAX_ECHO_CHARS]
        if is_json := isinstance(self.response, type):  # a judge may quote the text that it judges
            text, error = inert(text), inert(error)
        form = "the JSON object" if is_json else "what is"
        complaint = f"That answer cannot be used: {error}. Answer again, with nothing but {form} asked for."
        echo = text or "(no answer)"  # servers refuse a turn without content
        answer: Message = {"role": "assistant", "content": echo}
        return self.frame.encode([*self.messages, answer, user_message(complaint)], self.seed).body


def _answer_in(text: str) -> str:
    """Answer in a text, without thoughts. Raises ValueError if there is none."""
    split = split_thought(text)
    if not is_blank(split.answer):
        return split.answer
    if is_blank(split.thought):
        raise ValueError("the answer is empty")
    raise ValueError(
        "there is reasoning, and no answer after it"
        if split.closed
        else "there is reasoning that does not end, and no answer"
    )
