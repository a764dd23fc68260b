"""Prompts of a user's own: what the judge reads, what the scores say of it, and files that do not fit."""

import asyncio
import json
import re

import pytest
import yaml
from audited import write_stage_table
from cli_fixtures import tell as tell
from scripted_server import ScriptedServer, say
from synthetic_run import RUBRIC, picture, sample

from rubricworks.data.tables import Sample, read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.own_prompts import (
    MORE_RUBRIC_FIELDS,
    PROMPT_FIELDS,
    RUBRIC_FIELDS,
    read_own_prompt,
)
from rubricworks.evaluation.scorers.answers import check_with_judge
from rubricworks.evaluation.scorers.caption_prompts import (
    decompose_messages,
    exam_taker_messages,
    match_messages,
    verify_messages,
)
from rubricworks.evaluation.scorers.capture import parse_graph
from rubricworks.evaluation.scorers.comparisons.pairwise import pairwise_messages
from rubricworks.grading.answer_prompts import answer_judge_messages
from rubricworks.grading.assertions.prompts import assertion_messages
from rubricworks.grading.images.prompts import image_judge_messages
from rubricworks.grading.likert import rate_caption
from rubricworks.grading.prompts import criteria_text, judge_messages
from rubricworks.llm import image_part
from rubricworks.llm.messages import fence

PROMPT = 'Which is better?\n1: {caption_a}\n2: {caption_b}\nAnswer {"reason": "…", "judgment": "A, B or Tie"}.'


@pytest.fixture
def evaluate(tell, tmp_path):
    """Two captions of one picture, compared by the prompts of these files."""
    pictured = sample("a", picture("red")) | {"references": ["a thing that is red"]}
    samples = write_stage_table(tmp_path / "samples", "samples", [pictured])
    for name, text in (("mine", "a red thing"), ("theirs", "a {caption_a} thing")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"file_name": "a.png", "caption": text}))
    server = ScriptedServer(lambda *_: say(json.dumps({"reason": "so", "judgment": "A"})))

    def run(out="out", scorers=("arena",), **prompts):
        settings = {name: {"judge": {"url": server.url, "model": "judge"}} for name in scorers}
        files = {}
        for name, text in prompts.items():
            (tmp_path / f"{name}.txt").write_text(text)
            files[name] = str(tmp_path / f"{name}.txt")
        path = tmp_path / "scorers.yaml"
        path.write_text(yaml.safe_dump({"scorers": settings, "prompts": files}))
        models = [tmp_path / "theirs.jsonl", tmp_path / "mine.jsonl"]
        return tell("evaluate", *models, "--on", samples, "--with", path, "--out", tmp_path / out), tmp_path / out

    run.server = server
    yield run
    server.close()


def versions(out):
    return {row["version"] for row in read_rows(out / "score") if row["scorer"] == "arena"}


def test_the_judge_reads_the_users_words_and_the_scores_hold_their_digest(evaluate, tell, tmp_path):
    done, out = evaluate(arena=PROMPT)
    assert done.code == 0, done.err
    [message] = evaluate.server.chats[0].body["messages"]
    image, text = message["content"]
    captions = ["a red thing", "a {caption_a} thing"]  # a field's name in a caption stays as it is
    expected = [PROMPT.replace("{caption_b}", second).replace("{caption_a}", first, 1)
                for first, second in (captions, captions[::-1])]  # fmt: skip
    assert text["text"] in expected
    assert image["type"] == "image_url"
    [version] = versions(out)
    assert re.fullmatch(r"1, prompt [0-9a-f]{12}", version)

    other, again = evaluate(out="other", arena=PROMPT + " Look closely.")
    assert other.code == 0, other.err
    assert versions(again) != {version}
    plain, ours = evaluate(out="plain")
    assert plain.code == 0, plain.err
    assert versions(ours) == {"1"}
    board = tell("leaderboard", out, again, ours)
    assert "was measured by" in board.out
    assert "no difference is taken between them" in board.out


@pytest.mark.parametrize(
    ("scorers", "prompts", "message"),
    [
        (
            ("arena",),
            {"arena": "{caption_a} {capton_b}"},
            "names the field {capton_b}; its fields are {caption_a}, {cap",
        ),
        (("arena",), {"arena": "{caption_a}"}, "lacks the field {caption_b}"),
        (("likert",), {"arena": PROMPT}, "prompts.arena: no scorer sends it"),
        (("arena",), {"b_capscore": "x"}, "prompts.b_capscore: no scorer sends it"),
        (("arena",), {"oracle": "x"}, "prompts.oracle"),
        (
            ("rubric",),
            {"rubric": "{criteria} {response}"},
            "names the field {response}; its fields are {criteria}, {caption}",
        ),
        (("dc_score",), {"dc_score_matches": "{facts}"}, "prompts.dc_score_matches: "),
    ],
)
def test_a_prompt_that_does_not_fit_is_one_line_before_any_call(evaluate, scorers, prompts, message):
    done, _ = evaluate(scorers=scorers, **prompts)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert evaluate.server.chats == []


class Asked(Exception):
    """The messages of a call."""


class Recorder:
    async def chat(self, messages, *_, **__):
        raise Asked(messages)


