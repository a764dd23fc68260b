"""Runs on Kubeflow beside the local ones: submitted where the operator says, listed, stopped, told when it is away."""

import asyncio
import html
import http.client
import json
import sqlite3
import time
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from forked import Forked
from kubeflow_api import FakeKubeflow, Refusal
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served, wait_for

from rubricworks.cli import cli
from rubricworks.errors import UserError
from rubricworks.platform_api.pagination import encode_cursor
from rubricworks.platform_api.services.submission import kubeflow_runs
from rubricworks.platform_api.serving import listening_socket
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.recipe.files import recipe_path

pytestmark = pytest.mark.slow

RECIPE = """\
name: mine
data: {source: "s3://datasets/photographs", held_out: 4}
warm_up: {student: tiny, sft: {steps: 4}}
committee: {teachers: [{url: "${JUDGE_URL}", model: one}, {url: "${JUDGE_URL}", model: two}]}
rubric: {writer: {url: "${JUDGE_URL}", model: writer}}
policy: {reward: {type: rubric, judge: {url: "${JUDGE_URL}", model: judge}}, algorithm: {type: grpo, steps: 2}}
evaluation: {scorers: {rubric: {judge: {url: "${JUDGE_URL}", model: judge}}}}
"""
POLICY = """\
hosts: {"${JUDGE_URL}": []}
places: ["s3://datasets/"]
cluster:
  storage: s3://rubricworks/runs
  images: {pull_policy: Never}
  pools: {cpu: {}}
  stages: {default: {pool: cpu}}
  env: {RUBRICWORKS_API: "http://platform"}
  secrets: {runner: {token: RUBRICWORKS_API_TOKEN}}
"""


@pytest.fixture
def kubeflow(tmp_path, monkeypatch):
    with FakeKubeflow(version="2.17.0") as fake:
        monkeypatch.setenv("RUBRICWORKS_KUBEFLOW", fake.url)
        monkeypatch.setattr(kubeflow_runs, "_FRESH", 0.0)
        (tmp_path / "policy.yaml").write_text(POLICY)
        yield fake


@pytest.fixture
def url(tmp_path, kubeflow):
    settings = ApiSettings(
        storage=str(tmp_path / "runs"),
        token=SecretStr(TOKEN),
        submissions=str(tmp_path / "policy.yaml"),
        kubeflow=kubeflow.url,
        index_seconds=0.05,
    )
    (tmp_path / "runs").mkdir()
    with served(settings) as url:
        yield url


def post(url, path, body=None):
    key = {"Idempotency-Key": f"key-{time.monotonic_ns()}"}
    return ask(f"{url}/api/v1/{path}", method="POST", body=body or {}, **key, **bearer())


def test_a_recipe_runs_where_the_operator_placed_it_is_listed_and_stopped(url, kubeflow):
    status, body = post(url, "submissions", {"recipe": RECIPE, "run": "monday"})
    assert status == 201, body
    assert (body["place"], body["state"]) == ("kubeflow", "going")
    run = kubeflow.only("runs")
    assert run["display_name"] == "monday"
    assert run["runtime_config"]["parameters"]["run"] == "s3://rubricworks/runs/monday"
    assert json.loads(run["runtime_config"]["parameters"]["prepare_config"])["source"] == "s3://datasets/photographs"
    assert body["page"].endswith(run["run_id"])
    (listed,) = ask(f"{url}/api/v1/kubeflow/runs", **bearer())[1]["items"]
    assert (listed["name"], listed["state"], listed["pipeline"]) == ("monday", "PENDING", "rubicap")
    assert post(url, "submissions", {"recipe": RECIPE, "run": "monday"})[0] == 409
    assert post(url, "runs/monday/stop")[1] == {"run": "monday", "place": "kubeflow"}
    assert run["state"] == "CANCELING"
    assert post(url, "runs/nobody/stop")[0] == 409
    log = [item["action"] for item in ask(f"{url}/api/v1/changes", **bearer())[1]["items"]]
    assert log == ["run.stop", "run.submit"]


