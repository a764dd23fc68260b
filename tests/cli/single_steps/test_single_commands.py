"""`caption`, `synthesize` and `grade` on their own, in the scene world's images."""

import csv
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audited import write_stage_table
from coloured_squares import SMALL
from scripted_server import Said, fail, say

from rubricworks.data.tables import read_rows
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.training.model_card import Usage, write_card
from rubricworks.training.tiny.student import build_student
from rubricworks.world.scene.export import export_scenes

RUBRIC_FILES = Path(__file__).parents[2] / "data" / "rubric_files"


@pytest.fixture
def images(tmp_path):
    export_scenes(tmp_path / "scenes", seed=3, count=4)
    return tmp_path / "scenes" / "images"


RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="circle", evaluation_rule="says circle", weight=3),
        Criterion(criterion="red", evaluation_rule="says red", weight=2),
    )
)


def judge(_: int, body: dict) -> Said:
    """Scores each criterion by its title's word in the caption; prose about anything that names a hat."""
    text = body["messages"][1]["content"]
    listed = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    caption = text.split("<caption>")[1].split("</caption>")[0]
    if "hat" in caption:
        return say("I would rather not put a number on it.")
    verdicts = [{"id": c["id"], "reasoning": "", "score": int(c["criterion"] in caption)} for c in listed]
    return say(json.dumps({"verdicts": verdicts}))


@pytest.fixture
def tables(tmp_path):
    captions = {"a": "a red circle", "b": "a circle", "c": "a red hat", "d": "not in the rubrics"}
    rows = [{"sample_id": key, "caption": text} for key, text in captions.items()]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "captions.parquet")
    rows = [{"sample_id": key, "rubric": RUBRIC.model_dump_json()} for key in "abc"]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rubrics.parquet")
    return tmp_path / "captions.parquet", tmp_path / "rubrics.parquet"


