"""Prompts of a user's own in place of the scorers': a published benchmark's words, so that its figures compare.

A prompt is a text file with named fields, such as `{caption_a}`. It is the whole message, after the image if the scorer
sends one. It must request the form of answer that the scorer expects. The file's digest is part of the scores' version:
figures by two prompts are two measurements, and nothing compares them.
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

OwnPromptName = Literal[
    "arena",
    "likert",
    "answers",
    "capture",
    "caption_qa",
    "dpg",
    "b_capscore",
    "dc_score_facts",
    "dc_score_matches",
    "dc_score_checks",
    "blind_ranking",
    "rubric",
]
Kind = Literal["captions", "answers", "images"]
"""Kind of the responses of an evaluation."""

ALL_CAPTIONS = "captions"
"""Field of the blind ranking: every caption between tags with its letter, `<caption_a>` and so on."""
PROMPT_FIELDS: Mapping[OwnPromptName, tuple[str, ...]] = {
    "arena": ("caption_a", "caption_b"),
    "likert": ("caption",),
    "answers": ("question", "reference", "answer"),
    "capture": ("caption",),
    "caption_qa": ("caption", "question", "options"),
    "dpg": ("question",),
    "b_capscore": ("caption", "reference"),
    "dc_score_facts": ("caption",),
    "dc_score_matches": ("facts", "reference_facts"),
    "dc_score_checks": ("facts",),
    "blind_ranking": (ALL_CAPTIONS,),
    "rubric": ("criteria", "caption"),
}
"""Prompt → its fields, all of which a file names."""
RUBRIC_FIELDS: Mapping[Kind, tuple[str, ...]] = {"answers": ("criteria", "response"), "images": ("criteria",)}
"""Fields of `rubric` where responses are no captions."""
MORE_RUBRIC_FIELDS: Mapping[Kind, tuple[str, ...]] = {"answers": ("prompt", "reference_answer"), "images": ("prompt",)}
"""Fields that a file may name; empty for a sample without them."""
_DC_SCORE: tuple[OwnPromptName, ...] = ("dc_score_facts", "dc_score_matches", "dc_score_checks")
PURPOSES: Mapping[str, tuple[OwnPromptName, ...]] = {
    **{"arena": ("arena",), "caparena": ("arena",), "tournament": ("arena",), "exam": ("caption_qa",)},
    "benchmark_answers": ("answers",),
    **{"likert": ("likert",), "answers": ("answers",), "capture": ("capture",), "dpg": ("dpg",)},
    **{"assertions": ("b_capscore",), "facts": _DC_SCORE, "blind_ranking": ("blind_ranking",), "judge": ("rubric",)},
}
"""Purpose of a scorer's calls → the prompts that they send."""
PROMPTS_OF_SCORER: Mapping[str, tuple[OwnPromptName, ...]] = {
    **{name: (name,) for name in PROMPT_FIELDS},
    **{"caparena": ("arena",), "tournament": ("arena",), "dc_score": _DC_SCORE},
}
_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")


class OwnPrompt(NamedTuple):
    """A prompt's text with fields."""

    name: OwnPromptName
    text: str
    fields: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """Digest of the text, as it stands in the scores' version."""
        return f"prompt {hashlib.sha256(self.text.encode()).hexdigest()[:12]}"

    def filled(self, text: str) -> str:
        """The prompt with the fields of a scorer's own message.

        Raises:
            UserError: the message lacks a field.
        """
        values = {}
        for field in (*self.fields, *self.optional):
            match = re.search(rf"<{field}>\n(.*)\n</{field}>", text, re.DOTALL)
            if field == ALL_CAPTIONS or match or field in self.optional:
                values[field] = match[1] if match else text if field == ALL_CAPTIONS else ""
        if missing := [field for field in self.fields if field not in values]:
            raise UserError(
                f"evaluation.prompts.{self.name}: this call has no {{{missing[0]}}}: checklists, whose criteria have "
                "references, are graded in our words; leave the prompt out"
            )
        return _FIELD.sub(lambda match: values[match[1]], self.text)


def read_own_prompt(name: OwnPromptName, file: str, kind: Kind = "captions") -> OwnPrompt:
    """Read a prompt's file.

    Args:
        kind: of the responses, by which the fields of `rubric` differ.
    Raises:
        UserError: it cannot be read, lacks a field, or names one that the prompt does not have.
    """
    field = f"evaluation.prompts.{name}"
    path = local_path(fill(file, field))
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{field}: {path} cannot be read as text ({type(error).__name__})") from error
    needed: tuple[str, ...] = PROMPT_FIELDS[name]
    optional: tuple[str, ...] = ()
    if name == "rubric":
        needed, optional = RUBRIC_FIELDS.get(kind, needed), MORE_RUBRIC_FIELDS.get(kind, ())
    named = dict.fromkeys(_FIELD.findall(text))
    fields = ", ".join(f"{{{known_field}}}" for known_field in (*needed, *optional))
    if strange := [other for other in named if other not in (*needed, *optional)]:
        raise UserError(f"{field}: {path} names the field {{{strange[0]}}}; its fields are {fields}")
    if missing := [known_field for known_field in needed if known_field not in named]:
        raise UserError(f"{field}: {path} lacks the field {{{missing[0]}}}; its fields are {fields}")
    return OwnPrompt(name, text, needed, optional)


class OwnPromptClient:
    """A client that replaces the scorer's messages by the user's own prompts."""

    def __init__(self, client: ChatClient, purpose: str, prompts: Mapping[OwnPromptName, OwnPrompt]) -> None:
        self._client, self._names, self._prompts = client, PURPOSES[purpose], prompts
        client.note_prompt(", ".join(prompts[name].version for name in self._names if name in prompts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def note_prompt(self, version: str) -> None:
        """Ignore the version of the prompt that is replaced."""

    async def chat(self, messages: list[Message], *arguments: Any, **options: Any) -> Any:
        """`ChatClient.chat` with the scorer's fields in the prompt's places."""
        return await self._client.chat(self._messages(messages), *arguments, **options)

    def _messages(self, messages: list[Message]) -> list[Message]:
        content: Any = messages[-1]["content"]
        parts = [text_part(content)] if isinstance(content, str) else list(content)
        text = "\n\n".join(part["text"] for part in parts if part["type"] == "text")
        prompt = self._prompts.get(self._name_of(text))
        if prompt is None:
            return messages
        images = [part for part in parts if part["type"] != "text"]
        return [user_message([*images, text_part(prompt.filled(text))])]

    def _name_of(self, text: str) -> OwnPromptName:
        """The prompt that a message of the purpose is in, by its fields."""
        if len(self._names) == 1:
            return self._names[0]
        every = {field for name in self._names for field in PROMPT_FIELDS[name]}
        present = {field for field in every if f"<{field}>\n" in text}
        return next(name for name in self._names if set(PROMPT_FIELDS[name]) == present)
