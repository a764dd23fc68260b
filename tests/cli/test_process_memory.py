"""Memory that the plan states for each process of a sharded training: bytes of a parameter by hand."""

import pytest
import yaml

from rubricworks.recipe.estimate import process_memory
from rubricworks.recipe.files import load_recipe, recipe_path

EIGHT = {"pool": "h100", "accelerators": 8}


@pytest.fixture
def planned(tmp_path):
    def planned(name, stages, *overrides):
        data = yaml.safe_load(recipe_path(name).read_text())
        pools = {"h100": {"accelerator": "nvidia.com/gpu"}}
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({**data, "cluster": {"storage": "s3://b", "pools": pools, "stages": stages}}))
        return process_memory(load_recipe(path, overrides))

    return planned


def test_a_training_on_eight_accelerators_states_the_memory_of_each(planned):
    (line,) = planned("rubicap", {"train_policy": EIGHT})
    assert line.startswith("  train_policy on 8 accelerators: 13.0 GiB each")  # 7e9 x 16 bytes / 8
    assert "26 GiB of host memory" in line  # 7e9 x 4 bytes
    # 7e9 x (3 checkpoints of 16 bytes, and the model's 2)
    assert line.endswith("; 326 GiB of disk (cluster.workspace.size is 50Gi)")


def test_bfloat16_weights_halve_it(planned):
    (line,) = planned("rubicap", {"train_policy": EIGHT}, "policy.master_weights=false")
    assert "6.5 GiB each" in line
    assert "13 GiB of host memory" in line


def test_the_genrms_memory_is_that_of_its_own_student_and_nodes_count(planned):
    job = EIGHT | {"train_job": {"nodes": 2}}
    lines = planned("rlr3", {"train_genrm": EIGHT, "train_rlr3": job})
    assert {line.split(" each")[0].strip() for line in lines} == {
        "train_rlr3 on 16 accelerators: 27.9 GiB",  # 30e9 x 16 bytes / 16
        "train_genrm on 8 accelerators: 14.9 GiB",  # 8e9 x 16 bytes / 8
    }


def test_single_accelerators_and_recipes_without_a_cluster_add_nothing(planned):
    assert planned("rubicap", {"train_policy": EIGHT | {"accelerators": 1}}) == []
    assert process_memory(load_recipe(recipe_path("rubicap"), ())) == []
