"""Dead letters and budgets over HTTP: lists, asking again, what a run spent of its plan."""

import json
import sys
import textwrap
from contextlib import contextmanager

import pytest
from pydantic import SecretStr
from served_api import TOKEN, Caller, ask, bearer, exchange, served, wait_for
from trained_run import LETTERS_STAGE as STAGE
from trained_run import write_letters, write_run

from rubricworks.llm.spending import SPENDING_FILE, Budget, merge_spending, write_budget
from rubricworks.platform_api.schemas.runs import StageSpendingBody
from rubricworks.platform_api.services.run_figures import burn_down, total_spending
from rubricworks.platform_api.services.submission import local_runs
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.recipe.files import recipe_path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder)
    write_letters(run)
    (run / "ledger.jsonl").write_text('{"stage": "caption_committee", "seconds": 12.5}\n')
    row = {"calls": 7, "cached": 2, "requests": 6, "prompt_tokens": 100, "completion_tokens": 20, "cost": 0.25}
    row["cached_tokens"] = 0
    rows = [{"stage": STAGE, "purpose": "caption", "model": f"m{n}", "seconds": 1.0, "errors": {}, **row} for n in "12"]
    merge_spending(run / SPENDING_FILE, rows)
    write_budget(run, Budget(dollars=2.0))
    return folder


@contextmanager
def served_letters(folder):
    """Callers of a service that has indexed its dead letters."""
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/dead-letters", **bearer())[1]["items"])
        yield Caller(url)


@pytest.fixture(scope="module")
def caller(folder):
    with served_letters(folder) as caller:
        yield caller


def test_stages_with_letters_are_listed_and_the_letters_by_page_and_reason(caller):
    (stage,) = caller.get("dead-letters")["items"]
    assert (stage["run"], stage["stage"], stage["letters"]) == ("today-1", STAGE, 3)
    first = caller.get("runs/today-1/dead-letters?limit=2")
    rest = caller.get(f"runs/today-1/dead-letters?limit=2&cursor={first['next_cursor']}")
    assert [item["sample_id"] for item in first["items"] + rest["items"]] == ["0", "1", "2"]
    assert [item["sample_id"] for item in caller.get("runs/today-1/dead-letters?reason=malformed")["items"]] == ["1"]


def test_a_letter_shows_no_password_and_its_page_no_markup(caller):
    assert "pa55word" not in json.dumps(caller.get("runs/today-1/dead-letters"))
    status, _, body = exchange(f"{caller.pages}/runs/today-1/dead-letters", **bearer())
    assert (status, b"&lt;b&gt;0" in body, b"<b>0" in body) == (200, True, False)
    assert exchange(f"{caller.pages}/dead-letters", **bearer())[0] == 200


def test_a_budget_is_the_sum_of_the_ledger(caller):
    budget = caller.get("runs/today-1/budget")
    assert (budget["tokens"], budget["dollars"], budget["caps"]["dollars"]) == (240, 0.5, 2.0)
    (stage,) = [stage for stage in budget["stages"] if stage["stage"] == STAGE]
    assert (stage["seconds"], stage["calls"], stage["cached"]) == (12.5, 14, 4)
    _, _, body = exchange(f"{caller.pages}/runs/today-1?tab=costs", **bearer())
    assert b"of $2.00 allowed" in body


@pytest.mark.slow
@pytest.mark.parametrize("path", ["error.json", f"state/{STAGE}/error.json"])
def test_a_stage_that_failed_has_its_time_on_the_page_and_in_the_budget(tmp_path, path):
    run = write_run(tmp_path)
    write_letters(run)
    (run / "outcome.json").unlink()
    (run / STAGE / "done.json").unlink()
    (run / "ledger.jsonl").write_text('{"stage": "prepare", "seconds": 2.5}\n')
    row = {"calls": 7, "cached": 2, "requests": 6, "prompt_tokens": 100, "completion_tokens": 20, "cost": 0.25}
    row["cached_tokens"] = 0
    merge_spending(
        run / SPENDING_FILE, [{"stage": STAGE, "purpose": "caption", "model": "m", "seconds": 1.0, "errors": {}, **row}]
    )
    write_budget(run, Budget(dollars=2.0))
    (run / path).parent.mkdir(parents=True, exist_ok=True)
    (run / path).write_text(json.dumps({"stage": STAGE, "message": "no room", "seconds": 7.5}))
    with served_letters(tmp_path) as caller:
        stages = {stage["stage"]: stage["seconds"] for stage in caller.get("runs/today-1/budget")["stages"]}
        pages = (f"{caller.pages}/runs/today-1{tab}" for tab in ("", "?tab=costs"))
        page = "".join(exchange(address, **bearer())[2].decode() for address in pages)
    assert (stages["prepare"], stages[STAGE]) == (2.5, 7.5)
    assert '<span class="failed" style="left:25.00%;width:75.00%">' in page
    assert '<span class="tile-name">Time</span><span class="tile-value">10 s</span>' in page