@pytest.mark.parametrize("call_per", ["response", "criterion"])
def test_grade_gives_weighted_shares_and_none_where_the_judge_wrote_prose(tell, tmp_path, tables, serve, call_per):
    url = serve(judge).url
    result = tell("grade", *tables, "--judge", f"j@{url}", "--call-per", call_per)
    assert result.code == 0, result
    rows = pq.read_table(tmp_path / "scorecards.parquet").to_pylist()
    rewards = {"a": 1.0, "b": pytest.approx(0.6), "c": None, "d": None}
    assert {row["sample_id"]: row["reward"] for row in rows} == rewards
    reasons = {row["sample_id"]: row["reason"] for row in rows}
    assert (reasons["a"], reasons["b"], reasons["d"]) == (None, None, "no rubric for this sample")
    assert reasons["c"].startswith("malformed: ")
    assert "; 2 judged, 1 not, 1 without a rubric" in result.out


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("status", [401, 403])
def test_grade_with_a_wrong_key_asks_once_and_says_which_key(tell, tmp_path, serve, monkeypatch, status):
    monkeypatch.setenv("MY_KEY", "sk-wrong-0123456789")
    rows = [{"sample_id": str(number), "caption": f"caption {number}"} for number in range(207)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "captions.parquet")
    rows = [{"sample_id": row["sample_id"], "rubric": RUBRIC.model_dump_json()} for row in rows]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rubrics.parquet")
    server = serve([fail(status, "incorrect key")])
    result = tell(
        "grade", "captions.parquet", "rubrics.parquet", "--judge", f"j@{server.url}", "--api-key-env", "MY_KEY"
    )
    assert result.code == 2
    errors = [line for line in result.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert f"HTTP {status}" in errors[0]
    assert "check the key in MY_KEY" in errors[0]
    assert len(server.chats) == 1
    assert not (tmp_path / "scorecards.parquet").exists()


def test_grade_goes_on_where_one_request_is_forbidden_for_its_content(tell, tmp_path, tables, serve):
    server = serve(lambda n, body: fail(403, "flagged") if "hat" in json.dumps(body["messages"][1]) else judge(n, body))
    result = tell("grade", *tables, "--judge", f"j@{server.url}")
    assert result.code == 0, result
    assert "2 judged, 1 not" in result.out


def test_grade_sends_the_longest_answer_that_it_was_told(tell, tables, serve):
    server = serve(judge)
    tell("grade", *tables, "--judge", f"j@{server.url}", "--max-tokens", "7000")
    assert {heard.body["max_tokens"] for heard in server.chats} == {7000}


def test_grade_writes_csv_by_name_and_refuses_other_endings(tell, tmp_path, tables, serve):
    server = serve(judge)
    refused = tell("grade", *tables, "--judge", f"j@{server.url}", "--out", "z.xlsx")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert ".parquet or .csv" in refused.err
    assert not server.chats
    assert tell("grade", *tables, "--judge", f"j@{server.url}", "--out", "z.csv").code == 0
    with (tmp_path / "z.csv").open(newline="") as file:
        rows = {row["sample_id"]: row for row in csv.DictReader(file)}
    assert {name: row["reward"] for name, row in rows.items()} == {"a": "1", "b": "0.6", "c": "", "d": ""}
    assert json.loads(rows["a"]["scorecard"])["sample_id"] == "a"


def test_grade_tells_mean_and_criteria_and_writes_them_as_a_page_and_rows(tell, tmp_path, tables, serve):
    result = tell("grade", *tables, "--judge", f"j@{serve(judge).url}")
    assert result.code == 0, result
    lines = result.out.splitlines()
    (mean,) = [line for line in lines if line.startswith("mean reward")]
    assert re.fullmatch(r"mean reward 0\.800 \(.+ to .+\); 2 judged, 1 not, .*", mean)
    (header,) = [
        number for number, line in enumerate(lines) if line.split() == ["met", "judged", "weight", "criterion"]
    ]
    criteria = {line.split("  ")[-1]: line.split()[:2] for line in lines[header + 1 : lines.index(mean)]}
    with (tmp_path / "scorecards.criteria.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for name, (met, _) in criteria.items():
        credits = [float(row["credit"]) for row in rows if row["criterion"] == name and row["credit"]]
        assert f"{100 * sum(credits) / len(credits):.0f}" == met.rstrip("%")
    assert {row["sample_id"] for row in rows} == {"a", "b", "c"}
    assert {row["error"] for row in rows if not row["credit"]} == {"malformed"}
    page = (tmp_path / "scorecards.html").read_text()
    for text in ("mean reward", "not judged", *criteria):
        assert text in page


def test_grade_finds_the_rubric_by_prompt_id(tell, tmp_path, tables, serve):
    rows = [{"prompt_id": "a", "response": "a cat"}, {"response": "nobody"}]
    (tmp_path / "r.jsonl").write_text(json.dumps(rows[0]))
    assert tell("grade", "r.jsonl", tables[1], "--judge", f"j@{serve(judge).url}").code == 0
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused = tell("grade", "r.jsonl", tables[1], "--judge", "j@http://127.0.0.1:9/v1")
    assert "row 2 has no sample_id or prompt_id" in refused.err


def test_grade_shows_the_judge_of_answers_the_prompts_of_a_set_in_its_own_format(tell, tmp_path, serve):
    source = [json.loads(line) for line in (RUBRIC_FILES / "healthbench.jsonl").read_text().splitlines()]
    names = [row["prompt_id"] for row in source]
    lines = [{"sample_id": name, "response": f"answer to {name}"} for name in names]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def all_met(_, body):
        listed = json.loads(body["messages"][1]["content"].split("<criteria>\n")[1].split("\n</criteria>")[0])
        return say(json.dumps({"verdicts": [{"id": c["id"], "reasoning": "", "score": 1} for c in listed]}))

    server = serve(all_met)
    arguments = ("grade", "answers.jsonl", RUBRIC_FILES / "healthbench.jsonl", "--judge", f"j@{server.url}")
    result = tell(*arguments)
    assert result.code == 0, result
    asked = {heard.body["messages"][1]["content"] for heard in server.chats}
    assert len(asked) == len(source)
    for row in source:
        (text,) = (request for request in asked if f"answer to {row['prompt_id']}" in request)
        assert row["prompt"][-1]["content"] in text
    rows = pq.read_table(tmp_path / "scorecards.parquet").to_pylist()
    assert [row["response"] for row in rows] == [line["response"] for line in lines]
    # All met: the negative points count too, against the sum of the positive ones (HealthBench, section 4).
    points = [[rubric["points"] for rubric in row["rubrics"]] for row in source]
    expected = [max(0, sum(some)) / sum(row for row in some if row > 0) for some in points]
    assert [row["reward"] for row in rows] == pytest.approx(expected)
    assert tell(*arguments, "--subject", "caption", "--out", "c.parquet").code == 0
    assert not any(source[0]["prompt"][-1]["content"] in json.dumps(heard.body) for heard in server.chats[len(asked) :])


def test_grade_keeps_rows_without_text_and_grades_empty_ones(tell, tmp_path, tables, serve):
    rows = [{"sample_id": "a", "caption": None}, {"sample_id": "b"}, {"sample_id": "c", "text": ""}]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = tell("grade", "captions.jsonl", tables[1], "--judge", f"j@{serve(judge).url}")
    assert result.code == 0, result
    graded = pq.read_table(tmp_path / "scorecards.parquet").to_pylist()
    assert [(row["caption"], row["reward"], row["reason"]) for row in graded] == [
        (None, None, "no text"), (None, None, "no text"), ("", 0.0, None),
    ]  # fmt: skip
    for row, problem in (
        ('{"sample_id": "a", "words": "x"}', "no column response or caption or text"),
        ('{"sample_id": "a", "caption": 5}', "row 1, of a: the caption is 5, and not a text"),
    ):
        (tmp_path / "captions.jsonl").write_text(row)
        refused = tell("grade", "captions.jsonl", tables[1], "--judge", "j@http://127.0.0.1:9/v1")
        assert (refused.code, refused.err.count("\n"), problem in refused.err) == (2, 1, True)


def test_captions_that_a_spreadsheet_would_carry_out_are_texts_in_csv(tell, tmp_path, serve):
    pq.write_table(pa.table({"sample_id": ["a"], "caption": ["=1+1"]}), tmp_path / "captions.parquet")
    rubric = json.dumps({"criteria": [{"criterion": "hat", "weight": 1}]})
    pq.write_table(pa.table({"sample_id": ["a"], "rubric": [rubric]}), tmp_path / "rubrics.parquet")
    told = tell("grade", "captions.parquet", "rubrics.parquet", "--judge", f"j@{serve(judge).url}", "--out", "z.csv")
    assert told.code == 0
    with (tmp_path / "z.csv").open(newline="") as file:
        assert [row["caption"] for row in csv.DictReader(file)] == ["'=1+1"]


def test_grade_again_asks_the_judge_only_for_what_it_could_not_judge(tell, tables, serve):
    server = serve(judge)
    tell("grade", *tables, "--judge", f"j@{server.url}")
    before = len(server.chats)
    tell("grade", *tables, "--judge", f"j@{server.url}")
    assert len(server.chats) - before == 3  # the caption with the hat, and two repair turns


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda captions, rubrics: captions.write_text("no table"), "cannot be read as Parquet"),
        (
            lambda captions, rubrics: pq.write_table(pa.table({"sample_id": ["a"]}), captions),
            "no column response",
        ),
        (
            lambda captions, rubrics: pq.write_table(pa.table({"sample_id": ["a"], "rubric": ["{}"]}), rubrics),
            "rubrics.parquet: row 1: it has no criteria",
        ),
        (
            lambda captions, rubrics: pq.write_table(pa.table({"sample_id": ["z"], "caption": [""]}), captions),
            "no sample_id of",
        ),
    ],
)
def test_grade_names_the_table_that_is_wrong(tell, tables, change, message):
    change(*tables)
    result = tell("grade", *tables, "--judge", "j@http://127.0.0.1:9/v1")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err


