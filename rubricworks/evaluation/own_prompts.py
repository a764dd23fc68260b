"""Prompts of a user's own in place of the scorers': a published benchmark's words, so that its figures compare.

A prompt is a text file with named fields, such as `{caption_a}`. It is the whole message, after the image where the
scorer shows one; the judge's answer keeps the scorer's form, which the file has to ask for. The file's digest is part
of the scores' version: figures by two prompts are two measurements, and nothing compares them.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, text_part
from rubricworks.llm.messages import Message, user_message
from rubricworks.storage import local_path

OwnPromptName = Literal["arena", "likert", "answers", "capture", "caption_qa", "dpg"]

PROMPT_FIELDS: Mapping[OwnPromptName, tuple[str, ...]] = {
    "arena": ("caption_a", "caption_b"),
    "likert": ("caption",),
    "answers": ("question", "reference", "answer"),
    "capture": ("caption",),
    "caption_qa": ("caption", "question", "options"),
    "dpg": ("question",),
}
"""Prompt → its fields, all of which a file names."""
PURPOSES: Mapping[str, OwnPromptName] = {
    **{"arena": "arena", "caparena": "arena", "tournament": "arena", "exam": "caption_qa"},
    **{"likert": "likert", "answers": "answers", "capture": "capture", "dpg": "dpg"},
}
"""Purpose of a scorer's calls → the prompt that they send."""
PROMPT_OF_SCORER: Mapping[str, OwnPromptName] = {
    **{name: name for name in PROMPT_FIELDS},
    **{"caparena": "arena", "tournament": "arena"},
}
_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")


class OwnPrompt(NamedTuple):
    """A prompt's text with fields."""

    text: str
    fields: tuple[str, ...]

    @property
    def version(self) -> str:
        """Digest of the text, as it stands in the scores' version."""
        return f"prompt {hashlib.sha256(self.text.encode()).hexdigest()[:12]}"

    def filled(self, values: Mapping[str, str]) -> str:
        return _FIELD.sub(lambda match: values[match[1]], self.text)


def read_own_prompt(name: OwnPromptName, file: str) -> OwnPrompt:
    """Read a prompt's file.

    Raises:
        UserError: it cannot be read, lacks a field, or names one that the prompt does not have.
    """
    field = f"evaluation.prompts.{name}"
    path = local_path(fill(file, field))
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{field}: {path} cannot be read as text ({type(error).__name__})") from error
    known, named = PROMPT_FIELDS[name], dict.fromkeys(_FIELD.findall(text))
    fields = ", ".join(f"{{{known_field}}}" for known_field in known)
    if strange := [other for other in named if other not in known]:
        raise UserError(f"{field}: {path} names the field {{{strange[0]}}}; its fields are {fields}")
    if missing := [known_field for known_field in known if known_field not in named]:
        raise UserError(f"{field}: {path} lacks the field {{{missing[0]}}}; its fields are {fields}")
    return OwnPrompt(text, known)


class OwnPromptClient:
    """A client whose scorer's messages are sent in the words of a prompt of one's own."""

    def __init__(self, client: ChatClient, prompt: OwnPrompt) -> None:
        self._client, self._prompt = client, prompt
        client.note_prompt(prompt.version)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def chat(self, messages: list[Message], *arguments: Any, **options: Any) -> Any:
        """`ChatClient.chat` with the scorer's fields in the prompt's places."""
        return await self._client.chat(self._messages(messages), *arguments, **options)

    def _messages(self, messages: list[Message]) -> list[Message]:
        content: Any = messages[-1]["content"]
        parts = [text_part(content)] if isinstance(content, str) else list(content)
        text = "\n\n".join(part["text"] for part in parts if part["type"] == "text")
        values = {
            field: match[1]
            for field in self._prompt.fields
            if (match := re.search(rf"<{field}>\n(.*)\n</{field}>", text, re.DOTALL))
        }
        images = [part for part in parts if part["type"] != "text"]
        return [user_message([*images, text_part(self._prompt.filled(values))])]
