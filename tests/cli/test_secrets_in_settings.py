"""Secrets in recipes and arguments: refused in one line that does not repeat them, and written nowhere."""

import json
from pathlib import Path

import pytest
import yaml
from kubeflow_api import FakeKubeflow

from rubricworks.recipe.files import recipe_path

SECRET = "hunter2-and-more"
URL = f"https://someone:{SECRET}@mlflow.example"
CLUSTER = {"storage": "s3://runs/captions", "pools": {"cpu": {}}}


def written(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def recipe(tmp_path) -> Path:
    path = tmp_path / "ours.yaml"
    data = yaml.safe_load(recipe_path("rubicap").read_text())
    path.write_text(yaml.safe_dump({**data, "name": "ours", "cluster": CLUSTER}))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "field"),
    [
        (f"cluster.env.OPENAI_API_KEY={SECRET}", "cluster.env.OPENAI_API_KEY: a secret"),
        (f"cluster.env={{HF_TOKEN: {SECRET}}}", "cluster.env.HF_TOKEN: a secret"),
        (f"cluster.env.HTTPS_PROXY={URL}", "cluster.env.HTTPS_PROXY: the user or password of a URL"),
        (f"cluster.stages.default.env.DB_PASSWORD={SECRET}", "cluster.stages.default.env.DB_PASSWORD: a secret"),
        (f"cluster.env.ANY=sk-{SECRET}", "cluster.env.ANY: a key"),
        (f"tracking.uri={URL}", "tracking.uri: the user or password of a URL"),
        (f"data.source={URL}/list.json", "data.source: the user or password of a URL"),
        (f"cluster.kubeflow.url={URL}", "cluster.kubeflow.url: the user or password of a URL"),
        (f"policy.reward.judge.url={URL}", "policy.reward.judge.url: holds a user or password"),
        (
            f"policy.reward.judge.url=https://host/v1?api_key={SECRET}",
            "policy.reward.judge.url: holds a user or password",
        ),
        (f"policy.reward.judge.extra_body={{x: [sk-{SECRET}]}}", "policy.reward.judge.extra_body.x.0: a key"),
        (f"seed={URL}", "seed: Input should be a valid integer"),
        (f"cluster.nonsense.api_key={SECRET}", "cluster.nonsense: no such field"),
        (f"policy.reward.judge={{url: {URL}", "is not a YAML value"),
    ],
)
@pytest.mark.parametrize("on", [(), ("--on", "kubeflow")], ids=["here", "kubeflow"])
def test_a_secret_in_a_recipe_is_refused_and_not_repeated(tell, tmp_path, monkeypatch, recipe, override, field, on):
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "no-token"))
    with FakeKubeflow(version="2.17.0") as fake:
        monkeypatch.setenv("RUBRICWORKS_KUBEFLOW", fake.url)
        result = tell("run", recipe, "--run", "a", "--set", override, *on)
        assert not fake.kept["runs"]
        assert not fake.kept["versions"]
    assert (result.code, result.out) == (2, "")
    assert field in result.err
    assert SECRET not in result.err
    assert SECRET.encode() not in written(tmp_path)


def test_the_line_says_where_the_secret_belongs(tell, recipe):
    env = tell("run", recipe, "--on", "kubeflow", "--set", f"cluster.env.OPENAI_API_KEY={SECRET}").err
    assert env.startswith("error: --set cluster.env.OPENAI_API_KEY=***: cluster.env.OPENAI_API_KEY: a secret")
    assert "cluster.secrets: {NAME-OF-SECRET: {its-key: VARIABLE}}" in env
    tracking = tell("run", recipe, "--dry-run", "--set", f"tracking.uri={URL}").err
    assert "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD" in tracking
    assert env.count("\n") == tracking.count("\n") == 1


def test_a_secret_in_the_recipe_file_is_refused_with_its_line(tell, recipe):
    data = yaml.safe_load(recipe.read_text())
    data["cluster"]["env"] = {"WANDB_API_KEY": SECRET}
    recipe.write_text(yaml.safe_dump(data, sort_keys=False))
    line = next(number for number, text in enumerate(recipe.read_text().splitlines(), 1) if "WANDB" in text)
    result = tell("doctor", recipe)
    assert result.code == 2
    assert result.err.startswith(f"error: {recipe}:{line}: cluster.env.WANDB_API_KEY: a secret")
    assert SECRET not in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("grade", "c.json", "r.json", "--judge", f"m@http://u:{SECRET}@host/v1"),
        ("grade", "c.json", "r.json", "--judge", f"http://u:{SECRET}@host/v1"),
        ("grade", "c.json", "r.json", "--judge", f"m@http://host/v1?api_key={SECRET}"),
        ("caption", "images", "--out", "out", "--model", f"m@http://u:{SECRET}@host/v1"),
        (
            "synthesize",
            "images",
            "--out",
            "out",
            "--committee",
            f"m@http://u:{SECRET}@h/v1",
            "--writer",
            "w@http://h/v1",
        ),
        ("init", "--images", "images", "--endpoint", f"http://u:{SECRET}@host/v1"),
        ("init", "--images", "images", "--model", "m", "--endpoint", f"http://u:{SECRET}@host/v1"),
        ("promote", "captioner", "--tracking", f"http://u:{SECRET}@127.0.0.1:9"),
    ],
)
def test_a_secret_in_an_argument_is_not_repeated(tell, tmp_path, arguments):
    (tmp_path / "c.json").write_text(json.dumps({"sample_id": "a", "caption": "x"}))
    (tmp_path / "r.json").write_text("{}")
    (tmp_path / "images").mkdir()
    result = tell(*arguments)
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert SECRET not in result.out + result.err
    assert SECRET.encode() not in written(tmp_path)
