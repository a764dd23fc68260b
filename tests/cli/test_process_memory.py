"""Memory of each process of a sharded training, and disk of each stage: bytes of a parameter by hand."""

import pytest
import yaml
from placed_tasks import table_of

from rubricworks.kubeflow.compile import compile_specs, load_pipeline
from rubricworks.kubeflow.planned_cluster import placement_warnings, planned_cluster
from rubricworks.kubernetes.config import TrainJobPlan
from rubricworks.kubernetes.pods import resources
from rubricworks.recipe.estimate import plan_text
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.recipe.sizes import (
    ModelSize,
    colocate_warning,
    diffusion_bytes,
    model_size,
    process_memory,
    workspace_lines,
)
from rubricworks.world.scene.export import export_scenes

CLUSTER = {"storage": "s3://b", "images": {role: f"registry.example/{role}:1" for role in ("cpu", "trainer", "vllm")}}
EIGHT = {"pool": "h100", "accelerators": 8}


@pytest.fixture
def planned(tmp_path):
    def planned(name, stages, *overrides):
        data = yaml.safe_load(recipe_path(name).read_text())
        pools = {"h100": {"accelerator": "nvidia.com/gpu"}}
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({**data, "cluster": {**CLUSTER, "pools": pools, "stages": stages}}))
        return load_recipe(path, overrides)

    return planned


def test_a_training_on_eight_accelerators_states_the_memory_of_each(planned):
    (line,) = process_memory(planned("rubicap", {"train_policy": EIGHT}))
    assert line.startswith("  train_policy on 8 accelerators: 13.0 GiB each")  # 7e9 x 16 bytes / 8
    assert "26 GiB of host memory" in line  # 7e9 x 4 bytes


def test_bfloat16_weights_halve_it(planned):
    (line,) = process_memory(
        planned("rubicap", {"train_policy": EIGHT}, "policy.algorithm.optimizer.precision=bfloat16")
    )
    assert "6.5 GiB each" in line
    assert "13 GiB of host memory" in line


def test_the_genrms_memory_is_that_of_its_own_student_and_nodes_count(planned):
    job = EIGHT | {"train_job": {"nodes": 2}}
    lines = process_memory(planned("rlr3", {"train_genrm": EIGHT, "train_rlr3": job}))
    assert {line.split(" each")[0].strip() for line in lines} == {
        "train_rlr3 on 16 accelerators: 27.9 GiB",  # 30e9 x 16 bytes / 16
        "train_genrm on 8 accelerators: 14.9 GiB",  # 8e9 x 16 bytes / 8
    }


def test_single_accelerators_and_recipes_without_a_cluster_add_nothing(planned):
    assert process_memory(planned("rubicap", {"train_policy": EIGHT | {"accelerators": 1}})) == []
    assert process_memory(load_recipe(recipe_path("rubicap"), ())) == []


ON_RUBICAP = 1.2 * (7e9 * (3 * 16 + 2) + 7e9 * 2)
"""Three checkpoints (weights twice, two moments, in fp32) and the model in bf16; the student that it starts from."""


def workspaces(recipe):
    """Stage → size of the workspace in the compiled pipeline."""
    pipeline = load_pipeline(recipe.pipeline)
    table = table_of(*compile_specs(pipeline, planned_cluster(recipe, recipe.cluster)))
    mounts = {task.replace("-", "_"): row["kubernetes"]["emptyDirMounts"] for task, row in table.items()}
    return {task: next(mount["sizeLimit"] for mount in volumes) for task, volumes in mounts.items()}


def test_the_compiled_pipeline_has_a_workspace_for_three_checkpoints(planned):
    recipe = planned("rubicap", {"train_policy": EIGHT})
    sizes = workspaces(recipe)
    size = int(sizes["train_policy"].removesuffix("Gi"))
    assert 1 <= size - 10 - ON_RUBICAP / 2**30 + 1 <= 2  # 10 GiB of samples and tables, rounded up
    assert {sizes[stage] for stage in ("prepare", "caption_committee", "warm_up", "preflight")} == {"50Gi"}
    assert [text for text in placement_warnings(recipe) if "workspace" in text] == []


