"""Runs on Kubeflow beside the local ones: submitted where the operator says, listed, stopped, told when it is away."""

import json
import time

import pytest
from kubeflow_api import FakeKubeflow
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served

from rubricworks.errors import UserError
from rubricworks.platform_api.services.submission import kubeflow_runs
from rubricworks.platform_api.serving import listening_socket
from rubricworks.platform_api.settings import ApiSettings

pytestmark = pytest.mark.e2e

RECIPE = """\
name: mine
data: {source: "s3://datasets/photographs", held_out: 4}
warm_up: {student: tiny, sft: {steps: 4}}
committee: {teachers: [{url: "${JUDGE_URL}", model: one}, {url: "${JUDGE_URL}", model: two}]}
rubric: {writer: {url: "${JUDGE_URL}", model: writer}}
policy: {judge: {url: "${JUDGE_URL}", model: judge}, steps: 2}
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
    log = [one["action"] for one in ask(f"{url}/api/v1/changes", **bearer())[1]["items"]]
    assert log == ["run.stop", "run.submit"]


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
    assert (status, [one["field"] for one in body["fields"]]) == (422, ["cluster"])
    assert kubeflow.kept["runs"] == {}


def test_a_stopped_backend_is_a_banner_and_refuses_a_recipe_which_may_come_again(url, kubeflow):
    post(url, "submissions", {"recipe": RECIPE, "run": "monday"})
    assert b"monday" in exchange(f"{url}/kubeflow-runs", **bearer())[2]
    kubeflow.answer_instead = lambda method, path: (503, "text/plain", b"no healthy upstream")
    status, _, page = exchange(f"{url}/kubeflow-runs", **bearer())
    assert (status, b'class="banner alarm"' in page, b"monday" in page) == (200, True, True)
    assert ask(f"{url}/api/v1/kubeflow/runs", **bearer())[1]["problem"]
    assert exchange(f"{url}/runs", **bearer())[0] == 200
    assert post(url, "submissions", {"recipe": RECIPE, "run": "tuesday"})[0] == 422
    kubeflow.answer_instead = lambda method, path: None
    assert post(url, "submissions", {"recipe": RECIPE, "run": "tuesday"})[0] == 201
