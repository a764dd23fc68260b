"""Preflight checks before a run on a cluster; real endpoints, a hub and folders."""

import hashlib
import json

import pytest
from kubernetes_api import KubernetesApi
from pydantic import SecretStr
from scripted_server import Said, fail, say
from served_api import TOKEN, Caller, served

from rubricworks.errors import UserError
from rubricworks.kubeflow.compile import compile_pipeline
from rubricworks.kubeflow.recipe_runs import run_arguments
from rubricworks.llm import Budget, Spending
from rubricworks.llm.spending import SPENDING_FILE
from rubricworks.llm.usage import Totals
from rubricworks.pipelines.rubicap import rubicap
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.policy.rewards.measured_rates import AGREEMENT_FIELD
from rubricworks.recipe.cluster_configs import cluster_only_configs
from rubricworks.recipe.files import load_recipe
from rubricworks.runtime.accelerators import ACCELERATORS_ENV, NODE_ENV, require_accelerators
from rubricworks.runtime.config import canonical_json
from rubricworks.runtime.launch import launch
from rubricworks.runtime.preflight_checks import require_budget, require_model
from rubricworks.runtime.stage_table import STAGES
from rubricworks.storage import open_bucket
from rubricworks.world.scene.export import export_scenes

COMMIT = "9f26ac8b" * 5
MODEL = f"org/name@{COMMIT}"
LISTED = Said(json.dumps({"data": [{"id": "m"}]}).encode())


@pytest.fixture
def images(tmp_path):
    export_scenes(tmp_path / "scenes", seed=3, count=6)
    return tmp_path / "scenes" / "images"


