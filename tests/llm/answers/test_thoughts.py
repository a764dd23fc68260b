"""Texts that mention the markup of thoughts, and thoughts that mention answers. `gateway_oddities` has the forms."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.llm.answers import is_blank, split_thought


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A cat on a mat.",
        "  A cat\non a mat. \n",
        'The sign reads "</think>" in red.',
        "The terminal shows `<think>` and, lower, `</think>`.",
        "A poster says \u201c<think>\u201d.",
        "The word </think> appears twice on a wall.",
        "A page on tags such as <think>, </think> and <b>.",
        "The editor shows\n```html\n<think>\nHmm\n</think>\n```\nin a dark window.",
        "He writes <think>Hmm</think> in the chat.",
        "A screenshot with the token '<|im_end|>' in it.",
        "Prices: 3 < 5, a <b>bold</b> word, <s>an old one</s>",
        'A figure of "<|channel|>final<|message|>" and its parts.',
        "analysis of a painting: a cat, assistants",
        "[1] A cat. [2] A dog.",
        "Analysis: a cat.",
        json.dumps({"reasoning": "it says </think>, then <think>", "score": 1}),
        json.dumps(["</think>"]),
    ],
)
def test_a_text_that_only_mentions_markup_is_left_as_it_is(text):
    assert split_thought(text) == ("", text, True)


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ('<think>They mention "</think>" here.</think>A cat.', 'They mention "</think>" here.', "A cat."),
        ("<think>The user wants </think> tags.</think>\nA cat.", "The user wants </think> tags.", "A cat."),
        ("<think>a <think>b</think> c</think> A cat.", None, "A cat."),
        ("<think>a</think>\n<think>b</think>\nA cat.", "a\nb", "A cat."),
        ("<think>a</think>A cat.</think>", "a", "A cat."),
        ("<think>a ```json\n{</think>A cat.", "a ```json\n{", "A cat."),
        ("A cat.\n<think>Or a dog?</think>\nOn a mat.", "Or a dog?", "A cat.\n\nOn a mat."),
        ("hm\n```\nx\n```\nso</think>\n```json\n{}\n```", "hm\n```\nx\n```\nso", "```json\n{}\n```"),
        ("{not JSON}</think>{}", "{not JSON}", "{}"),
        ("\ufeff<THINK>a</THINK>A cat.", None, "A cat."),
        ("<s>A cat.</s>", "", "A cat."),
        ("A <s>dog</s> cat.</s></s>", "", "A <s>dog</s> cat.</s></s>"),
        ("The answer is <|begin_of_box|>4<|end_of_box|>.", "", "The answer is 4."),
        ("<|channel|>final<|message|>A dog.<|end|><|channel|>final<|message|>A cat.", "", "A cat."),
        (
            "hm<|end|><|start|>assistant<|channel|>final<|message|>A cat.<|return|>",
            "hm<|end|><|start|>assistant",
            "A cat.",
        ),
        (
            "<|channel|>commentary to=f<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>A cat.",
            "{}",
            "A cat.",
        ),
    ],
)
def test_markup_is_separated_from_the_answer(text, thought, answer):
    split = split_thought(text)
    assert split.answer == answer
    assert split.closed
    if thought is not None:
        assert split.thought == thought


@pytest.mark.parametrize("text", ["<think>a", "\n <think>a", "<think>a</think>\n<think>b", "analysisWe think, and"])
def test_thoughts_without_an_end_have_no_answer(text):
    split = split_thought(text)
    assert is_blank(split.answer)
    assert not split.closed
    assert split.thought


WORDS = st.text(st.characters(blacklist_characters="<>[]{}`◁▷\"'|", blacklist_categories=("Cs",)), min_size=1)
PAIRS = [
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
]


@given(st.sampled_from(PAIRS), WORDS, WORDS, st.booleans(), st.sampled_from(["", "<|im_end|>", "</s>"]))
def test_no_thought_and_no_tag_is_left_in_an_answer(pair, thought, answer, opened, end):
    if is_blank(answer) or re.match(r"\s*analysis", thought + answer):
        return
    split = split_thought(f"{pair[0] if opened else ''}{thought}\n{pair[1]}\n{answer}{end}")
    assert split.answer == answer.strip()
    assert split.thought == thought.strip()


@given(st.lists(st.sampled_from(["<think>", "</think>", "<|channel|>final<|message|>", "</s>", "\n", "x", "```", '"'])))
def test_any_mixture_is_split_and_what_is_left_is_of_the_text(pieces):
    text = "".join(pieces)
    split = split_thought(text)
    assert all(piece.count("x") <= text.count("x") for piece in split[:2])
    assert "<think>" not in split.answer or split.answer in text