def test_milestones_of_thirty_billion_parameters_count_where_written(planned):
    sizes = {stage: int(size.removesuffix("Gi")) for stage, size in workspaces(planned("rlr3", {})).items()}
    milestones = 30e9 * 11 * 2 / 2**30  # every 100 of 1,000 steps, and the model
    assert sizes["train_rlr3"] > milestones + 30e9 * 3 * 16 / 2**30
    assert sizes["score"] > 2 * milestones
    assert sizes["write_checklists"] == 50


def test_each_stage_of_a_vlms_pretraining_has_room_for_its_checkpoints_and_models(planned):
    sizes = {
        stage: int(size.removesuffix("Gi")) for stage, size in workspaces(planned("recaption-pretrain", {})).items()
    }
    checkpoints, model = 7e9 * 3 * 16 / 2**30, 7e9 * 2 / 2**30
    for stage in ("pretrain_vlm", "pretrain_baseline", "tune_vlm", "tune_baseline"):
        assert sizes[stage] >= 10 + checkpoints + 2 * model, stage
    assert sizes["align_projector"] >= 10 + checkpoints + model
    recipe = planned("recaption-pretrain", {}, "alignment.language_model=s3://models/mine")
    (warning,) = [text for text in placement_warnings(recipe) if "nothing tells the size of s3://models/mine" in text]
    assert warning.startswith("align_projector, pretrain_vlm, tune_vlm, pretrain_baseline, tune_baseline may not fit")


def test_a_size_in_the_recipe_wins_and_is_warned_of_if_checkpoints_do_not_fit(planned):
    recipe = planned("rubicap", {"train_policy": EIGHT}, "cluster.workspace.size=200Gi")
    assert set(workspaces(recipe).values()) == {"200Gi"}
    (warning,) = [text for text in placement_warnings(recipe) if "workspace" in text]
    assert "train_policy takes about 417Gi and has 200Gi" in warning
    assert warning in plan_lines(recipe)
    own = planned("rubicap", {"train_policy": {**EIGHT, "workspace": "500Gi"}})
    assert workspaces(own)["train_policy"] == "500Gi"
    assert [text for text in placement_warnings(own) if "workspace" in text] == []


def plan_lines(recipe):
    return "\n".join(workspace_lines(recipe))


def test_the_plan_states_the_size_that_is_compiled(planned):
    recipe = planned("rubicap", {"train_policy": EIGHT})
    assert f"train_policy {workspaces(recipe)['train_policy']} for about" in plan_lines(recipe)


def test_the_pods_of_a_train_job_ask_their_node_for_the_disk_that_they_fill(planned):
    recipe = planned("rubicap", {"train_policy": EIGHT | {"train_job": {"nodes": 2}}})
    table = table_of(*compile_specs(load_pipeline("rubicap"), planned_cluster(recipe, recipe.cluster)))
    pod = TrainJobPlan.model_validate_json(table["train-policy"]["env"]["RUBRICWORKS_TRAIN_JOB"]).pod
    size = workspaces(recipe)["train_policy"]
    assert resources(pod)["requests"]["ephemeral-storage"] == size
    assert {"name": "workspace", "emptyDir": {"sizeLimit": size}} in pod.volumes


@pytest.mark.parametrize("change", ["cluster.workspace.storage_class=fast", "cluster.storage=pvc://runs/all"])
def test_on_a_volume_nothing_is_asked_of_the_node(planned, change):
    recipe = planned("rubicap", {"train_policy": EIGHT | {"train_job": {"nodes": 2}}}, change)
    table = table_of(*compile_specs(load_pipeline("rubicap"), planned_cluster(recipe, recipe.cluster)))
    pod = TrainJobPlan.model_validate_json(table["train-policy"]["env"]["RUBRICWORKS_TRAIN_JOB"]).pod
    assert "ephemeral-storage" not in resources(pod)["requests"]