@pytest.fixture
def recipe(tmp_path, images, serve, monkeypatch):
    """A recipe with one server for everything, on a cluster; changes are `a.b=c`."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)

    def load(*changes: str, endpoint: str | None = None):
        url = endpoint or serve([LISTED]).url
        model = f"{{url: '{url}', model: m}}"
        path = tmp_path / "my.yaml"
        path.write_text(
            f"name: mine\ndata: {{source: {images}, held_out: 2}}\nwarm_up: {{student: tiny, sft: {{steps: 4}}}}\n"
            f"committee: {{teachers: [{model}], captions_each: 2}}\nrubric: {{writer: {model}}}\n"
            f"policy: {{reward: {{type: rubric, judge: {model}}}, algorithm: {{type: grpo, steps: 2}}}}\n"
            f"evaluation: {{scorers: {{rubric: {{judge: {model}}}, arena: {{judge: {model}}}}}}}\n"
            f"cluster: {{storage: 'pvc://runs/all'}}\n"
        )
        return load_recipe(path, changes)

    return load


def preflight(recipe, run):
    return launch("preflight", canonical_json(cluster_only_configs(recipe)["preflight"]), run.as_uri(), {})


def test_all_that_is_missing_is_said_at_once_and_nothing_is_begun(recipe, tmp_path, serve):
    wrong = serve([fail(401, "no key")])
    broken = recipe("data.source=/no/such/place", "warm_up.student=/models/none", endpoint=wrong.url)
    with pytest.raises(UserError) as caught:
        preflight(broken, tmp_path / "run")
    message = str(caught.value)
    assert message.startswith("4 of 5 checks failed: ")
    for part in ("/no/such/place", "/models/none: no model is there", "401", "MLFLOW_TRACKING_URI"):
        assert part in message
    assert "\n" not in message
    assert not (tmp_path / "run" / "recipe.yaml").exists()
    assert json.loads((tmp_path / "run" / "error.json").read_text())["stage"] == "preflight"
    record = json.loads((tmp_path / "run" / "preflight" / "checks.json").read_text())
    assert [check["name"] for check in record if check["problem"] is None] == ["budget"]


def test_run_opens_once_complete_and_is_asked_again_in_the_next_attempt(recipe, tmp_path, serve):
    server = serve([LISTED])
    good = recipe(f"tracking.uri=sqlite:///{tmp_path}/mlflow.db", "budget.tokens=1000", endpoint=server.url)
    run = tmp_path / "run"
    preflight(good, run)
    assert load_recipe(run / "recipe.yaml").policy == good.policy
    assert json.loads((run / "budget.json").read_text())["tokens"] == 1000
    record = {check["name"]: check["detail"] for check in json.loads((run / "preflight" / "checks.json").read_text())}
    assert record["images"] == "6 images"
    assert record["model warm_up.student"].startswith("built")

    server.script = [fail(503)]
    with pytest.raises(UserError, match=r"endpoint committee\.teachers\.0"):
        preflight(good, run)


@pytest.mark.parametrize("version", ["v1.28.15+k3s1", "v1.29.0-gke.100"])
def test_a_fan_out_needs_a_kubernetes_that_tries_each_part_alone(recipe, tmp_path, monkeypatch, version):
    tracking = f"tracking.uri=sqlite:///{tmp_path}/mlflow.db"
    spread = recipe(tracking, "cluster.stages={caption_committee: {fan_out: {parts: 4}}}")
    with KubernetesApi() as api:
        api.version = version
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
        if "1.28" in version:
            message = (
                r"1 of 6 checks failed: kubernetes: v1\.28\.15\+k3s1 is older than 1\.29, which .*caption_committee"
            )
            with pytest.raises(UserError, match=message):
                preflight(spread, tmp_path / "run")
        else:
            preflight(spread, tmp_path / "run")
            checks = json.loads((tmp_path / "run" / "preflight" / "checks.json").read_text())
            assert {check["name"]: check["detail"] for check in checks}["kubernetes"] == "v1.29.0-gke.100"


def test_pods_read_judge_rates_from_the_bucket_not_from_this_machine(recipe, bucket, run, tmp_path):
    file, tracking = f"{bucket}/judges/a.json", f"tracking.uri=sqlite:///{tmp_path}/mlflow.db"
    rates = f"policy.reward.noise_correction={{agreement: '{file}'}}"
    in_bucket = recipe(tracking, "cluster.images.pull_policy=Never", rates)
    compile_pipeline(rubicap, tmp_path / "rubicap.yaml", in_bucket.cluster)
    arguments = run_arguments(in_bucket, in_bucket.cluster, "one")
    with pytest.raises(
        UserError, match=rf"1 of 6 checks failed: file {AGREEMENT_FIELD}: {file}: there is nothing here"
    ):
        launch("preflight", arguments["preflight_config"], run, {})
    open_bucket(f"{bucket}/judges").write("a.json", b"rates")
    launch("preflight", arguments["preflight_config"], run, {})
    trained = STAGES["train_policy"].parse_config(arguments["train_policy_config"])
    assert trained.versions() == {"noise_rates": hashlib.sha256(b"rates").hexdigest()}
    here = recipe(tracking, f"policy.reward.noise_correction={{agreement: '{tmp_path}/a.json'}}")
    with pytest.raises(UserError, match=r"a\.json: no file is there; pods read a place such as s3://"):
        preflight(here, tmp_path / "run")


def test_a_run_that_could_not_request_its_promotion_ends_before_anything_costs_money(recipe, tmp_path, monkeypatch):
    good = recipe(f"tracking.uri=sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("RUBRICWORKS_API", "http://rubricworks-api.team.svc:80")
    monkeypatch.delenv("RUBRICWORKS_API_TOKEN", raising=False)
    with pytest.raises(UserError, match=r"1 of 6 checks failed: promotion: .*there is no token"):
        preflight(good, tmp_path / "run")
    (tmp_path / "runs").mkdir()
    with served(ApiSettings(storage=str(tmp_path / "runs"), token=SecretStr(TOKEN))) as url:
        monkeypatch.setenv("RUBRICWORKS_API", url)
        refused = {"rw_revoked": "unknown or expired", Caller(url).secret("viewer-v"): "of scope viewer"}
        for token, problem in refused.items():
            monkeypatch.setenv("RUBRICWORKS_API_TOKEN", token)
            with pytest.raises(UserError, match=rf"1 of 6 checks failed: promotion: .*{problem}"):
                preflight(good, tmp_path / "run")
        monkeypatch.setenv("RUBRICWORKS_API_TOKEN", Caller(url).secret("runner-r"))
        preflight(good, tmp_path / "run")


def test_what_was_spent_may_leave_nothing_of_the_budget(tmp_path):
    assert require_budget(Budget(), tmp_path) == "0 tokens and $0.00 spent of as much as it takes"
    spending, totals = Spending(tmp_path / SPENDING_FILE, "caption_committee"), Totals()
    spending.open_account("captions", "m", totals)
    totals.calls, totals.prompt_tokens = 1, 900
    spending.close()
    assert "900 tokens" in require_budget(Budget(tokens=901), tmp_path)
    with pytest.raises(UserError, match=r"budget.tokens is 900, and 900 are spent; raise it"):
        require_budget(Budget(tokens=900), tmp_path)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A cache without models, and a hub that answers as it is told."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-home"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

    def at(server) -> None:
        monkeypatch.setenv("HF_ENDPOINT", server.url.removesuffix("/v1"))

    return at


def test_a_model_is_looked_for_on_the_hub_with_the_token(hub, serve, monkeypatch):
    server = serve([say("here")])
    hub(server)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert f"{MODEL} is at" in require_model(MODEL)
    (requests,) = server.heard
    assert requests.path == f"/org/name/resolve/{COMMIT}/config.json"
    assert requests.headers["Authorization"] == "Bearer hf_secret"


@pytest.mark.parametrize(("status", "advice"), [(404, "no such model"), (401, "HF_TOKEN"), (403, "licence")])
def test_a_model_that_the_hub_does_not_give_is_refused_with_advice(hub, serve, monkeypatch, status, advice):
    hub(serve([fail(status)]))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(UserError, match=advice) as caught:
        require_model(MODEL)
    assert "hf_secret" not in str(caught.value)


def test_offline_a_model_must_be_in_the_cache(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        require_model(MODEL)
    snapshot = tmp_path / "hub-home" / "hub" / "models--org--name" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert require_model(MODEL) == f"{MODEL} is in the cache"


def test_a_model_without_a_commit_is_refused_before_a_pod_loads_it(hub, serve):
    hub(serve([fail(404)]))
    with pytest.raises(UserError, match="org/name@COMMIT, with the 40 digits"):
        require_model("org/name")


def test_invisible_accelerators_stop_the_stage_before_it_loads(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.delenv(ACCELERATORS_ENV, raising=False)
    assert require_accelerators() == []
    monkeypatch.setenv(ACCELERATORS_ENV, str(torch.cuda.device_count() + 3))
    monkeypatch.setenv(NODE_ENV, "gpu-node-7")
    with pytest.raises(UserError, match=rf"{torch.cuda.device_count() + 3} accelerators .* on node gpu-node-7"):
        require_accelerators()
