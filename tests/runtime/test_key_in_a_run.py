"""A server echoes the key in its errors and in its answers: the run's files, its tracking and MLflow never see it."""

import json
import logging

import pytest
from asked_stages import caption, prepare
from grading_stage import launch_here
from key_search import ECHOES, KEY, VARIABLE
from scripted_server import Said, fail, say

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.llm import read_spending
from rubricworks.tracking import TrackingConfig, pipeline_run, stage_run


def echo(number, body):
    """Says what it heard: in plain text, escaped in JSON, in a verdict, in an error page."""
    if number % 4 == 3:
        return fail(500 if number % 8 == 3 else 403, f"<html>{ECHOES[0]} {ECHOES[1]}</html>")
    if "evaluation_rule" not in json.dumps(body["messages"]):
        return Said(say("!").body.replace(b'"!"', json.dumps(ECHOES[0]).encode().replace(b"/", b"\\/")))
    verdicts = [{"id": n + 1, "reasoning": ECHOES[0], "score": 1} for n in range(3)]
    return say(json.dumps({"verdicts": verdicts}))


@pytest.mark.usefixtures("quick_retries")
def test_a_run_whose_models_echo_the_key_keeps_it_out_of_every_file(serve, judge_key, tmp_path):
    samples = prepare(tmp_path / "samples", 24)
    server = serve(echo)
    model = {"url": server.url, "model": "m", "api_key_env": VARIABLE}
    runs, run = tmp_path / "runs", tmp_path / "runs" / "r"
    with pipeline_run(TrackingConfig(), runs, "r", {"judge": model, "committee": {"teachers": [model]}}) as pipeline:
        captions = caption(run, samples, teachers=[model], captions_each=1, shard_size=4)
        with stage_run(run, "caption_committee") as log:
            rows = list(read_rows(captions))
            log.log_table("captions", [{"caption": row["caption"], "endpoint": row["endpoint"]} for row in rows])
            log.log_artifact(captions / ".manifest.json")
        graded = launch_here(run, samples, {"judges": [model, {**model, "model": "n"}]})
        with stage_run(run, "grading") as log:
            cards = [row["scorecard"] for row in read_rows(graded)]
            log.log_table("scorecards", [{"scorecard": card} for card in cards])
        letters = list(read_rows(graded / "dead_letters")) + list(read_rows(captions / "dead_letters"))
        pipeline.log_table("dead_letters", letters)

        server.script = lambda number, body: fail(401, f"wrong key {ECHOES[0]}")
        with pytest.raises(UserError) as caught, stage_run(run, "grading"):
            launch_here(run, samples, {"judges": [{**model, "model": "o"}], "shard_size": 64})
        logging.getLogger("rubricworks").error("the run failed", exc_info=caught.value)
        pipeline.set_tags({"error": str(caught.value)})

    assert {request.headers["Authorization"] for request in server.chats} == {f"Bearer {KEY}"}
    assert {row["caption"] for row in rows} == {"you sent Bearer ***"}
    assert all("you sent Bearer ***" in card for card in cards)
    assert {letter["reason"] for letter in letters} == {"transport"}
    assert all("***" in letter["raw"] for letter in letters)
    assert "***" in json.loads((run / "error.json").read_text())["message"]
    judge_key.see(caught.value, read_spending(run / "spending.sqlite"))
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"mlflow.db", "captions.json", "scorecards.json", "llm_cache.sqlite", "error.json"} <= files