NO_LIMIT = "policy.algorithm.rollouts.vllm.max_model_length=null"


def test_seven_billion_parameters_without_a_limit_of_tokens_are_warned_of(planned):
    recipe = planned("rubicap", {}, NO_LIMIT)
    warning = colocate_warning(recipe)
    student = recipe.warm_up.student
    assert f"train_policy ({student}, weights of 13 GiB, gpu_memory 0.3)" in warning
    assert "vllm.max_model_length is not set" in warning
    assert warning in placement_warnings(recipe)


@pytest.mark.parametrize(
    "change",
    [
        "policy.algorithm.rollouts.vllm.max_model_length=8192",
        "policy.algorithm.rollouts.vllm=null",
        "warm_up.student=Qwen/Qwen2.5-VL-0.5B-Instruct",
    ],
)
def test_with_a_limit_elsewhere_or_small_it_starts(planned, change):
    assert colocate_warning(planned("rubicap", {}, NO_LIMIT, change)) == ""


@pytest.mark.parametrize("name", ["rubicap", "balcaprl", "rlr3"])
def test_recipes_of_this_project_set_their_limit(planned, name):
    assert colocate_warning(planned(name, {})) == ""


def test_a_dry_run_and_a_run_say_so(tell, tmp_path):
    export_scenes(tmp_path / "scenes", seed=3, count=4)
    source = f"data.source={tmp_path / 'scenes' / 'images'}"
    for more in (["--dry-run"], ["--run", "mine"]):
        result = tell("run", "rubicap", "--set", source, "--set", NO_LIMIT, *more)
        assert "warning: vLLM may not start in train_policy (Qwen/Qwen2.5-VL-7B-Instruct" in result.out + result.err


GIB = 2**30


