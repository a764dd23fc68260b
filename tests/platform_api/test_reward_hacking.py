"""Reward hacking over HTTP: what a training wrote, where the alarm's limits were crossed, an audit's cases."""

import json

import pytest
from served_api import ask, exchange, served, wait_for
from stored_audit import write_audit
from trained_run import STAGE, write_run, write_table

from rubricworks.platform_api.settings import ApiSettings

_FELL = "the held-out judge fell from 0.60 to 0.20"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder)
    steps = [
        {"step": step, "reward": 0.5 + (0.3 if step > 40 else 0), "objects": 2.0 if step <= 40 else 4.0}
        | {"length": 10.0, "repetition": 0.0, "held_out": {1: 0.6, 25: 0.5, 50: 0.2, 60: 0.2}.get(step)}
        for step in range(1, 61)
    ]
    (run / STAGE / "steps.jsonl").write_text("\n".join(map(json.dumps, steps)))
    alarm = {"step": 52, "reasons": ["objects <b>named</b> went from 2.0 to 3.2", _FELL]}
    (run / STAGE / "alarm.json").write_text(json.dumps(alarm))
    scores = [
        {"sample_id": sample, "model": model, "decoding": "greedy", "scorer": "oracle", "part": "f1", "value": value}
        for model, values in (("base", (0.8, 0.6)), ("policy", (0.5, 0.3)), ("other", (1.0, 1.0)))
        for sample, value in zip("ab", values, strict=True)
    ]
    write_table(run / "score", "scores", scores)
    write_audit(run / "audit")
    with served(ApiSettings(storage=str(folder), index_seconds=0.05)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs/today-1/stages/{STAGE}/groups")[1].get("items"))
        yield url


def test_signals_are_reward_held_out_judge_and_an_unseen_score(url):
    signals = ask(f"{url}/api/v1/runs/today-1/stages/{STAGE}/signals")[1]
    assert (len(signals["rewards"]), signals["held_out"]) == (60, [[1, 0.6], [25, 0.5], [50, 0.2], [60, 0.2]])
    assert signals["measure"] == {"scorer": "oracle", "part": "f1", "points": [[0, 0.7], [60, 0.4]]}
    assert (signals["alarm"]["step"], signals["config"]["window"]) == (52, 20)


def test_a_trace_has_its_limit_and_the_step_that_crossed_it(url):
    traces = {trace["name"]: trace for trace in ask(f"{url}/api/v1/runs/today-1/stages/{STAGE}/signals")[1]["traces"]}
    # Windows of 20: after n of the 20 later steps with twice the objects, the mean is 2 + n / 10; the limit is 3.
    assert (traces["objects"]["high"], traces["objects"]["crossed"]) == (3.0, 51)
    assert (traces["held_out"]["low"], traces["held_out"]["crossed"]) == (pytest.approx(0.5), 50)
    assert traces["length"]["crossed"] is None


def test_what_fired_is_told_from_what_only_rose_and_what_rose_together(url):
    crossings = ask(f"{url}/api/v1/runs/today-1/stages/{STAGE}/signals")[1]["crossings"]
    told = {crossing["name"]: (crossing["first"], crossing["steps"], crossing["fired"]) for crossing in crossings}
    # The held-out judge was asked at 4 steps, the objects are measured at each.
    assert told == {"held_out": (50, 2, True), "objects": (51, 10, False)}
    by_name = {crossing["name"]: crossing for crossing in crossings}
    assert by_name["held_out"]["together"] == {by_name["objects"]["words"]: 1}, "at step 60"
    body = exchange(f"{url}/runs/today-1/hacking")[2].decode()
    assert "fired: beyond its limit from step 50" in body
    assert "beyond its limit at step 51, without the alarm" in body
    assert body.count('class="chart alarmed"') == 1


def test_an_audit_has_its_figures_and_its_cases_by_failure_mode(url):
    (audit,) = ask(f"{url}/api/v1/runs/today-1/audits")[1]["items"]
    assert audit["stage"] == "audit"
    figures = ask(f"{url}/api/v1/runs/today-1/stages/audit/audit")[1]
    cases = ask(f"{url}/api/v1/runs/today-1/stages/audit/audit/cases?limit=200")[1]["items"]
    assert figures["settings"]["text"]["irrelevant"]["average"]["value"] == pytest.approx(1 / 4)
    assert [item["sample_id"] for item in cases] == ["x", "y", "w"], "the modes take turns, the heaviest first"
    assert cases[1]["criteria"][1] == {
        **{"criterion": "Colour", "weight": 1.0, "essential": True, "deserved": 0.0},
        **{"settings": {"Default": 1.0}, "reasoning": "because"},
    }
    some = ask(f"{url}/api/v1/runs/today-1/stages/audit/audit/cases?mode=irrelevant")[1]["items"]
    assert [item["sample_id"] for item in some] == ["x"]


def test_the_page_shows_both_and_foreign_text_as_text(url):
    status, _, body = exchange(f"{url}/runs/today-1/hacking")
    assert status == 200
    assert b"The alarm fired at step 52" in body
    assert b"objects &lt;b&gt;named" in body
    assert b"beyond its limit at step 51" in body
    assert b"q &lt;script&gt;" in body
    assert b"<i>3" not in body


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "is_told"), [(43, True), (44, False)])
def test_a_training_in_which_the_alarm_could_not_fire_yet_is_no_sign_of_health(tmp_path, steps, is_told):
    run = write_run(tmp_path)
    rows = [{"step": step, "reward": 0.5, "objects": 2.0, "held_out": 0.5} for step in range(1, steps + 1)]
    (run / STAGE / "steps.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with served(ApiSettings(storage=str(tmp_path), index_seconds=0.05)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/runs/today-1/stages/{STAGE}/groups")[1].get("items"))
        page = exchange(f"{url}/runs/today-1/hacking")[2].decode()
    # Two windows of 20 steps, and the alarm's patience of 5: it fires at step 44 at the earliest.
    assert ("Too short to tell: the alarm can fire from step 44 on, and this training has 43." in page) is is_told
    assert ("The alarm did not fire" in page, "stayed within its limits" in page) == (not is_told, not is_told)


def test_a_stage_without_steps_and_a_run_without_audit_are_told(url):
    assert ask(f"{url}/api/v1/runs/today-1/stages/prepare/signals")[0] == 404
    assert ask(f"{url}/api/v1/runs/today-1/stages/prepare/audit")[0] == 404
