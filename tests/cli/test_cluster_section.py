"""The `cluster:` section as people write it: mistakes in one line each, and what `pipelines compile` makes of it."""

import re

import pytest
import yaml
from test_recipe_mistakes import RECIPE, mistakes

from rubricworks.environment import names_in
from rubricworks.recipe.cluster import ClusterConfig
from rubricworks.recipe.cluster_configs import cluster_stage_json
from rubricworks.recipe.files import load_recipe, recipe_path

DIGEST = "@sha256:" + "a" * 64
CLUSTER = """\
cluster:
  storage: s3://models/runs
  images: {cpu: registry.example/cpu:1, trainer: registry.example/trainer:1}
  pools:
    cpu: {}
    h100: {accelerator: nvidia.com/gpu, per_node: 8}
  stages:
    default: {pool: cpu}
    train_policy: {pool: h100, accelerators: 8}
"""
NO_IMAGES = "".join(line for line in CLUSTER.splitlines(keepends=True) if "images:" not in line)
START = RECIPE.count("\n")


@pytest.mark.parametrize(
    ("original", "instead", "line", "message"),
    [
        ("pool: h100", "pool: b200", 9, "cluster.stages.train_policy.pool: no pool 'b200'; there are cpu, h100"),
        ("accelerators: 8", "accelerators: 16", 9, "cluster.stages.train_policy.accelerators is 16, a node of pool"),
        ("{pool: h100, acc", "{pool: cpu, acc", 9, "cluster.stages.train_policy.accelerators is 8, and pool 'cpu' has"),
        ("train_policy", "train_polcy", 9, "cluster.stages.train_polcy: no such stage; there are prepare, warm_up"),
        ("s3://models/runs", "models/runs", 2, "cluster.storage: write s3://bucket/prefix or pvc://claim/folder"),
        ("per_node: 8", "per_nod: 8", 6, "cluster.pools.h100.per_nod: no such field; did you mean per_node?"),
        ("{pool: cpu}", "{pool: cpu, memory: 8GB}", 8, "cluster.stages.default.memory: a size is such as 16Gi"),
        ("{pool: cpu}", "{pool: cpu, cpu: 0}", 8, "cluster.stages.default.cpu: cores are such as 4, 0.5 or 500m"),
        ("{pool: cpu}", "{pool: cpu, timeout: 2 hours}", 8, "cluster.stages.default.timeout: a duration is seconds"),
        ("{pool: cpu}", "{pool: cpu, env: {A-B: x}}", 8, "cluster.stages.default.env: a variable's name is"),
        ("cpu: {}", "cpu: {tolerations: [{operator: Equal}]}", 5, "cluster.pools.cpu.tolerations.0.key and value are"),
        ("cpu: {}", "cpu: {affinity: [{key: zone}]}", 5, "cluster.pools.cpu.affinity.0.operator In needs values"),
        ("{pool: cpu}", "{pool: cpu}\n    warm_up: {train_job: {nodes: 2}}", 9,
         "cluster.stages.warm_up.train_job: warm_up cannot be trained on several nodes; leave it out (train_"),
        ("{pool: cpu}", "{pool: cpu}\n    score: {fan_out: {parts: 4}}", 9,
         "cluster.stages.score.fan_out: score cannot be shared out over pods; leave it out (caption_commi"),
        ("{pool: cpu}", "{pool: cpu, fan_out: {parts: 4}}", 8, "cluster.stages.default.fan_out: default cannot be"),
        ("images: {cpu: registry.example/cpu:1, trainer:", "production: true\n  images: {trainer:", 4,
         "cluster.images.cpu is not set; production names every image"),
        ("storage:", "queue: no spaces\n  storage:", 2, "cluster.queue: a label's value is at most 63"),
        ("storage:", "claims: {a.b: /models}\n  storage:", 2, "cluster.claims.a.b: the volume gets this name; it has"),
        ("s3://models/runs", "pvc://team.runs/a", 2, "cluster.storage: claim team.runs: the volume gets this name"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_before_anything_runs_with_its_line_and_what_to_change(
    tmp_path, original, instead, line, message
):
    text = RECIPE + CLUSTER.replace(original, instead, 1)
    (mistake,) = mistakes(tmp_path, text)
    assert mistake.startswith(f"{START + line}: "), mistake
    assert mistake.partition(": ")[2].startswith(message)


@pytest.mark.parametrize(
    ("volumes", "message"),
    [
        (
            {"secret_files": {"ca": "/a"}, "config_map_files": {"ca": "/b"}},
            "config_map_files.ca: another volume of the",
        ),
        ({"claims": {"ca": "/a"}, "config_map_files": {"ca": "/b"}}, "config_map_files.ca: another volume of the"),
        ({"storage": "pvc://runs", "secret_files": {"runs": "/b"}}, "secret_files.runs: another volume of the pods"),
        ({"secret_files": {"workspace": "/a"}}, "secret_files.workspace: every pod has another volume of this name"),
        ({"claims": {"workspace": "/a"}}, "claims.workspace: every pod has another volume of this name"),
        (
            {"config_map_files": {"ca.example": "/a"}},
            "config_map_files.ca.example: the volume gets this name; it has no",
        ),
        ({"claims": {"hub.cache": "/models"}}, "claims.hub.cache: the volume gets this name; it has no dots, and 63"),
        ({"claims": {"c" * 64: "/models"}}, f"claims.{'c' * 64}: the volume gets this name"),
        ({"storage": "pvc://team.runs/a"}, "storage: claim team.runs: the volume gets this name"),
        ({"storage": "pvc://runs-/a"}, "storage\n  Value error, write s3://bucket/prefix or pvc://claim"),
        ({"storage": "pvc://runs/../a"}, "storage: pvc://runs/../a: a folder of a claim has no .."),
        ({"claims": {"gcs-scratch": "/models"}}, "claims.gcs-scratch: every pod has another volume of this name"),
        ({"claims": {"a": "/models", "b": "/models/"}}, "claims.b: claims.a is mounted on /models already; choose"),
        ({"claims": {"a": "/x/../models/."}, "secret_files": {"b": "//models"}}, "secret_files.b: claims.a is mounted"),
        ({"claims": {"a": "/rubricworks/workspace"}}, "claims.a: the workspace is mounted on /rubricworks/workspace"),
        ({"claims": {"a": "/dev/shm"}}, "claims.a: shared memory is mounted on /dev/shm already"),
        (
            {"storage": "pvc://runs/a", "claims": {"b": "/rubricworks/runs"}},
            "claims.b: the claim of all runs is mounted on /rubricworks/runs already",
        ),
        ({"config_map_files": {"ca": "/.."}}, "config_map_files.ca: / holds the image itself; choose another folder"),
        ({"config_map_files": {"ca": "/kfp-launcher"}}, "config_map_files.ca: Kubeflow's launcher is mounted on"),
        ({"namespace": "team.vision"}, "namespace\n  Value error, a namespace is at most 63 small letters, digits"),
    ],
)
def test_volumes_and_names_that_kubernetes_would_refuse_are_refused(volumes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ClusterConfig.model_validate({"storage": "s3://b", **volumes})


def test_names_that_kubernetes_takes_are_taken():
    long = ".".join(["n" * 100, "m" * 152])
    names = {"service_account": long, "secrets": {long: {"key": "KEY"}}, "images": {"pull_secrets": (long,)}}
    claims = {"hub-cache": "/models", "runs": "/rubricworks/workspace/more"}
    cluster = ClusterConfig.model_validate({"storage": "pvc://runs/a/b", "claims": claims, **names})
    assert cluster.service_account == long
    with pytest.raises(ValueError, match="a name is small letters"):
        ClusterConfig.model_validate({"storage": "s3://b", "service_account": f"{long}x"})


def test_which_stages_can_have_several_pods_is_told_and_that_none_can():
    placed = {"storage": "s3://b", "stages": {"recap": {"fan_out": {"parts": 2}}}}
    with pytest.raises(ValueError, match=r"leave it out \(caption_committee and write_exams can\)"):
        ClusterConfig.model_validate(placed).check_stages(["caption_committee", "recap", "write_exams"])
    with pytest.raises(ValueError, match=r"leave it out \(no stage of this pipeline can\)"):
        ClusterConfig.model_validate(placed).check_stages(["prepare", "recap"])
    placed["stages"] = {"write_exams": {"fan_out": {"parts": 2}}, "train_rlvr": {"train_job": {"nodes": 2}}}
    ClusterConfig.model_validate(placed).check_stages(["write_exams", "train_rlvr"])


def test_production_refuses_a_tag_and_takes_digests(tmp_path):
    images = f"  production: true\n  images: {{cpu: 'registry/cpu:1.0', trainer: 'registry/trainer{DIGEST}'}}\n"
    (mistake,) = mistakes(tmp_path, RECIPE + NO_IMAGES + images)
    assert "cluster.images.cpu is 'registry/cpu:1.0'; production needs its digest" in mistake
    path = tmp_path / "good.yaml"
    path.write_text(RECIPE + NO_IMAGES + images.replace(":1.0", DIGEST))
    assert load_recipe(path).cluster.images.cpu == f"registry/cpu{DIGEST}"


def test_where_a_stage_runs_changes_nothing_of_what_it_makes(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(RECIPE)
    stages = load_recipe(path).stage_json()
    path.write_text(RECIPE + CLUSTER)
    placed_recipe = load_recipe(path)
    assert placed_recipe.stage_json() == stages
    assert set(cluster_stage_json(placed_recipe)) == {*stages, "preflight", "outcome"}


def test_a_stage_takes_what_it_leaves_out_from_the_default_and_then_from_us(tmp_path):
    path = tmp_path / "my.yaml"
    cluster = CLUSTER.replace("{pool: cpu}", "{pool: cpu, timeout: 90m, env: {A: '1', B: '1'}, memory: 8Gi}")
    path.write_text(RECIPE + cluster.replace("accelerators: 8", "accelerators: 8, env: {B: '2'}, memory: 800Gi"))
    placed = load_recipe(path).cluster.placement("train_policy")
    expected = {"pool": "h100", "memory": "800Gi", "timeout": 5400, "cpu": "2", "retries": 2}
    assert {name: getattr(placed, name) for name in expected} == expected
    assert placed.env == {"A": "1", "B": "2"}


def test_a_recipe_is_compiled_with_its_places_and_a_pipeline_without(tell, tmp_path):
    (tmp_path / "my.yaml").write_text(RECIPE + CLUSTER)
    assert tell("pipelines", "compile", "my.yaml", "rubicap").out.split() == [
        "compiled/mine.yaml", "compiled/rubicap.yaml",
    ]  # fmt: skip
    mine, plain = ((tmp_path / "compiled" / name).read_text() for name in ("mine.yaml", "rubicap.yaml"))
    assert len(list(yaml.safe_load_all(mine))) == 2
    assert "preflight" in mine
    assert "preflight" not in plain


@pytest.mark.parametrize(
    ("arguments", "message"), [(("quickstart",), "no cluster: section"), (("nothing",), "no recipe")]
)
def test_what_cannot_be_compiled_is_refused_in_one_line(tell, arguments, message):
    result = tell("pipelines", "compile", *arguments)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err


@pytest.mark.parametrize("name", ["rubicap", "rlr3", "balcaprl", "rubricrl-ar", "rubricrl-diffusion"])
def test_map_in_our_recipe_gives_stages_every_address_and_key(name, tmp_path):
    text = recipe_path(name).read_text()
    path = tmp_path / "mine.yaml"
    start = text.index("# cluster:")
    path.write_text(text[:start] + re.sub(r"(?m)^# ?", "", text[start:]))
    recipe = load_recipe(path)
    variables = {
        variable
        for kind in (recipe.cluster.secrets, recipe.cluster.config_maps)
        for keys in kind.values()
        for variable in keys.values()
    }
    variables_of_keys = {endpoint.api_key_env for _, endpoint in recipe.endpoints() if endpoint.api_key_env}
    for _, endpoint in recipe.endpoints():
        if endpoint.serve is None:  # else the run sets its address
            variables_of_keys |= set(names_in(endpoint.url))
    assert variables_of_keys | set(names_in(recipe.data.source)) <= variables


def test_parts_of_a_fan_out_leave_no_accelerator_idle(tmp_path):
    text = recipe_path("rlr3").read_text()
    start = text.index("# cluster:")
    section = re.sub(r"(?m)^# ?", "", text[start:]).replace(
        "filter: {pool: h100, accelerators: 1", "filter: {pool: h100, accelerators: 8"
    )
    (mistake,) = mistakes(tmp_path, text[:start] + section)
    assert "cluster.stages.offline_filter.accelerators is 8, and each part of its fan_out uses 1" in mistake
