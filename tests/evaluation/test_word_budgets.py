"""CaptionQA under word budgets: every model is asked again under each limit, or its captions are cut."""

import json

import pytest
import yaml
from audited import write_stage_table
from cli_fixtures import tell as tell
from scripted_server import ScriptedServer, say
from synthetic_run import picture, sample

from rubricworks.data.tables import read_rows
from rubricworks.evaluation.scoreboard import read_scoreboard

LONG = "one two three four red"


def reply(_, body):
    """A captioner that obeys a limit by saying the colour first; a taker that finds the colour or cannot tell."""
    text = json.dumps(body["messages"])
    if body["model"] == "captioner":
        return say("red two" if "Use at most 2 words." in text else LONG)
    caption = text.split("<caption>")[1].split("</caption>")[0]
    option = ". red" if "red" in caption else ". Cannot answer from the caption"
    line = next(line for line in text.split("\\n") if line.strip().endswith(option))
    return say(line.split(".")[0][-1])


@pytest.fixture
def evaluate(tell, tmp_path):
    question = {"question": "Which colour is it?", "options": ["red", "green"], "answer": "A"}
    exam = {"sample_id": "a", "questions": json.dumps({"questions": [question]}), "writer": "w", "prompt_version": "1"}
    exams = write_stage_table(
        tmp_path / "exams", "exams", [{**exam, "prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0}]
    )
    samples = write_stage_table(tmp_path / "samples", "samples", [sample("a", picture("red"))])
    server = ScriptedServer(reply)

    def run(model, **settings):
        judge = {"url": server.url, "model": "taker"}
        (tmp_path / "s.yaml").write_text(yaml.safe_dump({"scorers": {"caption_qa": {"judge": judge, **settings}}}))
        done = tell("evaluate", model.format(url=server.url), "--on", samples, "--with", tmp_path / "s.yaml",
                    "--exams", exams, "--out", tmp_path / "out")  # fmt: skip
        assert done.code == 0, done.err
        return read_scoreboard(tmp_path / "out" / "score").models[0].means, server

    yield run
    server.close()


CANNOT = 1 / 2 + 0.05


def test_models_are_asked_again_under_each_limit(evaluate, tmp_path):
    means, server = evaluate("captioner@{url}", word_budgets=[2, 100])
    figures = {name: mean.value for name, mean in means.items() if name.startswith("caption_qa")}
    assert figures == {
        "caption_qa": 1.0,
        **{"caption_qa_budget_2": 1.0, "caption_qa_words_2": 2.0},
        **{"caption_qa_budget_100": 1.0, "caption_qa_words_100": 5.0},
    }
    prompts = [json.dumps(chat.body) for chat in server.chats if chat.body["model"] == "captioner"]
    assert sorted("Use at most" in prompt for prompt in prompts) == [False, True, True]
    responses = {row["sample_id"]: row["response"] for row in read_rows(tmp_path / "out" / "score" / "responses")}
    assert responses == {"a": LONG, "a#2 words": "red two", "a#100 words": LONG}


def test_captions_that_exist_are_cut(evaluate, tmp_path):
    (tmp_path / "mine.jsonl").write_text(json.dumps({"sample_id": "a", "caption": LONG}))
    means, _ = evaluate(str(tmp_path / "mine.jsonl"), word_budgets=[2, 5], budget_by="cut")
    assert means["caption_qa_budget_2"].value == pytest.approx(CANNOT)
    assert means["caption_qa_budget_5"].value == 1.0
    assert means["caption_qa_words_2"].value == 2.0


def test_a_file_without_captions_under_a_limit_has_no_score_there(evaluate, tmp_path):
    (tmp_path / "mine.jsonl").write_text(json.dumps({"sample_id": "a", "caption": LONG}))
    means, _ = evaluate(str(tmp_path / "mine.jsonl"), word_budgets=[2])
    assert "caption_qa_budget_2" not in means
    rows = [row for row in read_rows(tmp_path / "out" / "score") if row["part"] == "budget_2"]
    assert [row["reason"] for row in rows] == ["no response"]
