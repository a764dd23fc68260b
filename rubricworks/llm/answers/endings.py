"""Finish reasons of answers, and what each means.

OpenAI has four (`stop`, `length`, `tool_calls`, `content_filter`). The others are what servers and
gateways really send in their place: vLLM and SGLang, TGI, Ollama, Cohere, Anthropic, Bedrock, Gemini and Vertex,
Mistral, DeepSeek, Zhipu, watsonx and DashScope. Only a reason that is known as finished makes an answer; one that
nobody knows is a failure. A reason that is missing or null counts as finished, as in LiteLLM and in vLLM's own server
(`finish_reason or "stop"`): several servers send none. `ChatClient` has a check of its own for such an answer, the
limit of tokens.
"""

from enum import StrEnum


class Ending(StrEnum):
    """End of an answer."""

    FINISHED = "finished"
    TRUNCATED = "truncated"
    """A limit of tokens cut it."""
    REFUSED = "refused"
    """The model or a filter declined."""
    FAILED = "failed"
    """The server stopped early, and may do better when asked again."""
    UNKNOWN = "unknown"


_REASONS = {
    Ending.FINISHED: "stop stop_sequence stop_token eos eos_token eos_found end_turn end endoftext complete completed "
    "finished finish done normal tool_calls tool_call tool_use function_call function_calls",
    Ending.TRUNCATED: "length max_tokens max_length model_length max_output_tokens max_completion_tokens token_limit "
    "max_tokens_reached context_length context_length_exceeded model_context_window_exceeded",
    Ending.REFUSED: "content_filter content_filtered content_filtering filter filtered safety image_safety sensitive "
    "recitation image_recitation blocklist prohibited_content image_prohibited_content spii refusal refused "
    "guardrail_intervened guardrails moderation blocked censored flagged toxic error_toxic error_sensitive language",
    Ending.FAILED: "error errored abort aborted cancel cancelled canceled timeout time_limit timed_out network_error "
    "insufficient_system_resource internal_error server_error overloaded interrupted not_finished preempted "
    "resource_exhausted rate_limit_exceeded malformed_function_call unexpected_tool_call error_limit user_cancel",
}
_ENDINGS = {reason: ending for ending, reasons in _REASONS.items() for reason in reasons.split()}


def ending_of(reason: str) -> Ending:
    """Meaning of a finish reason in any case, with or without a detail (`content_filter: RECITATION`)."""
    if (ending := _ENDINGS.get(reason)) is not None:
        return ending
    name = reason.partition(":")[0].strip().lower().removeprefix("finish_reason_").replace("-", "_").replace(" ", "_")
    return _ENDINGS.get(name, Ending.UNKNOWN) if reason else Ending.FINISHED
