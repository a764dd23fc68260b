"""`caption`, `synthesize` and `grade` on their own, in the scene world's images."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scripted_server import Said, fail, say

from rubricworks.rubrics import Criterion, Rubric
from rubricworks.world.scene.export import export_scenes


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
def test_grade_gives_each_caption_its_weighted_share_and_none_where_the_judge_wrote_prose(
    tell, tmp_path, tables, serve, call_per
):
    url = serve(judge).url
    result = tell("grade", *tables, "--judge", f"j@{url}", "--call-per", call_per)
    assert result.code == 0, result
    rows = pq.read_table(tmp_path / "scorecards.parquet").to_pylist()
    assert {row["sample_id"]: row["reward"] for row in rows} == {"a": 1.0, "b": pytest.approx(0.6), "c": None}
    assert "mean reward 0.800; 2 judged, 1 not" in result.out


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
        (lambda captions, rubrics: pq.write_table(pa.table({"sample_id": ["a"]}), captions), "no column 'caption'"),
        (
            lambda captions, rubrics: pq.write_table(pa.table({"sample_id": ["a"], "rubric": ["{}"]}), rubrics),
            "rubric of a: criteria: Field required",
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
    for row in rows:
        (criterion,) = Rubric.model_validate_json(row["rubric"]).criteria
        assert criterion.criterion == "circle"
        assert set(criterion.reference_teachers) == {"one", "two"}


def test_discriminative_rubrics_want_a_student(tell, images):
    result = tell("synthesize", images, "--committee", "a@http://127.0.0.1:9", "--writer", "b@http://127.0.0.1:9",
                "--coverage", "discriminative", "--out", "out")  # fmt: skip
    assert result.code == 2
    assert "--student" in result.err
