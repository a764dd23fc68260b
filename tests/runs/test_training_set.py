"""Training sets that a run is exported as, each read by the loader of the program that it is for."""

import asyncio
import json
import shutil
from io import BytesIO
from pathlib import Path

import pyarrow.csv as pc
import pytest
from coloured_squares import square
from PIL import Image
from scripted_server import say
from trained_run import rubric, write_table

from rubricworks.adapters.trl import RubricReward
from rubricworks.data.sources import image_entries
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient

PROMPT = "Describe the image."
NAMED = {"a": "brick.jpg", "b": "sea.png", "c": "door.jpg"}


@pytest.fixture
def run(tmp_path) -> Path:
    """A run of three pictures: two to train on, of which one has no rubric, and one held out."""
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text("name: quickstart\npipeline: rubicap\n")
    pictures = {"a": square("top-left", "red"), "b": square("top-left", "blue"), "c": square("top-right", "red")}
    samples = [
        {"sample_id": name, "split": "held_out" if name == "c" else "train", "image": picture, "prompt": PROMPT}
        | {"image_digest": name, "references": [], "source": f"photos/{NAMED[name]}"}
        for name, picture in pictures.items()
    ]
    write_table(folder / "prepare", "samples", samples)
    rubrics = [{"sample_id": name, "rubric": json.dumps(rubric(f"Names {name}"))} for name in "ac"]
    write_table(folder / "synthesize_rubrics", "rubrics", rubrics)
    return folder


def titles(text: str) -> list[str]:
    return [criterion["criterion"] for criterion in json.loads(text)["criteria"]]


def pixel(image) -> tuple[int, ...]:
    return image.convert("RGB").getpixel((6, 6))


@pytest.mark.parametrize("form", ["trl", "hf"])
def test_datasets_loads_pictures_prompts_and_rubrics_by_split(tell, run, tmp_path, form):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    told = tell("export", "first", form)
    assert told.out == f"first-{form}: 1 rows in train, 1 rows in test, as {form}\n"
    splits = datasets.load_dataset(str(tmp_path / f"first-{form}"), cache_dir=str(tmp_path / "cache"))
    assert {name: rows["sample_id"][:] for name, rows in splits.items()} == {"train": ["a"], "test": ["c"]}
    (row,) = splits["train"]
    assert row["prompt"] == ([{"role": "user", "content": PROMPT}] if form == "trl" else PROMPT)
    assert titles(row["rubric"]) == ["Names a"]
    assert row["file_name"] == "brick.jpg"
    assert pixel(row["image"]) == pixel(Image.open(BytesIO(square("top-left", "red"))))


def test_trl_prepares_a_row_and_its_rubric_reward_grades_it(tell, run, tmp_path, serve):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    data_utils = pytest.importorskip("trl.data_utils", reason="trl is not installed")
    tell("export", "first", "trl")
    (row,) = datasets.load_dataset(str(tmp_path / "first-trl"), split="train", cache_dir=str(tmp_path / "cache"))
    assert data_utils.is_conversational(row)
    content = data_utils.prepare_multimodal_messages(row["prompt"], [row["image"]])[0]["content"]
    assert [part["type"] for part in content] == ["image", "text"]
    server = serve([say(json.dumps({"verdicts": [{"id": 1, "reasoning": "it does", "score": 1}]}))])
    reward = RubricReward(Grader(ChatClient(server.url, "judge"), exposure="image"))
    columns = {name: [value] for name, value in row.items() if name != "prompt"}
    assert asyncio.run(reward(prompts=[row["prompt"]], completions=["a"], **columns)) == [1.0]
    assert "Names a" in server.chats[0].text


def test_csv_and_json_lines_are_folders_of_images_as_recipes_read_them(tell, run, tmp_path):
    for form in ("csv", "jsonl"):
        tell("export", run, form, "--out", form)
        (entry,) = image_entries(str(tmp_path / form / "train"))
        assert entry.prompt == PROMPT, form
        assert entry.read() == square("top-left", "red"), form
    (row,) = pc.read_csv(tmp_path / "csv" / "train" / "metadata.csv").to_pylist()
    assert (row["sample_id"], row["source"], titles(row["rubric"])) == ("a", "photos/brick.jpg", ["Names a"])


def test_a_run_without_rubrics_and_a_folder_that_is_there_are_refused_in_one_line(tell, run, tmp_path):
    (tmp_path / "there").mkdir()
    told = tell("export", run, "hf", "--out", "there")
    assert (told.code, told.err) == (2, "error: --out there is there already; name a new folder\n")
    shutil.rmtree(run / "synthesize_rubrics")
    told = tell("export", run, "hf")
    assert told.err == f"error: {run}: no finished rubrics of a run are here; a training set needs them\n"
    told = tell("export", "frist", "hf")
    assert told.err == "error: no run 'frist' in runs; `rubricworks runs list --runs runs` shows them\n"