def test_image_generators_state_their_memory_and_workspaces(planned, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_GENERATOR", "black-forest-labs/FLUX.1-dev@commit")
    recipe = planned("rubricrl-diffusion", {"train_generator": EIGHT})
    (line,) = process_memory(recipe)
    pipeline = 11.9e9 + 4.97e9  # transformer; T5, CLIP and VAE
    # Each accelerator has the pipeline in bfloat16, whose adapters are small.
    assert line.startswith(f"  train_generator on 8 accelerators: {2 * pipeline / GIB:.1f} GiB each, a copy")
    sizes = {stage: int(size.removesuffix("Gi")) for stage, size in workspaces(recipe).items()}
    assert sizes["pretrain_generator"] >= 10 + 2 * pipeline / GIB
    assert sizes["train_generator"] >= 10 + 2 * 2 * pipeline / GIB  # what it starts from, and the result
    assert sizes["score"] >= 10 + 2 * 2 * pipeline / GIB
    assert sizes["write_prompt_rubrics"] == 50
    whole = {"lora": None, "precision": "bfloat16"}
    overrides = [f"policy.algorithm.optimizer.{name}={value or 'null'}" for name, value in whole.items()]
    full = planned("rubricrl-diffusion", {"train_generator": EIGHT}, *overrides)
    (line,) = process_memory(full)
    # Three forms, gradient and two moments in bfloat16, and the average in float32.
    expected = (11.9e9 * (2 * 6 + 4) + 2 * 4.97e9) / GIB
    assert f"{expected:.1f} GiB each" in line
    checkpoints = 3 * pipeline * (8 + 4) / GIB
    assert int(workspaces(full)["train_generator"].removesuffix("Gi")) >= sizes["train_generator"] + checkpoints


def test_autoregressive_generator_is_sharded_and_its_name_tells_the_size(planned, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_GENERATOR", "BAAI/Emu3-Gen-hf@commit")
    recipe = planned("rubricrl-ar", {"train_generator": EIGHT})
    (line,) = process_memory(recipe)
    per_parameter = recipe.policy.algorithm.optimizer.bytes_per_parameter
    assert f"{8.76e9 * per_parameter / 8 / GIB:.1f} GiB each, with activations" in line
    assert int(workspaces(recipe)["train_generator"].removesuffix("Gi")) > 3 * 8.76e9 * per_parameter / GIB
    monkeypatch.setenv("RUBRICWORKS_GENERATOR", "deepseek-community/Janus-Pro-7B@commit")
    assert f"{7e9 * per_parameter / GIB:.1f} GiB each" in process_memory(recipe)[0], "it is whole on each"


def test_dry_run_states_the_memory_of_an_image_generator(planned, monkeypatch, tmp_path):
    for name, text in (
        ("prompts.jsonl", '{"prompts": ["a"]}\n{"prompts": ["b"]}\n'),
        ("geneval.jsonl", '{"tag": "single_object", "include": [{"class": "dog", "count": 1}], "prompt": "a dog"}\n'),
    ):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("RUBRICWORKS_PROMPTS", str(tmp_path / "prompts.jsonl"))
    monkeypatch.setenv("RUBRICWORKS_GENEVAL", str(tmp_path / "geneval.jsonl"))
    monkeypatch.setenv("RUBRICWORKS_GENERATOR", "Qwen/Qwen-Image@commit")
    text = plan_text(planned("rubricrl-diffusion", {}))
    assert "memory to train ${RUBRICWORKS_GENERATOR}: 53.7 GiB and its activations" in text  # (20.4 + 8.42) x 2e9 bytes
    assert "workspaces: " in text
    assert "train_generator" in text.split("workspaces: ")[1]
    monkeypatch.setenv("RUBRICWORKS_GENERATOR", "mine")
    assert "memory to train ${RUBRICWORKS_GENERATOR}: not known from its name" in plan_text(
        planned("rubricrl-diffusion", {})
    )


def test_folder_of_a_pipeline_tells_the_size_of_its_parts(tmp_path):
    for part, size in (("transformer", 600), ("text_encoder", 200), ("vae", 100)):
        (tmp_path / part).mkdir()
        (tmp_path / part / "model.safetensors").write_bytes(bytes(size))
    (tmp_path / "model_index.json").write_text("{}")
    assert model_size(str(tmp_path)) == ModelSize(300, 150)


@pytest.mark.slow
@pytest.mark.parametrize("kl_weight", [0.0, 0.1])
def test_memory_of_diffusion_nft_is_that_of_its_tensors(tmp_path, kl_weight):
    import torch
    from tiny_flow_generator import TINY_FLOW
    from tiny_generator import captioned_pictures
    from training_configs import nft_config

    from rubricworks.training.generators.flow_matching.pixel_flow import PixelFlow
    from rubricworks.training.generators.flow_matching.tiny_flow import pretrain_tiny_flow
    from rubricworks.training.generators.flow_matching.velocity_forms import VelocityForms

    model = pretrain_tiny_flow(*captioned_pictures(8), tmp_path, TINY_FLOW.model_copy(update={"steps": 1}), seed=1)
    generator, config = PixelFlow.load(model), nft_config(kl_weight=kl_weight)
    forms = VelocityForms(generator, None, keep_initial=bool(kl_weight), ema_decay=config.ema_decay)
    trained = [parameter for parameter in forms.parameters() if parameter.requires_grad]
    update = torch.optim.AdamW(trained)
    for parameter in trained:
        parameter.grad = torch.ones_like(parameter)
    update.step()
    moments = [tensor for state in update.state.values() for tensor in state.values() if tensor.dim()]
    frozen = list(generator.text_encoder.parameters())
    tensors = [*forms.parameters(), *(part.grad for part in trained), *moments, *forms._average.shadow_params, *frozen]
    size = ModelSize(*(sum(part.numel() for part in parts) for parts in (trained, frozen)))
    assert diffusion_bytes(size, config) == sum(tensor.numel() * tensor.element_size() for tensor in tensors)