SERVICE = """
import os, sys
from pydantic import SecretStr
from rubricworks.platform_api.settings import ApiSettings
from served_api import TOKEN, served

os.environ["RUBRICWORKS_KUBEFLOW"] = sys.argv[3]
with served(ApiSettings(storage=sys.argv[1], token=SecretStr(TOKEN), submissions=sys.argv[2])) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


def kill_at_next_run(kubeflow, service, moment):
    """Kill a service that asks for a run, before Kubeflow makes it, or before it answers."""
    make_run = kubeflow._make_run

    def make_and_kill(content):
        kubeflow._make_run = make_run
        run = make_run(content) if moment == "made" else {}
        service.kill()
        service.wait()
        return run

    kubeflow._make_run = make_and_kill


@pytest.mark.parametrize(("moment", "name"), [("asked", "monday"), ("made", None)])
def test_a_run_whose_service_is_killed_while_it_asks_kubeflow_is_made_once(tmp_path, kubeflow, moment, name):
    runs, policy = tmp_path / "runs", tmp_path / "policy.yaml"
    body = {"recipe": RECIPE, "place": "kubeflow"} | ({"run": name} if name else {})
    asked = {"method": "POST", "body": body, "Idempotency-Key": "killed-once", **bearer()}
    service = Forked(SERVICE, runs, policy, kubeflow.url)
    killed = service.stdout.readline().strip()
    kill_at_next_run(kubeflow, service, moment)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(f"{killed}/api/v1/submissions", **asked)
    assert len(kubeflow.kept["runs"]) == (moment == "made")
    with sqlite3.connect(runs / "platform.db") as database:
        database.execute("UPDATE keyed_answers SET created_at = '2020-01-01 00:00:00.000000' WHERE status IS NULL")
    with served(ApiSettings(storage=str(runs), token=SecretStr(TOKEN), submissions=str(policy))) as url:
        answers = [ask(f"{url}/api/v1/submissions", **asked) for _ in range(2)]
        log = [item["action"] for item in ask(f"{url}/api/v1/changes", **bearer())[1]["items"]]
        listed = ask(f"{url}/api/v1/submissions", **bearer())[1]["items"]
    run, (status, answer) = kubeflow.only("runs"), answers[0]
    assert (status, answers[1]) == (201, answers[0])
    assert (listed, log) == ([answer], ["run.submit"])
    assert (answer["run"], answer["state"]) == (run["display_name"], "going")
    assert answer["page"].endswith(run["run_id"])


def test_a_run_of_which_kubeflow_answered_nothing_is_known_by_its_name(url, kubeflow):
    make_run = kubeflow._make_run

    def make_and_fail(content):
        make_run(content)
        raise Refusal(503, 14, "upstream connect error or disconnect before headers")

    kubeflow._make_run = make_and_fail
    status, body = post(url, "submissions", {"recipe": RECIPE})
    assert status == 201, body
    assert body["page"].endswith(kubeflow.only("runs")["run_id"])


def test_a_name_that_kubeflow_has_from_elsewhere_is_refused_before_it_is_taken(url, kubeflow):
    run = start(url, kubeflow, "monday")["monday"]
    run["display_name"] = "tuesday"
    status, body = post(url, "submissions", {"recipe": RECIPE, "run": "tuesday"})
    assert (status, "Kubeflow has a run tuesday already" in body["detail"]) == (409, True)
    assert [item["run"] for item in ask(f"{url}/api/v1/submissions", **bearer())[1]["items"]] == ["monday"]


def start(url, kubeflow, *names):
    """Runs of one recipe by these names; their records at Kubeflow."""
    for name in names:
        assert post(url, "submissions", {"recipe": RECIPE, "run": name})[0] == 201
    return {run["display_name"]: run for run in kubeflow.kept["runs"].values()}


def test_runs_are_filtered_and_listed_page_by_page_by_kubeflow_itself(url, kubeflow):
    runs = start(url, kubeflow, "monday", "tuesday", "wednesday", "thursday")
    kubeflow.end(runs["monday"]["run_id"], "SUCCEEDED")
    kubeflow.end(runs["tuesday"]["run_id"], "FAILED")

    def pages(query):
        cursor, result = "", []
        while cursor is not None:
            status, page = ask(f"{url}/api/v1/kubeflow/runs?limit=1{query}{cursor and f'&cursor={cursor}'}", **bearer())
            assert (status, page.get("problem"), len(page["items"])) == (200, "", 1), page
            result.append(page["items"][0]["name"])
            cursor = page["next_cursor"]
        return result

    assert pages("") == ["thursday", "wednesday", "tuesday", "monday"]
    assert pages("&state=going&search=Day") == ["thursday", "wednesday"]
    assert pages("&state=failed") == ["tuesday"]
    assert pages("&pipeline=rubicap&search=nesday") == ["wednesday"]
    assert ask(f"{url}/api/v1/kubeflow/runs?pipeline=other", **bearer())[1]["items"] == []
    cursor = ask(f"{url}/api/v1/kubeflow/runs?limit=1", **bearer())[1]["next_cursor"]
    status, body = ask(f"{url}/api/v1/kubeflow/runs?limit=1&state=going&cursor={cursor}", **bearer())
    assert (status, "another filter" in body["detail"]) == (422, True)
    forged = encode_cursor("bm90IGEgdG9rZW4=", "", "", "")
    assert ask(f"{url}/api/v1/kubeflow/runs?cursor={forged}", **bearer())[0] == 422
    kubeflow.answer_instead = lambda method, path: (401, "application/json", b'{"message": "the token is too old"}')
    status, body = ask(f"{url}/api/v1/kubeflow/runs?cursor={forged}", **bearer())
    assert (status, "the token is too old (HTTP 401)" in body["problem"]) == (200, True), "the service's own token"
    kubeflow.answer_instead = lambda method, path: None
    page = exchange(f"{url}/kubeflow-runs?state=going&search=day", **bearer())[2]
    assert (b"wednesday" in page, b"monday" in page) == (True, False)


def test_a_run_is_shown_with_its_stages_the_reason_of_a_failure_logs_and_links(url, kubeflow, tmp_path):
    run = start(url, kubeflow, "monday")["monday"]
    folder = tmp_path / "runs" / "monday"
    run["runtime_config"]["parameters"]["run"] = folder.as_uri()
    tasks = {"prepare": "SUCCEEDED", "warm-up": "FAILED", "outcome": "FAILED"}
    kubeflow.end(run["run_id"], "FAILED", tasks)
    (folder / "tracking").mkdir(parents=True)
    (folder / "recipe.yaml").write_text("name: mine\n")
    (folder / "error.json").write_text('{"stage": "warm_up", "message": "no GPU has 40 GiB free"}')
    (folder / "tracking" / "settings.json").write_text('{"config": {"uri": "https://mlflow.example"}}')
    (folder / "tracking" / "pipeline.delivered.json").write_text('{"run": "a1b2"}')
    assert ask(f"{url}/api/v1/runs/monday", **bearer())[1]["state"] in ("queued", "failed"), "it is listed at once"
    wait_for(lambda: ask(f"{url}/api/v1/runs/monday", **bearer())[1]["state"] == "failed")
    shown = ask(f"{url}/api/v1/kubeflow/runs/monday", **bearer())[1]
    assert shown == ask(f"{url}/api/v1/kubeflow/runs/{run['run_id']}", **bearer())[1]
    assert (shown["state"], shown["run"], shown["problem"]) == ("FAILED", "monday", "")
    assert [(stage["stage"], stage["state"], stage["error"]) for stage in shown["stages"]] == [
        ("prepare", "SUCCEEDED", ""),
        ("warm_up", "FAILED", "no GPU has 40 GiB free"),
        ("outcome", "FAILED", "Kubeflow gives no reason; the stage's log has it"),
    ]
    assert all(stage["started"] < stage["ended"] and "/k8s/pod/logs?" in stage["log"] for stage in shown["stages"])
    assert shown["links"] == {"MLflow": "https://mlflow.example/#/runs/a1b2", "Kubeflow": shown["page"]}
    page = exchange(f"{url}/kubeflow-runs/{run['run_id']}", **bearer())[2].decode()
    assert "no GPU has 40 GiB free" in page
    assert all(html.escape(stage["log"]) in page for stage in shown["stages"])
    assert 'href="/runs/monday"' in page
    status, body = ask(f"{url}/api/v1/kubeflow/runs/nobody", **bearer())
    assert (status, "no run 'nobody'" in body["detail"]) == (404, True)
    kubeflow.answer_instead = lambda method, path: (503, "text/plain", b"no healthy upstream")
    assert ask(f"{url}/api/v1/kubeflow/runs/monday", **bearer())[1]["problem"]
    assert ask(f"{url}/api/v1/kubeflow/runs/tuesday", **bearer())[0] == 503


def test_a_run_that_is_stopped_by_its_id_is_stopping_under_its_name(url, kubeflow):
    run = start(url, kubeflow, "monday")["monday"]
    assert post(url, f"runs/{run['run_id']}/stop")[0] == 200
    assert ask(f"{url}/api/v1/submissions/monday", **bearer())[1]["state"] == "stopping"
    assert ask(f"{url}/api/v1/changes", **bearer())[1]["items"][0]["subject"] == "monday"
    assert b"<button>Stop" not in exchange(f"{url}/kubeflow-runs/{run['run_id']}", **bearer())[2]


def test_run_in_a_bucket_can_be_stopped_through_kubeflow(url, kubeflow):
    runs = start(url, kubeflow, "monday", "monday-2")
    kubeflow.end(runs["monday"]["run_id"], "FAILED")

    async def problems(*names):
        service = kubeflow_runs.KubeflowRuns(None)
        return [await service.stop_problem(name) for name in names]

    ended, going = asyncio.run(problems("monday", "monday-2"))
    assert (going, "no run of this name is going" in ended) == ("", True)
    kubeflow.answer_instead = lambda method, path: (503, "text/plain", b"no healthy upstream")
    assert "HTTP 503" in asyncio.run(problems("monday-2"))[0]


@pytest.mark.parametrize("part", ["env", "secrets"])
def test_a_service_whose_runs_would_move_aliases_themselves_does_not_start(tmp_path, monkeypatch, part):
    lines = [line for line in POLICY.splitlines() if not line.startswith(f"  {part}:")]
    (tmp_path / "policy.yaml").write_text("\n".join(lines))
    monkeypatch.setenv("RUBRICWORKS_SUBMISSIONS", str(tmp_path / "policy.yaml"))
    with pytest.raises(UserError, match=r"policy\.yaml: cluster: .*runs on Kubeflow request their promotions"):
        listening_socket("127.0.0.1", 0, str(tmp_path))


def test_a_recipe_that_brings_its_own_cluster_is_refused(url, kubeflow):
    own = RECIPE + 'cluster: {storage: "s3://rubricworks/runs", images: {cpu: evil.example/image}}\n'
    status, body = post(url, "submissions", {"recipe": own})
    assert (status, [field["field"] for field in body["fields"]]) == (422, ["cluster"])
    assert kubeflow.kept["runs"] == {}


def test_a_stopped_backend_is_a_banner_and_refuses_a_recipe_which_may_come_again(url, kubeflow):
    post(url, "submissions", {"recipe": RECIPE, "run": "monday"})
    assert b"monday" in exchange(f"{url}/kubeflow-runs", **bearer())[2]
    kubeflow.answer_instead = lambda method, path: (503, "text/plain", b"no healthy upstream")
    status, _, page = exchange(f"{url}/kubeflow-runs", **bearer())
    assert (status, b'class="banner alarm"' in page, b"monday" in page) == (200, True, True)
    assert ask(f"{url}/api/v1/kubeflow/runs", **bearer())[1]["problem"]
    assert exchange(f"{url}/runs", **bearer())[0] == 200
    for path, body in (("submissions", {"recipe": RECIPE, "run": "tuesday"}), ("runs/monday/stop", {})):
        status, problem = post(url, path, body)
        assert (status, problem["title"]) == (503, "Kubeflow unavailable")
        assert "HTTP 503" in problem["detail"]
    kubeflow.answer_instead = lambda method, path: None
    assert post(url, "submissions", {"recipe": RECIPE, "run": "tuesday"})[0] == 201


def submit_form(url, **fields):
    head = {"Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": f"key-{time.monotonic_ns()}"}
    status, _, page = exchange(f"{url}/new-run", method="POST", body=urlencode(fields).encode(), **head, **bearer())
    return status, html.unescape(page.decode())


@pytest.mark.parametrize(
    ("moment", "status", "words"),
    [
        ("away", 503, "HTTP 503"),
        ("log in", 503, "a page to log in"),
        ("away at the start", 503, "start run tuesday: no healthy upstream (HTTP 503)"),
        ("refuses", 422, "start run tuesday: too many parameters (HTTP 400)"),
    ],
)
def test_a_form_that_kubeflow_does_not_take_keeps_its_recipe(url, kubeflow, moment, status, words):
    def refuse(content):
        raise Refusal(503, 14, "no healthy upstream") if status == 503 else Refusal(400, 3, "too many parameters")

    if "start" in moment or moment == "refuses":
        kubeflow._make_run = refuse
    else:
        answer = (302, "text/html", b"") if moment == "log in" else (503, "text/plain", b"no healthy upstream")
        kubeflow.answer_instead = lambda method, path: answer
    result, page = submit_form(url, recipe=f"{RECIPE}# edited", run="tuesday", overrides="seed=7", place="kubeflow")
    assert (result, words in page) == (status, True), page
    assert "# edited</textarea>" in page
    assert ('value="tuesday"' in page, "seed=7</textarea>" in page) == (True, True)
    assert ask(f"{url}/api/v1/submissions", **bearer())[1]["items"] == []


def test_the_command_line_chooses_the_place_of_a_run_as_the_page_does(tmp_path, kubeflow, monkeypatch):
    (tmp_path / "mine.yaml").write_text(RECIPE)
    submissions, runs = str(tmp_path / "policy.yaml"), str(tmp_path / "runs")
    settings = ApiSettings(storage=runs, token=SecretStr(TOKEN), submissions=submissions, local_runs=True)
    monkeypatch.setenv("RUBRICWORKS_API_TOKEN", TOKEN)
    submit = ["runs", "submit", str(tmp_path / "mine.yaml"), "--run", "monday", "--place"]
    with served(settings) as url:
        monkeypatch.setenv("RUBRICWORKS_API", url)
        printed = CliRunner().invoke(cli, [*submit, "kubeflow"]).output
    assert printed.startswith("run monday on Kubeflow\n"), printed
    assert kubeflow.only("runs")["display_name"] == "monday"
    with served(settings.model_copy(update={"local_runs": False})) as url:
        monkeypatch.setenv("RUBRICWORKS_API", url)
        refused = CliRunner().invoke(cli, [*submit, "here"])
    assert "a service that listens on loopback alone" in str(refused.exception)


def test_a_recipe_that_no_cluster_runs_is_refused_by_the_name_that_its_reader_knows(url, kubeflow):
    status, page = submit_form(url, recipe=recipe_path("quickstart").read_text(), place="kubeflow")
    assert (status, "recipe.yaml: world: is a simulation on this machine" in page) == (422, True), page
    assert "tmp" not in page