def _sent(call):
    with pytest.raises(Asked) as asked:
        asyncio.run(call)
    return asked.value.args[0]


@pytest.mark.parametrize("name", [name for name in PROMPT_FIELDS if name not in ("dpg", "blind_ranking")])
def test_the_fields_are_those_that_our_own_prompts_send(name):
    question = Sample(sample_id="s", prompt="p", question="what?", answer="a dog")
    messages = {
        "arena": lambda: pairwise_messages(picture("red"), "x", "y"),
        "caption_qa": lambda: exam_taker_messages("x", "y?", ["a", "b"]),
        "likert": lambda: _sent(rate_caption(Recorder(), picture("red"), "x")),
        "answers": lambda: _sent(check_with_judge(Recorder(), question, r"\boxed{a cat}")),
        "capture": lambda: _sent(parse_graph(Recorder(), "x")),
        "b_capscore": lambda: assertion_messages(picture("red"), "x", "y"),
        "dc_score_facts": lambda: decompose_messages("x"),
        "dc_score_matches": lambda: match_messages(["x"], ["y"]),
        "dc_score_checks": lambda: verify_messages(picture("red"), ["x"]),
        "rubric": lambda: judge_messages("x", RUBRIC.criteria),
    }[name]()
    assert fields_in(messages) == PROMPT_FIELDS[name]


def fields_in(messages):
    content = messages[-1]["content"]
    texts = [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
    return tuple(re.findall(r"<(\w+)>\n", "\n\n".join(texts)))


def test_a_rubrics_fields_are_those_of_the_kind_of_responses():
    question = Sample(sample_id="s", prompt="p", question="what?", answer="a dog")
    answers = answer_judge_messages("x", RUBRIC.criteria, sample=question)
    images = image_judge_messages(image_part(picture("red")), RUBRIC.criteria, prompt="p")
    for kind, messages in (("answers", answers), ("images", images)):
        assert {*fields_in(messages)} == {*RUBRIC_FIELDS[kind], *MORE_RUBRIC_FIELDS[kind]}


def test_a_rubrics_prompt_leaves_out_what_a_sample_lacks_and_never_fits_a_checklist(tmp_path):
    (tmp_path / "rubric.txt").write_text("{prompt}|{reference_answer}|{criteria}|{response}")
    prompt = read_own_prompt("rubric", str(tmp_path / "rubric.txt"), "answers")
    bare = answer_judge_messages("x", RUBRIC.criteria, sample=Sample(sample_id="s", prompt="why?"))
    assert prompt.filled(bare[-1]["content"]) == f"why?||{criteria_text(RUBRIC.criteria)}|x"
    with pytest.raises(UserError, match=r"prompts\.rubric: this call has no \{criteria\}: checklists"):
        prompt.filled(fence("question", "why?") + fence("response", "x"))


def own_texts(server):
    def text_of(content):
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)

    return [text_of(chat.body["messages"][-1]["content"]) for chat in server.chats]


def test_each_call_of_dc_score_is_in_the_words_of_its_own_prompt(evaluate):
    def answer(_, body):
        text = json.dumps(body["messages"])
        return say(json.dumps(
            {"checks": [{"fact": 1, "is_true": True}]} if "check:" in text
            else {"matches": [{"fact": 1, "reference": 1}]} if "match:" in text
            else {"facts": [{"fact": "a thing", "relevant": True}]}
        ))  # fmt: skip

    evaluate.server.script = answer
    done, out = evaluate(
        scorers=("dc_score",),
        dc_score_facts="split: {caption}",
        dc_score_matches="match: {facts} / {reference_facts}",
        dc_score_checks="check: {facts}",
    )
    assert done.code == 0, done.err
    assert set(own_texts(evaluate.server)) == {
        *("split: a {caption_a} thing", "split: a red thing", "split: a thing that is red"),
        *("match: 1. a thing / 1. a thing", "check: 1. a thing"),
    }
    rows = [row for row in read_rows(out / "score") if row["scorer"] == "dc_score"]
    assert min(row["value"] for row in rows) == pytest.approx(1.0)
    assert all(re.fullmatch(r"1(, prompt [0-9a-f]{12}){3}", row["version"]) for row in rows)


def test_the_blind_ranking_reads_all_captions_in_the_users_words(evaluate):
    scores = {"justification": "j", "accuracy": 5, "completeness": 5, "clarity": 5, "hallucination_penalty": 0}
    entries = [{"caption": letter, **scores} for letter in "AB"]
    evaluate.server.script = [say(json.dumps({"assessments": entries}))]
    done, out = evaluate(scorers=("blind_ranking",), blind_ranking="Rank these.\n{captions}")
    assert done.code == 0, done.err
    captions = ["a red thing", "a {caption_a} thing"]
    orders = [fence("caption_a", first) + "\n\n" + fence("caption_b", second)
              for first, second in (captions, captions[::-1])]  # fmt: skip
    assert own_texts(evaluate.server)[0] in [f"Rank these.\n{order}" for order in orders]
    rows = [row for row in read_rows(out / "score") if row["scorer"] == "blind_ranking"]
    assert all(re.fullmatch(r"2, prompt [0-9a-f]{12}", row["version"]) for row in rows)