def test_an_endpoint_is_written_as_model_at_url(tell, tables):
    result = tell("grade", *tables, "--judge", "http://127.0.0.1:9/v1")
    assert result.code == 2
    assert "MODEL@URL" in result.err


def test_caption_asks_an_endpoint_about_every_image_and_not_again(tell, tmp_path, images, serve):
    server = serve([say("a quiet scene")])
    for _ in range(2):
        result = tell("caption", images, "--model", f"vlm@{server.url}", "--prompt", "what is it?", "--out", "out")
        assert result.code == 0, result
    rows = pq.read_table(tmp_path / "out" / "captions.parquet").to_pylist()
    assert {row["caption"] for row in rows} == {"a quiet scene"}
    assert {row["source"].rpartition("/")[2] for row in rows} == {path.name for path in images.glob("*.png")}
    assert len(server.chats) == 4
    assert "what is it?" in server.chats[0].text
    assert "look agreed on" not in result.err


def test_caption_asks_a_trained_model_with_the_prompt_and_the_length_of_its_training(tell, tmp_path, images):
    model = build_student(["describe the image", "a red circle"], tmp_path / "model", config=SMALL)
    usage = Usage("describe the image", 5)
    write_card(model, usage, trained_by="train_policy", data={}, config={})
    result = tell("caption", images, "--model", model, "--out", "out")
    assert result.code == 0, result
    (prompt,) = {row["prompt"] for row in read_rows(tmp_path / "out" / "prepare", columns=["prompt"])}
    assert prompt == usage.prompt
    tokens = [row["completion_tokens"] for row in read_rows(tmp_path / "out" / "caption_student")]
    assert max(tokens) <= 5
    result = tell("caption", images, "--model", model, "--prompt", "a red", "--max-new-tokens", "2", "--out", "other")
    assert result.code == 0, result
    assert {row["prompt"] for row in read_rows(tmp_path / "other" / "prepare")} == {"a red"}
    assert max(row["completion_tokens"] for row in read_rows(tmp_path / "other" / "caption_student")) <= 2


