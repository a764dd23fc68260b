"""Answers of chat-completions servers: from the bytes of a response to the text and the JSON that a model wrote."""

from rubricworks.llm.answers.completion import Answer, AnswerFailed, read_answer
from rubricworks.llm.answers.json_object import parse_json
from rubricworks.llm.answers.thoughts import is_blank, split_thought

__all__ = ["Answer", "AnswerFailed", "is_blank", "parse_json", "read_answer", "split_thought"]
