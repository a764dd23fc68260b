"""New samples, compared with those that the stages draw themselves; endpoints are checked first."""

import asyncio
import json

import pytest
from growing_source import draw, prepare
from question_rows import many
from question_rows import write as questions

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.methods.retrain.champion import check_endpoints
from rubricworks.methods.retrain.stages.find_new_samples import Config as FindNewSamples
from rubricworks.methods.retrain.stages.new_samples import count_new, new_images
from rubricworks.runtime.job import open_job
from rubricworks.runtime.launch import launch
from rubricworks.stages.data.prepare import Config as Prepare
from rubricworks.tracking import SampleKey, StagedRecipe


def test_what_a_draw_leaves_out_is_not_new_and_what_it_takes_instead_is(tmp_path):
    """Counted as `prepare` itself does it: what a second run of it has that the first had not."""
    draw(tmp_path / "images", range(40))
    config = Prepare(source=str(tmp_path / "images"), held_out=4, max_train=10)

    def made(run: str) -> list[SampleKey]:
        out = prepare(tmp_path / run, tmp_path / "images", max_train=10)
        return [SampleKey(**row) for row in read_rows(out, columns=[*SampleKey._fields])]

    first = made("first")
    assert asyncio.run(new_images(config, first, 500)) == 0
    draw(tmp_path / "images", range(40, 80))
    counts = asyncio.run(new_images(config, first, 500))
    second = {key.sample_id for key in made("second")}
    assert counts == len(second - {key.sample_id for key in first}) > 0


def test_new_questions_about_known_pictures_count_and_rephrased_ones_do_not(tmp_path):
    rows = many(pictures=8, each=2)
    config = {"source": questions(tmp_path / "source", rows[:12]), "held_out": 2}
    run = tmp_path / "run"
    out = launch("prepare_questions", json.dumps(config), str(run), {})
    keys = [SampleKey(**row) for row in read_rows(out, columns=[*SampleKey._fields])]
    assert len(keys) == 12
    again = {**rows[0], "question": f"  {rows[0]['question'].upper()} "}
    questions(tmp_path / "source", [*rows, again])
    recipe = StagedRecipe(name="mine", pipeline="rlr3", stages={"prepare_questions": config})
    job = open_job("find_new_samples", FindNewSamples(), run, {})
    assert count_new(recipe, keys, 500, job) == 4


def test_what_any_corpus_gains_is_new_and_what_two_of_them_share_counts_once(tmp_path):
    rows = many(pictures=12, each=2)
    config = {
        "source": questions(tmp_path / "first", rows[:12]),
        "more": [{"source": questions(tmp_path / "second", rows[8:16])}],
        "held_out": 2,
    }
    run = tmp_path / "run"
    out = launch("prepare_questions", json.dumps(config), str(run), {})
    keys = [SampleKey(**row) for row in read_rows(out, columns=[*SampleKey._fields])]
    assert len(keys) == 16
    recipe = StagedRecipe(name="mine", pipeline="rlr3", stages={"prepare_questions": config})
    job = open_job("find_new_samples", FindNewSamples(), run, {})
    assert count_new(recipe, keys, 500, job) == 0
    questions(tmp_path / "second", rows[8:])
    assert count_new(recipe, keys, 500, job) == 8


def test_known_pictures_with_prompts_of_their_own_are_not_new_where_they_have_moved(tmp_path):
    draw(tmp_path / "images", range(12))
    lines = [{"file_name": path.name, "prompt": f"describe {path.stem}"} for path in (tmp_path / "images").glob("*")]
    (tmp_path / "images" / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    config = {"source": str(tmp_path / "images"), "held_out": 2, "own_prompts": True}
    out = launch("prepare", json.dumps(config), str(tmp_path / "run"), {})
    keys = [SampleKey(**row) for row in read_rows(out, columns=[*SampleKey._fields])]
    moved = [SampleKey(key.sample_id, key.split, f"elsewhere/{key.source}") for key in keys]
    assert len(keys) == 12
    assert asyncio.run(new_images(Prepare.model_validate(config), moved, 500)) == 0


def test_missing_endpoints_of_the_champions_recipe_stop_the_run():
    judge = {"url": "http://127.0.0.1:9", "model": "judge"}
    recipe = StagedRecipe(
        name="mine",
        pipeline="balcaprl",
        stages={"score": {"type": "answers", "scorers": {"answers": {"judge": judge}}}},
    )
    with pytest.raises(UserError, match=r"1 of 1 endpoints of mine fail: score.scorers.answers.judge: "):
        check_endpoints(recipe)