def test_a_run_of_a_method_that_plans_no_calls_has_a_page(caller, folder):
    recipe = folder / "today-1" / "recipe.yaml"
    before = recipe.read_bytes()
    recipe.write_bytes(recipe_path("retrain-laptop").read_bytes())
    try:
        status, _, body = exchange(f"{caller.pages}/runs/today-1", **bearer())
    finally:
        recipe.write_bytes(before)
    assert (status, b"Stages" in body) == (200, True)


def test_a_burn_down_starts_at_the_cap_and_loses_what_each_stage_spent():
    def stage(name, seconds, dollars, planned):
        values = (name, seconds, 1, 0, 10, dollars, 1, 10, planned)
        return StageSpendingBody(**dict(zip(StageSpendingBody.model_fields, values, strict=True)))

    spending = total_spending(Budget(dollars=10.0), [stage("a", 5.0, 1.0, 2.0), stage("b", 10.0, 4.0, 3.0)])
    assert burn_down(spending) == ("dollars", [(0, 10), (5, 8), (15, 5)], [(0, 10), (5, 9), (15, 5)])
    assert burn_down(total_spending(Budget(), [stage("a", 5.0, 0.0, 0.0)])) == (
        "tokens",
        [(0, 10), (5, 0)],
        [(0, 10), (5, 0)],
    )
    assert burn_down(total_spending(Budget(), [])) is None
    assert (
        burn_down(total_spending(Budget(dollars=10.0), [stage("a", 0.0, 0.0, 2.0).model_copy(update={"calls": 0})]))
        is None
    )


def test_a_runner_asks_again_and_the_log_has_it(tmp_path):
    write_letters(write_run(tmp_path))
    with served_letters(tmp_path) as caller:
        path = f"runs/today-1/dead-letters/{STAGE}/ask-again"
        assert caller.post("viewer", path)[0] == 403
        status, answer = caller.post("runner", path)
        assert (status, answer["letters"], answer["resumed"]) == (200, 3, False)
        assert answer["command"] == "rubricworks run --resume today-1", "nobody submitted it here"
        assert not (tmp_path / "today-1" / STAGE / "done.json").exists()
        assert list((tmp_path / "today-1" / STAGE / "dead_letters").glob("part-*")) == []
        (change,) = caller.get("changes?action=run.ask_again")["items"]
        assert (change["who"], change["details"]) == ("runner", {"stage": STAGE, "letters": 3, "resumed": False})
        assert caller.post("runner", "runs/today-1/dead-letters/train_policy/ask-again")[0] == 409


CHILD = """
    import json, os, sys, time
    place = sys.argv[sys.argv.index("--runs") + 1]
    run = f"{place}/{sys.argv[sys.argv.index('--resume' if '--resume' in sys.argv else '--run') + 1]}"
    os.makedirs(run, exist_ok=True)
    with open(f"{run}/calls", "a") as calls:
        calls.write(json.dumps(sys.argv[1:-2]) + chr(10))
    if "recipe.yaml" in sys.argv:
        open(f"{run}/recipe.yaml", "w").write(open("recipe.yaml").read())
    print("at work", flush=True)
    while not os.path.exists(f"{run}/end"):
        time.sleep(0.01)
    os.remove(f"{run}/end")
"""


def calls(run):
    return [json.loads(line) for line in (run / "calls").read_text().splitlines()]


