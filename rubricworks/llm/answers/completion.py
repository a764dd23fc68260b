"""Reading of a chat-completions response, in the forms in which servers and gateways send it.

Tokens are read under each of the names in use. Reasoning tokens are counted once. OpenAI has them within the
completion's, xAI and Gemini's proxies beside them, and some report them only as part of the total; so what the total
has beyond prompt and completion was written, too.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rubricworks.llm.answers.endings import Ending, ending_of
from rubricworks.llm.answers.json_object import replace_surrogates
from rubricworks.llm.answers.payload import find_error, parse_payload
from rubricworks.llm.identity import Identity

_MAX_TOKENS = 10**9


class ReportedUsage(NamedTuple):
    """Token counts; 0 where the server reports none."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    """With reasoning."""
    cached_tokens: int = 0
    """Prompt tokens that the provider had cached, of `prompt_tokens`."""


def read_usage(usage: Any) -> ReportedUsage:
    """Read the object `usage` of a response; impossible numbers in it count as not reported."""
    if not isinstance(usage, dict):
        return ReportedUsage()
    prompt, completion, total = (
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        usage.get("total_tokens"),
    )
    if (
        len(usage) == 3  # the usual form
        and type(prompt) is type(completion) is int
        and prompt > 0 < completion
        and total == prompt + completion <= _MAX_TOKENS
    ):
        return ReportedUsage(prompt, completion)
    prompt, completion, total = _count(prompt), _count(completion), _count(total)
    cached = _details(usage, "prompt_tokens_details", "cached_tokens")
    if not prompt and (prompt := _count(usage.get("input_tokens"))):  # Anthropic's names, which leave out the cache
        read = _count(usage.get("cache_read_input_tokens"))
        cached = cached or read or _details(usage, "input_tokens_details", "cached_tokens")
        prompt += read + _count(usage.get("cache_creation_input_tokens"))
    completion = completion or _count(usage.get("output_tokens"))
    cached = cached or _count(usage.get("prompt_cache_hit_tokens")) or _count(usage.get("cached_tokens"))
    reasoning = (
        _details(usage, "completion_tokens_details", "reasoning_tokens")
        or _details(usage, "output_tokens_details", "reasoning_tokens")
        or _count(usage.get("reasoning_tokens"))
    )
    if prompt and total > prompt + completion:
        completion = total - prompt
    elif reasoning > completion:  # they cannot be within it
        completion += reasoning
    return ReportedUsage(prompt, completion, min(cached, prompt))


def _details(usage: dict[str, Any], group: str, name: str) -> int:
    details = usage.get(group)
    return _count(details.get(name)) if isinstance(details, dict) else 0


def _count(tokens: Any) -> int:
    """Token count; 0, meaning unknown, for an impossible one."""
    if type(tokens) is int:
        return tokens if 0 <= tokens <= _MAX_TOKENS else 0
    if tokens is None or tokens is True:
        return 0
    try:
        count = int(tokens)
    except (ValueError, TypeError, OverflowError):
        return 0
    return count if 0 <= count <= _MAX_TOKENS else 0


_MAX_NAME = 300
_THOUGHT_PARTS = ("thinking", "reasoning", "thought")


class Answer(NamedTuple):
    """Content of a chat-completions response."""

    text: str | None
    finish: str
    """Finish reason as the server sent it; empty if it sent none."""
    ending: Ending
    refusal: str
    prompt_tokens: int
    completion_tokens: int
    """With reasoning; 0 where the server reports none, as for the prompt."""
    cached_tokens: int = 0
    """Prompt tokens that the provider had cached, of `prompt_tokens`."""
    identity: Identity = Identity()
    logprobs: Sequence[Any] = ()
    """Log-probabilities as the server sent them; empty without any."""
    thought: str = ""
    """Reasoning that the server sent beside the text."""
    arguments: str = ""
    """Arguments of the only tool call."""
    payload: bytes = b""
    """The response."""


class AnswerFailed(ValueError):
    """A response that is an error, or ended as one."""

    def __init__(
        self,
        message: str,
        *,
        retry: bool,
        status: int = 0,
        refused: bool = False,
        retry_after: float | None = None,
        answer: Answer | None = None,
    ) -> None:
        super().__init__(message)
        self.retry = retry
        self.status = status
        """HTTP status that the error's code means; 0 if unknown."""
        self.refused = refused
        """True if a content filter declined."""
        self.retry_after = retry_after
        self.answer = answer
        """Unfinished answer, whose tokens are paid for."""


