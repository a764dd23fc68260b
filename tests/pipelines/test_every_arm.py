"""Every arm of every recipe: planned with the calls that it makes, and compiled with the places of a cluster."""

import inspect
import json

import pytest
import yaml
from cli_fixtures import tell as tell
from placed_tasks import H100, table_of

from rubricworks.kubeflow.compile import compile_pipeline, load_pipeline, read_package
from rubricworks.kubeflow.planned_cluster import placement_warnings, planned_cluster
from rubricworks.kubeflow.recipe_runs import run_arguments
from rubricworks.recipe.estimate import estimate_calls
from rubricworks.recipe.files import built_in_recipes, load_recipe
from rubricworks.runtime.stage_table import NOT_REUSABLE, STAGES

CLUSTER = {
    "storage": "s3://models/runs",
    "images": {"pull_policy": "Never"},
    "pools": {"cpu": {"node_selector": {"pool": "cpu"}}, "h100": H100},
}


def cluster_for(data: dict) -> dict:
    """A cluster whose stages with a model have an accelerator each, as the models that the run serves."""
    pipeline = data.get("pipeline", "rubicap")
    parameters = inspect.signature(load_pipeline(pipeline).pipeline_func).parameters
    stages = [name.removesuffix("_config") for name in parameters if name != "run"]
    on_gpus = {name: {"pool": "h100", "accelerators": 1} for name in stages if STAGES[name].image == "trainer"}
    served = {name: {"pool": "h100"} for name in data.get("serve", {})}
    return {**CLUSTER, "stages": {"default": {"pool": "cpu"}, **on_gpus}, "serve": served}


def _arms():
    for path in built_in_recipes():
        data = yaml.safe_load(path.read_text())
        for arm, changes in data.get("arms", {}).items():
            yield pytest.param({**data, "arms": {arm: changes}}, arm, id=f"{path.stem}-{arm}")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Compile an arm's pipeline; arms that differ in configurations alone share one."""
    packages = {}

    def compiled(recipe):
        cluster = planned_cluster(recipe, recipe.cluster)
        key = recipe.pipeline, cluster.model_dump_json()
        if key not in packages:
            path = tmp_path_factory.mktemp("arm") / "arm.yaml"
            compile_pipeline(load_pipeline(recipe.pipeline), path, cluster, without=NOT_REUSABLE)
            packages[key] = read_package(path)
        return packages[key]

    return compiled


@pytest.mark.slow
@pytest.mark.parametrize(("data", "arm"), _arms())
def test_arm_is_planned_with_every_model_that_it_alone_asks(data, arm, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(data))
    recipe, whole = load_recipe(path, arm=arm), load_recipe(path)
    own = {endpoint.model for _, endpoint in recipe.endpoints()} - {endpoint.model for _, endpoint in whole.endpoints()}
    calls = list(estimate_calls(recipe, 10_000))
    assert own <= {call.endpoint.model for call in calls}
    assert all(call.count > 0 for call in calls if call.endpoint.model in own)


@pytest.mark.slow
@pytest.mark.parametrize(("data", "arm"), [arm for arm in _arms() if "world" not in arm.values[0]])
def test_arm_on_a_cluster_is_placed_and_its_stages_take_their_configurations(data, arm, compiled, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({**data, "cluster": cluster_for(data)}))
    recipe = load_recipe(path, arm=arm)
    assert not [warning for warning in placement_warnings(recipe) if "would run on a CPU" in warning]
    spec, platform = compiled(recipe)
    table = table_of(spec, platform)
    stages = {task.replace("-", "_") for task in table}
    assert stages == {*recipe.stage_configs(), "preflight", "outcome", "check_accelerators"} - NOT_REUSABLE
    trainings = {stage for stage in stages if stage.startswith("train_")}
    assert trainings
    assert all("accelerator" in table[stage.replace("_", "-")]["resources"] for stage in (*trainings, "score"))
    assert "accelerator" not in table["outcome"]["resources"]

    arguments = run_arguments(recipe, recipe.cluster, "mine")
    assert arguments.keys() == spec.root.input_definitions.parameters.keys() | {
        f"{stage}_config" for stage in recipe.stage_configs().keys() & NOT_REUSABLE
    }
    for stage in stages - {"check_accelerators"}:
        config = STAGES[stage].parse_config(arguments[f"{stage}_config"])
        if stage in recipe.stage_configs():
            assert config.model_dump() == recipe.run_configs()[stage].model_dump(), (
                stage
            )  # a section may be its own class
    checked = json.loads(arguments["preflight_config"])
    assert {endpoint["endpoint"]["model"] for endpoint in checked["endpoints"]} == {
        endpoint.model for _, endpoint in recipe.endpoints() if endpoint.serve is None
    }
    assert yaml.safe_load(checked["recipe"])["arm"] == arm


def test_compile_takes_one_arm_and_names_the_file_after_it(tell, tmp_path):
    out = tmp_path / "compiled"
    result = tell("pipelines", "compile", "rubicap", "--arm", "rouge_l", "--out", out)
    assert result.code == 0, result.err
    assert result.out.split() == [str(out / "rubicap-rouge_l.yaml")]
    tasks = read_package(out / "rubicap-rouge_l.yaml")[0].root.dag.tasks
    assert "train-policy" in tasks
    assert not {"promote", "report"} & set(tasks)
    for words, message in (
        (["rubicap", "--arm", "rouge"], "no arm 'rouge'; did you mean rouge_l?"),
        (["--arm", "rouge_l"], "--arm rouge_l is of one recipe"),
        (["rubricrl", "--arm", "vanilla"], "rubricrl is a pipeline, and arms are a recipe's"),
    ):
        refused = tell("pipelines", "compile", *words, "--out", out)
        assert refused.code == 2
        assert message in refused.err
