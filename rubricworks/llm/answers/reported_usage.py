"""Tokens of a response as its server reports them, under each of the names in use.

Reasoning tokens are counted once. OpenAI has them within the completion's, xAI and Gemini's proxies beside them, and
some report them only as part of the total; so what the total has beyond prompt and completion was written, too.
"""

from typing import Any, NamedTuple

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


def _details(usage: dict[str, object], group: str, name: str) -> int:
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