@pytest.fixture
def submitted(tmp_path, monkeypatch):
    """A service and a run that was submitted to it, has ended, and lacks answers; its child is a stand-in."""
    (tmp_path / "child.py").write_text(textwrap.dedent(CHILD))
    monkeypatch.setattr(local_runs, "COMMAND", (sys.executable, str(tmp_path / "child.py")))
    runs, policy = tmp_path / "runs", tmp_path / "policy.yaml"
    runs.mkdir()
    policy.write_text("hosts: {judge.example: []}\n")
    settings = ApiSettings(
        storage=str(runs), token=SecretStr(TOKEN), index_seconds=0.05, local_runs=True, submissions=str(policy)
    )
    recipe = recipe_path("quickstart").read_text().replace("${RUBRICWORKS_WORLD_URL}/oracle", "http://judge.example/v1")
    with served(settings) as url:
        caller = Caller(url)
        assert caller.post("runner", "submissions", {"recipe": recipe, "run": "mine"})[0] == 201
        wait_for(lambda: (runs / "mine" / "recipe.yaml").exists())
        write_letters(runs / "mine")
        end(caller, runs / "mine")
    return settings, runs / "mine", policy


def end(caller, run):
    (run / "end").touch()
    wait_for(lambda: caller.get("submissions/mine")["state"] == "ended")


def test_ask_again_resumes_a_run_that_was_submitted_here_once(submitted):
    settings, run, _ = submitted
    path = f"runs/mine/dead-letters/{STAGE}/ask-again"
    with served(settings) as url:  # not the process that it was submitted to
        caller = Caller(url)
        wait_for(lambda: caller.get("dead-letters")["items"])
        assert b"the run goes on here" in exchange(f"{url}/runs/mine/dead-letters", **bearer())[2]
        answers = [caller.post("runner-2", path, key="the-same-key") for _ in range(2)]
        assert answers[0] == answers[1]
        assert (answers[0][0], answers[0][1]["letters"], answers[0][1]["resumed"]) == (200, 3, True)
        wait_for(lambda: len(calls(run)) == 2)
        assert calls(run) == [["recipe.yaml", "--run", "mine"], ["--resume", "mine"]]
        assert caller.get("submissions/mine")["state"] == "going"
        status, body = caller.post("runner-2", path)
        assert (status, body["detail"]) == (409, "mine is going already; only a run that has ended is resumed")
        end(caller, run)
        assert caller.get("submissions/mine")["message"] == ""
        status, body = caller.post("runner-2", path)
        assert (status, "has no finished table of dead letters" in body["detail"]) == (409, True)
        assert caller.get("submissions/mine")["state"] == "ended"
        log = [
            (item["action"], item["details"]) for item in caller.get("changes")["items"] if item["subject"] == "mine"
        ]
        assert log[0] == ("run.ask_again", {"stage": STAGE, "letters": 3, "resumed": True})
        assert [action for action, _ in log] == ["run.ask_again", "run.submit"]
    assert len(calls(run)) == 2


@pytest.mark.slow
def test_ask_again_is_refused_while_a_run_is_going_or_not_admitted(submitted):
    settings, run, policy = submitted
    path = f"runs/mine/dead-letters/{STAGE}/ask-again"
    with served(settings) as url:
        caller = Caller(url)
        wait_for(lambda: caller.get("dead-letters")["items"])
        other = {"recipe": recipe_path("quickstart").read_text(), "run": "other"}
        assert caller.post("runner-2", "submissions", other)[0] == 201
        status, body = caller.post("runner-2", path)
        assert (status, "other is going on this machine" in body["detail"]) == (409, True)
        wait_for(lambda: (run.parent / "other" / "recipe.yaml").exists())
        (run.parent / "other" / "end").touch()
        wait_for(lambda: caller.get("submissions/other")["state"] == "ended")
    policy.write_text("hosts: {}\n")
    with served(settings) as url:
        caller = Caller(url)
        status, body = caller.post("runner-3", path)
        assert (status, "judge.example" in str(body["fields"])) == (422, True)
        assert caller.get("submissions/mine")["state"] == "ended"
    assert (run / STAGE / "done.json").exists()
    assert len(calls(run)) == 1