def read_answer(payload: bytes) -> Answer:
    """Parse the choice with index 0 of a chat-completions response.

    Raises:
        AnswerFailed: the response holds an error, or its finish reason is one, or is unknown.
        ValueError: the bytes are not a chat-completions response.
    """
    try:
        body = parse_payload(payload)
        choices: Any = body.get("choices") if isinstance(body, dict) else None
        _raise_error(body)
        choice = _first_choice(choices)
        message = choice["message"]
        text, refusal = message.get("content"), message.get("refusal")
        thought = message.get("reasoning_content") or message.get("reasoning") or ""
        if isinstance(text, list):
            text, thought, refusal = _join_parts(text, thought, refusal)
        if not (text is None or isinstance(text, str)):
            raise TypeError("content is not text")
        finish = str(choice.get("finish_reason") or "")
        ending = ending_of(finish)
        if ending is Ending.UNKNOWN and finish.lower() in ("null", "none"):
            finish, ending = "", Ending.FINISHED
        prompt, completion, cached = read_usage(body.get("usage"))
        logprobs = choice.get("logprobs")
        tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
        answer = Answer(
            text and replace_surrogates(text),
            finish,
            ending,
            replace_surrogates(str(refusal)) if refusal else "",
            prompt,
            completion,
            cached,
            _identity(body.get("model"), body.get("system_fingerprint")),
            tokens if isinstance(tokens, list) else (),
            replace_surrogates(thought) if thought and isinstance(thought, str) else "",
            _tool_arguments(message) if message.get("tool_calls") or message.get("function_call") else "",
            payload,
        )
    except AnswerFailed:
        raise
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("the answer does not follow the chat-completions protocol") from error
    if ending is Ending.FAILED or ending is Ending.UNKNOWN:
        known = "" if answer.ending is Ending.FAILED else ", which is no known reason of a finished answer"
        raise AnswerFailed(
            f"the server ended the answer with finish_reason {_name(finish)!r}{known}",
            retry=answer.ending is Ending.FAILED,
            answer=answer,
        )
    return answer


def _raise_error(body: Any) -> None:
    """Raise AnswerFailed for a body that is, or holds, an error."""
    if (error := find_error(body)) is not None:
        raise AnswerFailed(
            f"the response is an error{f' {error.status}' if error.status else ''}: {error.message}",
            retry=not error.refused and (error.status >= 500 or error.status in (0, 408, 425, 429)),
            status=error.status,
            refused=error.refused,
            retry_after=error.retry_after,
        )


def _first_choice(choices: Any) -> Any:
    """Choice with index 0; the first where none has an index. Raises AnswerFailed if all have others."""
    for choice in choices:
        if choice.get("index") == 0:
            return choice
    if choices[0].get("index") is not None:
        raise AnswerFailed("the response has no choice with index 0", retry=True)
    return choices[0]


def _join_parts(parts: list[Any], thought: Any, refusal: Any) -> tuple[str, Any, Any]:
    """Text, thought and refusal of a content in parts, as Mistral's reasoning models and some gateways send it."""
    texts, thoughts = list[str](), [thought] if isinstance(thought, str) and thought else []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            texts.append(part)
        elif kind in _THOUGHT_PARTS:
            inner = part.get(kind) or part.get("text")
            thoughts.append(_join_parts(inner, None, None)[0] if isinstance(inner, list) else str(inner or ""))
        elif kind == "refusal":
            refusal = part.get("refusal") or refusal
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(texts), "".join(thoughts), refusal


def _tool_arguments(message: Any) -> str:
    """Arguments of a message's only tool call, as JSON; empty without one."""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and len(calls) == 1 and isinstance(calls[0], dict):
        function = calls[0].get("function")
    elif calls:
        return ""
    else:
        function = message.get("function_call")
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments)
    return replace_surrogates(arguments) if isinstance(arguments, str) else ""


@lru_cache(maxsize=256)
def _identity(model: Any, fingerprint: Any) -> Identity:
    return Identity(_name(model), _name(fingerprint))


def _name(value: Any) -> str:
    """Name in a response, fit for a table and a message."""
    return replace_surrogates(str(value))[:_MAX_NAME] if value else ""
