"""Prompts of a user's own: what the judge reads, what the scores say of it, and files that do not fit."""

import asyncio
import json
import re

import pytest
import yaml
from audited import write_stage_table
from cli_fixtures import tell as tell
from scripted_server import ScriptedServer, say
from synthetic_run import picture, sample

from rubricworks.data.tables import Sample, read_rows
from rubricworks.evaluation.own_prompts import PROMPT_FIELDS
from rubricworks.evaluation.scorers.answers import check_with_judge
from rubricworks.evaluation.scorers.caption_prompts import exam_taker_messages
from rubricworks.evaluation.scorers.capture import parse_graph
from rubricworks.evaluation.scorers.comparisons.pairwise import pairwise_messages
from rubricworks.grading.likert import rate_caption

PROMPT = 'Which is better?\n1: {caption_a}\n2: {caption_b}\nAnswer {"reason": "…", "judgment": "A, B or Tie"}.'


@pytest.fixture
def evaluate(tell, tmp_path):
    """Two captions of one picture, compared by the prompts of these files."""
    samples = write_stage_table(tmp_path / "samples", "samples", [sample("a", picture("red"))])
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
        (("arena",), {"b_capscore": "x"}, "prompts.b_capscore"),
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


@pytest.mark.parametrize("name", ["arena", "likert", "answers", "capture", "caption_qa"])
def test_the_fields_are_those_that_our_own_prompts_send(name):
    question = Sample(sample_id="s", prompt="p", question="what?", answer="a dog")
    messages = {
        "arena": lambda: pairwise_messages(picture("red"), "x", "y"),
        "caption_qa": lambda: exam_taker_messages("x", "y?", ["a", "b"]),
        "likert": lambda: _sent(rate_caption(Recorder(), picture("red"), "x")),
        "answers": lambda: _sent(check_with_judge(Recorder(), question, r"\boxed{a cat}")),
        "capture": lambda: _sent(parse_graph(Recorder(), "x")),
    }[name]()
    content = messages[-1]["content"]
    texts = [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
    assert tuple(re.findall(r"<(\w+)>\n", "\n\n".join(texts))) == PROMPT_FIELDS[name]
