"""Separation of a model's reasoning from its answer, the same for captions, verdicts and rubrics.

A server without a reasoning parser returns the thoughts inside the answer, in the markup of the model's chat template:

- tags: `<think>…</think>` and its relatives. The opening one is often missing, as the template has put it into the
  prompt (DeepSeek-R1, Qwen3-Thinking), and an answer that ended too early has no closing one;
- channels: `<|channel|>analysis<|message|>…<|channel|>final<|message|>…` (harmony, of gpt-oss), of which the last
  `final` is the answer;
- control tokens: `<|im_end|>`, `</s>` and the like at the end, `<|begin_of_box|>…<|end_of_box|>` around an answer.

Markup that a text only mentions stays: in quotation marks, in a code block, in the middle of a sentence, or in a text
that is JSON as a whole.
"""

import json
import re
from typing import NamedTuple

_NAMES = r"(?:think|thinking|thoughts?|reasoning|seed:think|mm:think|longcat_think)"
_TAG = re.compile(
    rf"(?P<open><{_NAMES}>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|channel>thought\b|<unused94>thought\b)"
    rf"|(?P<close></{_NAMES}>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<channel\|>|<unused95>)"
    r"|```",
    re.IGNORECASE,
)
_BLANK = re.compile(r"[\s\u200b-\u200f\u2060\ufeff]*\Z")
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(?P<name>analysis|commentary|final)\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(?P<body>.*?)(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)
_BARE_CHANNELS = re.compile(r"\s*analysis(?P<thought>(?=[A-Z\"']).*?)(?:assistantfinal(?P<answer>.*))?\Z", re.DOTALL)
"""Harmony whose control tokens were lost in decoding: `analysisWe need…assistantfinalA cat.`"""
_BEGINNINGS = re.compile(
    r"\s*(?:<bos>|<\|begin_of_text\|>|<\|im_start\|>(?:assistant\b)?|<start_of_turn>(?:model\b)?|<\|assistant\|>"
    r"|<\|start_header_id\|>assistant<\|end_header_id\|>|<\|START_RESPONSE\|>|<\|CHATBOT_TOKEN\|>)"
)
_ENDINGS = (
    *("<|im_end|>", "</s>", "<end_of_turn>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|end|>", "<|return|>", "<eos>"),
    *("<|endoftext|>", "<|end_of_text|>", "<|eos|>", "<turn|>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "[EOS]"),
    *("<|user|>", "<|observation|>", "<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>"),
)
_NEXT_TURN = re.compile(
    rf"(?:{'|'.join(map(re.escape, _ENDINGS))})\s*(?:<\|im_start\|>|<start_of_turn>|<\|start_header_id\|>|<\|user\|>)"
)
_BOX = re.compile(r"<\|(?:begin|end)_of_box\|>")
_ANSWER = re.compile(r"\s*<answer>(.*)</answer>\s*\Z", re.DOTALL)
_QUOTES = "\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb\u201e\u2039\u203a\u300c\u300d\u300e\u300f"
_IN_SENTENCE = re.compile(r"[\w,;] $")
_SENTENCE_GOES_ON = re.compile(r"[,;:.)]? [a-z]|[,;:.)]+\s*$")


class Split(NamedTuple):
    """Parts of a text."""

    thought: str
    answer: str
    """The text itself if it has no markup."""
    closed: bool = True
    """False if the thoughts have no end, so that no answer can follow them."""


def split_thought(text: str) -> Split:
    """Separate reasoning and control tokens from the answer."""
    if not _may_have_markup(text):
        return Split("", text)
    if text.lstrip().startswith(("{", "[")) and _is_json(text):
        return Split("", text)
    plain = _without_control_tokens(text)
    thought, answer, closed = _split_channels(plain) or _split_tags(plain)
    if thought and (wrapped := _ANSWER.match(answer)):
        answer = wrapped[1]
    answer = _BOX.sub(lambda box: box[0] if _is_quoted(box) else "", _without_beginning(answer))
    return Split(thought.strip(), text if answer == text else answer.strip(), closed)


def is_blank(text: str) -> bool:
    """Return True if nothing in the text can be seen."""
    first = text[:1]
    return not (first.isprintable() and first.strip()) and _BLANK.match(text) is not None


def _may_have_markup(text: str) -> bool:
    """Return False for what most texts are; this is done for every answer."""
    if "<" in text or "◁" in text or "[EOS]" in text or "THINK]" in text:
        return True
    return text[:64].lstrip().startswith("analysis")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _without_control_tokens(text: str) -> str:
    """Remove what opens and ends the turn, and the next turns of a model that did not stop."""
    if (following := _NEXT_TURN.search(text)) and not _is_quoted(following):
        text = text[: following.start()]
    text = _without_beginning(text)
    if text.startswith("<s>") and text.count("</s>") <= 1:  # otherwise HTML
        text = text.removeprefix("<s>")
    tokens = _ENDINGS if "<s>" not in text else [token for token in _ENDINGS if token != "</s>"]
    end = place = len(text)
    while place:
        if text[place - 1].isspace():
            place -= 1
        elif ending := next((token for token in tokens if text.endswith(token, 0, place)), None):
            end = place = place - len(ending)
        else:
            break
    return text[:end]


def _without_beginning(text: str) -> str:
    start = 0
    while beginning := _BEGINNINGS.match(text, start):
        start = beginning.end()
    return text[start:]


def _split_channels(text: str) -> Split | None:
    """Parts of a text in harmony's channels; None for another text."""
    if bare := _BARE_CHANNELS.match(text):
        return Split(bare["thought"], bare["answer"] or "", bare["answer"] is not None)
    messages = [
        message
        for message in (_CHANNEL.finditer(text) if "<|message|>" in text else ())
        if not _is_quoted(message, message.start("body"))
    ]
    if not messages:
        return None
    finals = [message["body"] for message in messages if message["name"] == "final"]
    thoughts = [text[: messages[0].start()].removeprefix("<|start|>assistant")]
    thoughts += [message["body"] for message in messages if message["name"] != "final"]
    answer = _without_control_tokens(finals[-1]) if finals else ""
    return Split("\n".join(filter(None, thoughts)), answer, bool(finals))


def _split_tags(text: str) -> Split:
    """Parts of a text with tags.

    An opening tag counts where a line begins. A closing one without it ends thoughts that the chat template began.
    """
    thoughts, answers = list[str](), list[str]()
    start, is_thinking, is_code, mentioned = 0, False, False, 0
    for tag in _TAG.finditer(text):
        if tag.lastgroup is None:
            is_code = not is_code and not is_thinking
        elif not (is_code or _is_mention(tag)):
            if is_thinking and tag["close"]:
                thoughts.append(text[start : tag.start()])
                start, is_thinking = tag.end(), False
            elif is_thinking:
                continue
            elif tag["open"] and _begins_line(tag):
                before = text[start : tag.start()]
                answers += [] if is_blank(before) else [before]
                start, is_thinking = tag.end(), True
            elif tag["open"]:
                mentioned += 1
            elif mentioned:
                mentioned -= 1
            elif thoughts and _BLANK.match(text, tag.end()):  # once more after the answer
                answers.append(text[start : tag.start()])
                start = tag.end()
            else:
                thoughts += [*answers, text[start : tag.start()]]
                answers, start = [], tag.end()
    (thoughts if is_thinking else answers).append(text[start:])
    return Split("\n".join(thoughts).strip(), "".join(answers), not is_thinking)


def _begins_line(tag: re.Match[str]) -> bool:
    before = tag.string[max(0, tag.start() - 16) : tag.start()].rstrip(" \t\ufeff\u200b")
    return before.endswith("\n") or (not before and tag.start() <= 16)


def _is_mention(tag: re.Match[str]) -> bool:
    """Return True for a tag in quotation marks or in the middle of a sentence."""
    before, after = tag.string[max(0, tag.start() - 2) : tag.start()], tag.string[tag.end() : tag.end() + 8]
    return _is_quoted(tag) or bool(_IN_SENTENCE.search(before) and _SENTENCE_GOES_ON.match(after))


def _is_quoted(tag: re.Match[str], end: int | None = None) -> bool:
    """Return True for quotation marks on both sides of a match, or of its part up to `end`."""
    end = tag.end() if end is None else end
    before, after = tag.string[max(0, tag.start() - 1) : tag.start()], tag.string[end : end + 1]
    return bool(before and after) and before in _QUOTES and after in _QUOTES