def test_caption_works_with_one_image(tell, tmp_path, images, serve):
    for path in sorted(images.glob("*.png"))[1:]:
        path.unlink()
    (images / "metadata.jsonl").unlink(missing_ok=True)
    result = tell("caption", images, "--model", f"vlm@{serve([say('a scene')]).url}", "--out", "out")
    assert result.code == 0, result
    assert pq.read_table(tmp_path / "out" / "captions.parquet").num_rows == 1


def test_rejected_images_are_told_of_on_the_terminal(tell, images, serve, recwarn):
    (images / "notes.jpg").write_text("a shopping list")
    result = tell("caption", images, "--model", f"vlm@{serve([say('a scene')]).url}", "--out", "out")
    assert result.code == 0, result
    (line,) = [text for text in (str(warning.message) for warning in recwarn) if "rejected" in text]
    assert "1 rejected, 4 images used" in line
    assert "notes.jpg: not an image" in line


def test_caption_of_a_folder_without_any_usable_image_is_one_line(tell, tmp_path, serve):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "notes.jpg").write_text("a shopping list")
    result = tell("caption", "photos", "--model", f"vlm@{serve([say('x')]).url}", "--out", "out")
    assert result.code == 2
    assert "none of the images is usable" in result.err.splitlines()[-1]
    assert "notes.jpg: not an image" in result.err


def test_caption_ends_in_one_line_when_every_answer_fails_and_asks_anew_when_mended(tell, tmp_path, images, serve):
    answers = [fail(400, "no images please")]
    server = serve(lambda _, body: answers[0])
    arguments = ["caption", images, "--model", f"vlm@{server.url}", "--out", "out"]
    result = tell(*arguments)
    assert result.code == 2
    assert result.err.rstrip().splitlines()[-1].startswith("error: no captions came of 4 samples: caption by vlm: 4 x")
    assert "no images please" in result.err
    answers[0] = say("now it works")
    assert tell(*arguments).code == 0
    assert pq.read_table(tmp_path / "out" / "captions.parquet").num_rows == 4


def test_pictures_captioned_by_another_prompt_have_the_rubrics_of_the_first(tell, tmp_path, images, serve):
    def model(number: int, body: dict) -> Said:
        return judge(number, body) if "<criteria>" in str(body["messages"]) else say("a red circle")

    url = serve(model).url
    for prompt in ("Describe the image.", "What is here?"):
        tell("caption", images, "--model", f"m@{url}", "--prompt", prompt, "--out", f"by {prompt}")
    more = {"writer": "w", "prompt_version": "1", "coverage": "full", "candidates": 5}
    more |= {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0}
    names = [row["sample_id"] for row in read_rows(tmp_path / "by Describe the image." / "prepare")]
    rubrics = [{"sample_id": name, "rubric": RUBRIC.model_dump_json()} | more for name in names[:3]]
    write_stage_table(tmp_path / "synthesize_rubrics", "rubrics", rubrics)
    graded = tell("grade", "by What is here?", "synthesize_rubrics", "--judge", f"m@{url}")
    assert graded.code == 0, graded.err
    assert "matched 3 of 4 responses with a rubric" in graded.err
    files = {path.name for path in images.iterdir() if path.suffix in (".png", ".jpg")}
    rows = pq.read_table(tmp_path / "scorecards.parquet").to_pylist()
    assert {row["source"].rpartition("/")[2] for row in rows} <= files
    with (tmp_path / "scorecards.criteria.csv").open(newline="") as file:
        named = {row["file_name"] for row in csv.DictReader(file)}
    assert len(named) == 3
    assert named <= files
    assert all(name in (tmp_path / "scorecards.html").read_text() for name in named)
    options = ["--on", images, "--with", "rubric", "--judge", f"m@{url}", "--rubrics", "synthesize_rubrics"]
    scored = tell("evaluate", "theirs=by What is here?/captions.parquet", *options, "--out", "scored")
    assert scored.code == 0, scored.err
    assert "theirs: responses to 4 of 4 samples\nrubrics: of 3 of 4 samples\n" in scored.err
    assert re.search(r"^theirs +greedy +1\.00", scored.out, re.MULTILINE), scored.out


