"""Official caption benchmarks in local files: CaptionQA's questions, each source's own references."""

import json

import pytest
from audited import write_stage_table
from cli_fixtures import tell as tell
from scripted_server import ScriptedServer, say
from synthetic_run import picture, sample

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.caption_qa import read_exams
from rubricworks.evaluation.suites.official_sets import read_caption_qa, read_references

COLOURS = {"a": "red", "b": "green", "c": "blue"}
OPTIONS = ["red", "green", "blue", "black", "white", "pink"]


@pytest.fixture
def samples(tmp_path):
    rows = [{**sample(key, picture(colour)), "source": f"set/{key}.png"} for key, colour in COLOURS.items()]
    return write_stage_table(tmp_path / "samples", "samples", rows)


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(
        "\n".join(json.dumps({"file_name": f"{key}.png", "caption": f"It is {COLOURS[key]}."}) for key in "abc")
    )
    return path


def test_caption_qas_questions_are_exams_of_any_length(tell, samples, mine, tmp_path):
    question = {"question": "Which colour is it?", "choices": OPTIONS}
    entries = {f"images/{key}.png": [{**question, "answer": COLOURS[key]}] for key in "ab"}
    entries["images/a.png"].append({"question": "Is it big?", "choices": ["Yes", "No"], "answer": "Maybe"})
    (tmp_path / "qa.json").write_text(json.dumps(entries))

    def reply(_, body):
        text = body["messages"][-1]["content"]
        text = text if isinstance(text, str) else text[-1]["text"]
        colour = next(name for name in COLOURS.values() if f"It is {name}." in text)
        line = next(line for line in text.splitlines() if line.endswith(colour) and line[1:2] in ".)")
        return say(line[0])

    server = ScriptedServer(reply)
    arguments = ["--with", "caption_qa", "--judge", f"taker@{server.url}", "--exams", tmp_path / "qa.json"]
    done = tell("evaluate", mine, "--on", samples, *arguments, "--out", tmp_path / "out")
    server.close()
    assert done.code == 0, done.err
    assert "1 questions cannot be used; 1 samples have none" in done.err
    values = {row["sample_id"]: row["value"] for row in read_rows(tmp_path / "out" / "score")
              if row["scorer"] == "caption_qa"}  # fmt: skip
    assert values == {"a": 1.0, "b": 1.0}
    assert len(read_exams(tmp_path / "out" / "exam_set")["a"].questions[0].options) == 6


def test_references_of_a_source_take_the_place_of_the_samples_own(tell, samples, mine, tmp_path):
    entry = {"ref_model": "GPT-4o-0806", "captions": {"human": "It is red.", "GPT-4o-0806": "A picture."}}
    (tmp_path / "arena.json").write_text(json.dumps({"a.png": entry, "b.png": entry}))
    done = tell("evaluate", mine, "--on", samples, "--with", "own_scorers:word_count",
                "--references", f"GPT-4o-0806={tmp_path / 'arena.json'}", "--out", tmp_path / "out")  # fmt: skip
    assert done.code == 0, done.err
    rows = {row["sample_id"]: row["references"] for row in read_rows(tmp_path / "out" / "referenced")}
    assert rows == {"a": ["A picture."], "b": ["A picture."], "c": []}
    assert "1 samples have no reference there" in done.err
    assert read_references(tmp_path / "arena.json")["a.png"] == ("It is red.",)  # the expert's by default


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.json", "[1]", "give one JSON object"),
        ("r.json", '{"a.png": ""}', "a.png: give a caption, or a list of captions"),
        ("r.json", '{"x/a.png": "A", "y/a.png": "B"}', "a.png comes twice"),
        ("r.json", '{"a.png": {"captions": {"gpt": "A"}}}', "has no caption by human; it has gpt"),
        ("r.jsonl", '{"file_name": "a.png"}', "give a caption"),
    ],
)
def test_references_of_another_form_are_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        read_references(tmp_path / name)


def test_questions_of_another_form_are_refused(tmp_path):
    (tmp_path / "qa.json").write_text('{"a.png": [{"question": "Which?", "choices": ["x"], "answer": "x"}]}')
    with pytest.raises(UserError, match="no usable question"):
        read_caption_qa(tmp_path / "qa.json")


def test_responses_that_are_no_utf8_or_come_twice_are_refused_by_their_line(tell, samples, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b'{"sample_id": "a", "caption": "red"}\n{"sample_id": "b", "caption": "gr\xfcn"}\n')
    done = tell("evaluate", bad, "--on", samples, "--with", "own_scorers:word_count", "--out", tmp_path / "out")
    assert done.code == 2
    assert "bad.jsonl:2: not UTF-8" in done.err
    bad.write_text('{"sample_id": "a", "caption": "red"}\n{"sample_id": "a", "caption": "blue"}\n')
    done = tell("evaluate", bad, "--on", samples, "--with", "own_scorers:word_count", "--out", tmp_path / "other")
    assert (done.code, "two responses to a" in done.err) == (2, True)


def test_a_model_that_left_samples_out_is_reported_and_keeps_rows_for_them(tell, samples, tmp_path):
    some = tmp_path / "some.jsonl"
    some.write_text('{"sample_id": "a", "caption": "red"}\n{"sample_id": "b", "caption": ""}\n')
    done = tell("evaluate", some, "--on", samples, "--with", "own_scorers:two_parts", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    rows = [row for row in read_rows(tmp_path / "out" / "score") if row["scorer"] == "two_parts"]
    assert {row["reason"] for row in rows if row["sample_id"] == "c"} == {"no response"}
    assert {row["value"] for row in rows if row["sample_id"] == "b"} == {0.0}  # an empty caption is a caption
    assert "some has no score" in (tmp_path / "out" / "leaderboard.md").read_text()
