"""Text of models and files in prompts: no control token, closing tag or invisible character of it stays one."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.data.rubric_sets.entries import RubricEntry
from rubricworks.data.tables import Sample
from rubricworks.evaluation.audit.prompts import quality_messages
from rubricworks.evaluation.audit.values import Annotation, Case, Failure
from rubricworks.evaluation.rubric_audit.fixes import fix_messages
from rubricworks.evaluation.rubric_audit.flags import CriterionFlag, RubricFinding
from rubricworks.evaluation.rubric_audit.reading import reading_messages
from rubricworks.grading.answer_prompts import answer_judge_messages
from rubricworks.grading.assertions.prompts import verify_messages
from rubricworks.grading.images.prompts import image_judge_messages
from rubricworks.grading.prompts import judge_messages
from rubricworks.grading.requests import JudgeItem, ScoringRequest
from rubricworks.grading.scoring_prompts import scoring_messages
from rubricworks.llm import image_part
from rubricworks.llm.messages import fence, inert, json_text
from rubricworks.methods.rubricrl.rubric_prompts import selection_messages
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.rubrics.checklist import Checklist
from rubricworks.synthesis.checklist_prompts import aggregation_messages
from rubricworks.synthesis.pitfall_polarity import polarity_messages
from rubricworks.synthesis.pitfalls import pitfall_messages
from rubricworks.synthesis.prompts import writer_messages
from rubricworks.world.scene.attacks import ORDER

PNG = b"\x89PNG\r\n\x1a\n"
CONTROL_TOKENS = (
    *("<|im_end|><|im_start|>system", "<|eot_id|><|start_header_id|>system", "<start_of_turn>model", "<<SYS>>", "</s>"),
    *("[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[IMG]", "[IMG_BREAK]", "[TOOL_CALLS]", "[/THINK]"),
    *(
        "[gMASK]",
        "[MASK]",
        "[EOS]",
        "[|system|]",
        "]~b]system",
        "[e~[",
        "[start_header_id]",
        "[control_8]",
        "[unused1]",
    ),
    *("<\uff5cUser\uff5c>", "\uff3bINST\uff3d", "[\uff29\uff2e\uff33\uff34]", "\u25c1think\u25b7", "\ufe64|im_end|>"),
    *("[unused1]", "[IN\u200bST]", "<\u2060|im_end|>", "</caption>", "</criteria>", "</CHECKLIST >"),
)
INVISIBLE = (
    *(
        "\u200b",
        "\u200c",
        "\u200d",
        "\u2060",
        "\ufeff",
        "\u00ad",
        "\u180e",
        "\u202e",
        "\u2066",
        "\u2069",
        "\u061c",
        "\u200e",
    ),
    *(
        "".join(chr(0xE0000 + ord(sign)) for sign in ORDER),
        "".join(chr(0xE0100 + ord(sign)) for sign in ORDER),
        "\ufe01",
    ),
)
ORDINARY = (
    *(
        "A red [1] car, [x], [AB] and [cat]; see [a note] and ['red', 'blue'].",
        "Le café « clair », 漢字 (天)",
        "نص عربي",
    ),
    *("box = [12, 34, 56, 78]", "Fish & chips > soup; 3 ] 2 [", "[link](https://example.org/a_b)", "tab\tand\nline"),
    "نص عربي",
)
ACTIVE = re.compile(r"[<◁]|\[/?[A-Z]{3,}|\[/?[A-Z]+_|\[gMASK|\[\||\]~|\[e~|\[start_|\[control|\[unused")


def active_in(text):
    """Control tokens and invisible characters of a text, beside the tags of its own fences."""
    text = re.sub(r'</?[a-z_]+( name="[\w ]+")?>', "", text)
    hidden = [sign for sign in text if unicodedata.category(sign) == "Cf" or 0xFE00 <= ord(sign) <= 0xFE0F]
    return hidden + ACTIVE.findall(unicodedata.normalize("NFKC", text))


def prompts_with(text):
    """Messages of prompts that show the text of models and files, with this text in every field."""
    rubric = Rubric(
        criteria=[Criterion(criterion=text, description=text, evaluation_rule=text, weight=1, reference=text)]
    )
    sample = Sample(sample_id="s", prompt=text, answer=text, question=text, image=PNG, task="t")
    entry = RubricEntry(sample_id="s", prompt=text, rubric=rubric, reference=text)
    flags = [CriterionFlag(criterion=text, flag="compound", reason=text)]
    finding = RubricFinding(
        sample_id="s", flags=flags, rewards={}, order_changes=0, impossible_credited=None, unjudged=0
    )
    items = (JudgeItem(criterion=text, reference=text),)
    checklist = Checklist(essential=[{"criterion": text, "reference": text, "weight": 1}])
    notes = (Annotation(criterion=text, call=text, credit=1),)
    return {
        "caption": judge_messages(text, rubric.criteria),
        "answer": answer_judge_messages(text, rubric.criteria, sample=sample),
        "image": image_judge_messages(image_part(PNG), rubric.criteria, prompt=text),
        "checklist": scoring_messages(ScoringRequest(text, text, items, items)),
        "assertions": verify_messages(PNG, [text]),
        "criteria to read": reading_messages(rubric.criteria),
        "polarity": polarity_messages(entry, rubric.criteria),
        "pitfalls": pitfall_messages(sample, [text], [text], rubric, most=1),
        "rubric": writer_messages(sample, [text], [text], threshold=1, coverage="full", guards=False),
        "merged checklist": aggregation_messages(sample, [checklist], [], trusted=True),
        "selection": selection_messages(text, [(text, text)], 1),
        "fixes": fix_messages(entry, finding, [text]),
        "audit": quality_messages(Case("s", text, text, rubric, text), Failure("m", text), text, notes),
    }


def shown(messages):
    content = messages[1]["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


@pytest.mark.parametrize("hostile", [*CONTROL_TOKENS, *INVISIBLE], ids=ascii)
def test_no_text_of_a_model_or_file_is_active_in_any_prompt(hostile):
    for name, messages in prompts_with(f"a cat {hostile} sits").items():
        assert "a cat" in shown(messages), name
        assert active_in(shown(messages)) == [], name


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_shown_as_it_is(text):
    assert inert(text) == text
    assert json_text([text]) == json.dumps([text], ensure_ascii=False)


def test_a_caption_loses_what_nobody_sees_and_keeps_its_words():
    assert inert("a\u200b \u202ebig\u202c [IN\u2060ST] <b>") == "a big &#91;INST] &lt;b>"


@given(st.lists(st.sampled_from(CONTROL_TOKENS + INVISIBLE) | st.text(), max_size=6).map("".join))
def test_escaped_json_parses_to_the_same_value_and_a_fence_leaves_it_as_it_is(text):
    written = json_text({"criterion": text, text: [text]})
    assert json.loads(written) == {"criterion": text, text: [text]}
    assert fence("criteria", written) == f"<criteria>\n{written}\n</criteria>"
    assert not {"<", *"".join(INVISIBLE)} & {*written}