def test_synthesize_writes_a_rubric_from_what_the_committee_agrees_on(tell, tmp_path, images, serve):
    def draft(title: str, teachers: list[str]) -> dict:
        words = dict.fromkeys(("description", "evaluation_rule", "justification", "teacher_consensus"), title)
        fields = {"criterion": title, "weight": 2, "student_already_met": False, "reference_teachers": teachers}
        return {**words, **fields}

    def models(_: int, body: dict) -> Said:
        if body["model"] != "writer":
            return say(f"{body['model']} sees a circle")
        both = ["Model 1", "Model 2"]
        return say(json.dumps({"rubrics": [draft("circle", both), draft("hat", ["Model 9"])]}))

    url = serve(models).url
    committee = ["--committee", f"one@{url}", "--committee", f"two@{url}"]
    result = tell("synthesize", images, *committee, "--writer", f"writer@{url}", "--no-guards", "--out", "out")
    assert result.code == 0, result
    rows = pq.read_table(tmp_path / "out" / "rubrics.parquet").to_pylist()
    assert len(rows) == 4
    assert {row["source"].rpartition("/")[2] for row in rows} == {path.name for path in images.glob("*.png")}
    for row in rows:
        (criterion,) = Rubric.model_validate_json(row["rubric"]).criteria
        assert criterion.criterion == "circle"
        assert set(criterion.reference_teachers) == {"one", "two"}


@pytest.mark.usefixtures("quick_retries")
def test_images_without_a_rubric_have_a_reason_and_missing_guards_are_told(tell, tmp_path, images, serve, recwarn):
    answers = iter(["nothing", "no consensus", "prose", "prose", "prose"])

    def draft(teachers: list[str]) -> str:
        words = dict.fromkeys(("description", "evaluation_rule", "justification", "teacher_consensus"), "circle")
        fields = {"criterion": "circle", "weight": 2, "student_already_met": False, "reference_teachers": teachers}
        return json.dumps({"rubrics": [{**words, **fields}]})

    def models(_: int, body: dict) -> Said:
        if body["model"] != "writer":
            return say("a circle")
        answer = next(answers, "rubric")
        if answer == "prose":
            return say("I would rather not.")
        return say('{"rubrics": []}' if answer == "nothing" else draft(["Model 9"] if answer == "no consensus" else
                   ["Model 1", "Model 2"]))  # fmt: skip

    url = serve(models).url
    committee = ["--committee", f"one@{url}", "--committee", f"two@{url}"]
    result = tell("synthesize", images, *committee, "--writer", f"writer@{url}", "--out", "out")
    assert result.code == 0, result
    rows = read_rows(tmp_path / "out" / "synthesize_rubrics" / "without_rubric")
    reasons = sorted(row["reason"] for row in rows)
    written = pq.read_table(tmp_path / "out" / "rubrics.parquet").num_rows
    assert written + len(reasons) == 4
    assert "the writer asks nothing" in reasons
    assert any("0 of 2 candidates state it" in reason for reason in reasons)
    told = "\n".join(str(warning.message) for warning in recwarn)
    assert f"{len(reasons)} samples got no rubric" in told
    assert f"wrote no guard into {written} of {written} rubrics" in told


def test_discriminative_rubrics_want_a_student(tell, images):
    result = tell("synthesize", images, "--committee", "a@http://127.0.0.1:9", "--writer", "b@http://127.0.0.1:9",
                "--coverage", "discriminative", "--out", "out")  # fmt: skip
    assert result.code == 2
    assert "--student" in result.err
