"""`rubricworks evaluate`: models of every kind, one table, and what is refused."""

import json
import shutil
from pathlib import Path

import pytest
from audited import write_stage_table
from cli_fixtures import tell as tell
from scripted_server import ScriptedServer, say
from synthetic_run import picture, sample

from rubricworks.data.tables import read_rows

COLOURS = {"a": "red", "b": "green", "c": "blue"}


@pytest.fixture
def samples(tmp_path) -> Path:
    rows = [sample(key, picture(colour)) for key, colour in COLOURS.items()]
    return write_stage_table(tmp_path / "samples", "samples", rows)


@pytest.fixture
def captions(tmp_path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(json.dumps({"file_name": f"x/{key}.png", "caption": COLOURS[key]}) for key in COLOURS))
    return path


def means(out: Path) -> dict[str, dict[str, float]]:
    models = json.loads((out / "score" / "scores.json").read_bytes())["models"]
    return {model["model"]: {figure: mean["value"] for figure, mean in model["means"].items()} for model in models}


def test_files_and_endpoints_stand_in_one_table_with_a_page(tell, samples, captions, tmp_path):
    server = ScriptedServer([say("a big red thing")])
    other_model = f"theirs=some/model@{server.url}"
    out = tmp_path / "out"
    scorers = ["--with", "own_scorers:word_count"]
    done = tell("evaluate", captions, other_model, "--on", samples, *scorers, "--out", out)
    assert done.code == 0, done.err
    assert means(out)["mine"]["word_count"] == 1
    assert means(out)["theirs"]["word_count"] == 4
    assert means(out)["theirs"]["length_tokens"] == 5  # as the server counts; a file of captions has no tokens
    lines = done.out.splitlines()
    assert any(line.split()[:3] == ["mine", "greedy", "1.00"] for line in lines), done.out
    page = (out / "scores.html").read_text()
    assert "a big red thing" in page
    assert "Simulated" not in page
    request_count = len(server.chats)

    again = tell("evaluate", captions, other_model, "--on", samples, *scorers, "--out", out)
    other = tell("evaluate", captions, other_model, "--on", samples, "--with", "own_scorers:every_second", "--out",
                     tmp_path / "other", "--reuse", out)  # fmt: skip
    server.close()
    assert (again.code, other.code) == (0, 0), other.err
    assert (request_count, len(server.chats)) == (3, 3)
    assert list(read_rows(tmp_path / "other" / "score" / "responses")) == list(read_rows(out / "score" / "responses"))


def test_samples_of_the_scene_world_are_labelled_as_simulated(tell, samples, captions, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").write_text("world: {scenes: 3}")
    shutil.move(samples, run / "prepare")
    done = tell("evaluate", captions, "--on", run, "--with", "own_scorers:word_count", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "simulated: the scene world stood in" in done.out
    assert "Simulated" in (tmp_path / "out" / "scores.html").read_text()


def test_a_changed_file_is_not_reused(tell, samples, captions, tmp_path):
    scorers = ["--on", samples, "--with", "own_scorers:word_count"]
    assert tell("evaluate", captions, *scorers, "--out", tmp_path / "out").code == 0
    captions.write_text(captions.read_text().replace('"red"', '"a red thing"'))
    done = tell("evaluate", captions, *scorers, "--out", tmp_path / "next", "--reuse", tmp_path / "out")
    assert done.code == 0, done.err
    assert means(tmp_path / "next")["mine"]["word_count"] == pytest.approx(5 / 3)


def test_a_folder_of_images_is_a_source(tell, captions, tmp_path):
    images = tmp_path / "photos"
    images.mkdir()
    for key, colour in COLOURS.items():
        (images / f"{key}.png").write_bytes(picture(colour))
    done = tell("evaluate", captions, "--on", images, "--with", "own_scorers:word_count", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert {row["response"] for row in read_rows(tmp_path / "out" / "score" / "responses")} == {*COLOURS.values()}


def test_responses_to_other_samples_are_one_line_and_no_dash(tell, samples, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"sample_id": "elsewhere", "caption": "red"}')
    scorers = ["--with", "own_scorers:word_count", "--out", tmp_path / "out"]
    done = tell("evaluate", other, "--on", samples, *scorers)
    assert (done.code, done.out) == (2, "")
    assert "error: other: none of its responses is to one of the 3 samples of" in done.err
    assert "it names elsewhere, they are a (" in done.err


def test_scorers_whose_judge_has_no_address_here_are_refused_before_a_model_is_asked(
    tell, samples, tmp_path, monkeypatch
):
    """The scorers of the quickstart are judged by the scene world, which runs with that recipe."""
    monkeypatch.delenv("RUBRICWORKS_WORLD_URL", raising=False)
    server = ScriptedServer([say("a big red thing")])
    done = tell("evaluate", f"m=some@{server.url}", "--on", samples, "--with", "quickstart", "--out", tmp_path / "out")
    server.close()
    assert done.code == 2
    assert "RUBRICWORKS_WORLD_URL is not set; it holds the URL of scorers." in done.err
    assert len(server.chats) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere/at/all", "--with", "oracle"], "nowhere/at/all: there is no such model; give a model directory"),
        (["{captions}", "--with", "orakle"], "--with orakle: no scorer (rubric, arena"),
        (["{captions}", "--with", "likert", "--with", "dpg"], "likert, dpg: these are scorers of different responses"),
        (["{captions}", "--with", "likert"], "scorers.likert.judge: Field required; give --judge MODEL@URL"),
        (["{captions}", "{captions}", "--with", "own_scorers:word_count"], "two models are called mine; name them"),
        (["{captions}", "--against", "x", "--with", "own_scorers:word_count"], "--against x: no such model"),
        (["{captions}", "--with", "own_scorers:one_argument"], "own_scorers:one_argument: it must take"),
        (["{captions}", "--with", "no_module_of_mine:f"], "there is no module no_module_of_mine"),
        (["{captions}", "--judge", "x", "--with", "likert"], "x: write an endpoint as MODEL@URL"),
        (["{captions}", "--with", "rubric", "--judge", "j@http://127.0.0.1:9"], "rubric scores none of the samples"),
    ],
)
def test_what_is_wrong_is_one_line(tell, samples, captions, tmp_path, arguments, message):
    args = [argument.format(captions=captions) for argument in arguments]
    done = tell("evaluate", *args, "--on", samples, "--out", tmp_path / "out")
    assert done.code == 2
    assert message in done.err
    assert len([line for line in done.err.splitlines() if line.startswith("error: ")]) == 1


def test_a_run_without_samples_and_a_folder_without_a_model_are_refused(tell, captions, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.yaml").write_text("name: x")
    done = tell(
        "evaluate", captions, "--on", tmp_path / "run", "--with", "own_scorers:word_count", "--out", tmp_path / "out"
    )
    assert (done.code, "the run has no finished samples" in done.err) == (2, True)
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").mkdir()
    done = tell(
        "evaluate", tmp_path / "run", "--on", captions, "--with", "own_scorers:word_count", "--out", tmp_path / "out"
    )
    assert (done.code, "no model (config.json)" in done.err) == (2, True)
