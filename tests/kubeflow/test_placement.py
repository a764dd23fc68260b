"""Pipelines with a `cluster:` section, read back by Kubeflow's own messages."""

import copy
import json
import os
import re
import subprocess
import sys

import pytest
from google.protobuf import json_format
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineTaskSpec
from pipeline_inputs import BALCAPRL, GATES, RLR3, RUBICAP
from placed_tasks import CLUSTER, PIPELINES, TABLES, TRAINED_LONGEST, cluster_of, table_of, tasks_of

from rubricworks.components import images
from rubricworks.errors import UserError
from rubricworks.kubeflow.cluster_pipeline import place_pipeline
from rubricworks.kubeflow.compile import compile_pipeline, compile_specs, load_pipeline
from rubricworks.kubernetes.config import FanOutPlan, ServePlan, TrainJobPlan
from rubricworks.llm.served import ServedDefinition
from rubricworks.pipelines.rubicap import rubicap
from rubricworks.recipe import ClusterConfig
from rubricworks.recipe.methods import METHODS
from rubricworks.runtime.stage_table import STAGES

REGISTRY = {role: f"registry.example/team/{role}:1" for role in ("cpu", "trainer", "vllm")}
DAGS = {"rubicap": RUBICAP, "rlr3": RLR3, "balcaprl": BALCAPRL}


@pytest.fixture(scope="module", params=list(PIPELINES))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def specs(name):
    return compile_specs(PIPELINES[name], cluster_of(name))


def placed_rubicap(**changes):
    return table_of(*compile_specs(rubicap, cluster_of("rubicap", **changes)))


def test_each_task_is_asked_for_what_the_recipe_says(name, specs):
    """The tables are kept beside this file; `placed_tasks.py` writes them anew, and a person reads the difference."""
    assert table_of(*specs) == json.loads((TABLES / f"{name}.json").read_text())


@pytest.mark.slow
def test_compiling_again_in_another_process_gives_the_same_bytes(tmp_path):
    program = (
        "import sys, pathlib; from rubricworks.kubeflow.compile import compile_pipeline\n"
        "from placed_tasks import PIPELINES, cluster_of\n"
        "for name, pipeline in PIPELINES.items():\n"
        "    compile_pipeline(pipeline, pathlib.Path(sys.argv[1]) / f'{name}.yaml', cluster_of(name))"
    )
    folder = str(TABLES.parent)
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo", "PYTHONPATH": folder}
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "again")], check=True, env=environment, cwd=tmp_path)
    for name, pipeline in PIPELINES.items():
        compile_pipeline(pipeline, first := tmp_path / "first" / f"{name}.yaml", cluster_of(name))
        assert (tmp_path / "again" / first.name).read_bytes() == first.read_bytes(), name


def test_nothing_starts_before_the_check_and_the_outcome_is_told(name, specs):
    spec, _ = specs
    tasks = tasks_of(spec)
    waits = {task: set(spec.dependent_tasks) for task, spec in tasks.items()}
    for task in set(tasks) - {"preflight", "outcome"}:
        before, todo = set(), [task]
        while todo:
            before |= waits[todo[-1]]
            todo += waits[todo.pop()]
        assert "preflight" in before
    last = tasks["outcome"]
    assert last.trigger_policy.strategy == PipelineTaskSpec.TriggerPolicy.ALL_UPSTREAM_TASKS_COMPLETED
    (group,) = last.dependent_tasks
    assert last.inputs.parameters["status"].task_final_status.producer_task == group
    assert set(spec.components[spec.root.dag.tasks[group].component_ref.name].dag.tasks) == set(tasks) - {"outcome"}


def test_stages_wait_for_the_same_stages_as_on_this_machine(name, specs):
    added = {"preflight", "check-accelerators"}
    waits = {task.replace("-", "_"): set(spec.dependent_tasks) - added for task, spec in tasks_of(specs[0]).items()}
    assert {stage: waits[stage] for stage in DAGS[name]} == {
        stage: {maker.replace("_", "-") for maker in {*inputs.values(), *GATES.get(stage, ())}}
        for stage, inputs in DAGS[name].items()
    }


def test_what_makes_data_may_be_cached_and_what_trains_decides_or_tells_may_not(name, specs):
    cached = {task.replace("-", "_") for task, row in table_of(*specs).items() if row["cached"]}
    never = {stage for stage in DAGS[name] if stage.startswith(("train", "score", "warm", "promote"))}
    assert {"promote", TRAINED_LONGEST[name]} <= never
    assert cached
    assert not cached & (never | {"preflight", "outcome", "check_accelerators", "audit"})
    # A source may have grown since.
    assert not cached & {"prepare", "prepare_questions"}


def test_the_accelerators_of_a_pool_are_looked_at_once_and_on_one_of_them(specs):
    table = table_of(*specs)
    on_gpus = {task for task, row in table.items() if "accelerator" in row["resources"]} - {"check-accelerators"}
    assert on_gpus
    assert all("check-accelerators" in table[task]["after"] for task in on_gpus)
    assert table["check-accelerators"]["resources"]["accelerator"]["resourceCount"] == "1"
    assert table["check-accelerators"]["after"] == ["preflight"]


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", METHODS)
def test_nothing_is_paid_for_before_every_pool_and_its_image_are_looked_at(pipeline):
    """A stage that calls models waits, itself or behind others, for the checks of all pools that are used later."""
    cluster = copy.deepcopy(CLUSTER)
    cluster["pools"]["l4"] = {"accelerator": "nvidia.com/gpu", "node_selector": {"gpu": "l4"}}
    cluster["stages"] |= {stage: {"pool": "l4", "accelerators": 1} for stage in ("score", "train_generator")}
    table = table_of(*compile_specs(load_pipeline(pipeline), ClusterConfig.model_validate(cluster)))
    calling = {task for task, row in table.items() if STAGES[stage_of(row)].calls_models}
    checks = {task for task, row in table.items() if stage_of(row) == "check_accelerators"}
    assert calling
    assert checks
    for task in calling:
        before, todo = set(), [task]
        while todo:
            before |= (new := {*table[todo.pop()]["after"]} - before)
            todo += new
        # A branch has checks of its own: those that no other branch waits for.
        in_branch = {check for check in checks if before & {check}}
        assert len(in_branch) == len(checks) / (3 if pipeline == "retrain" else 1), task


def stage_of(task):
    return task["kubernetes"]["podMetadata"]["labels"]["rubricworks.dev/stage"]


def test_what_calls_no_model_goes_on_beside_the_check(specs):
    table = table_of(*specs)
    waiting = {task for task, row in table.items() if "check-accelerators" in row["after"]}
    on_gpus = {task for task, row in table.items() if "accelerator" in row["resources"]} - {"check-accelerators"}
    assert waiting - on_gpus == {task for task in table if STAGES[task.replace("-", "_")].calls_models} - on_gpus
    assert not waiting & {"prepare", "prepare-questions", "promote", "report"}


def test_the_pools_need_not_be_looked_at():
    assert not [task for task in placed_rubicap(check_pools=False) if task.startswith("check")]


def test_two_pools_are_looked_at_each_by_its_own_task():
    cluster = copy.deepcopy(CLUSTER)
    cluster["pools"]["l4"] = {"accelerator": "nvidia.com/gpu", "node_selector": {"gpu": "l4"}}
    cluster["stages"] |= {"caption_student": {"pool": "l4", "accelerators": 1}}
    table = table_of(*compile_specs(rubicap, ClusterConfig.model_validate(cluster)))
    (of_l4,) = [name for name in table["caption-student"]["after"] if name.startswith("check-accelerators")]
    (of_h100,) = [name for name in table["warm-up"]["after"] if name.startswith("check-accelerators")]
    assert of_l4 != of_h100
    assert table[of_l4]["kubernetes"]["nodeSelector"]["labels"] == {"gpu": "l4"}
    # They write the same folder of the run, so not at once.
    assert (table[of_h100]["after"], table[of_l4]["after"]) == (["preflight"], [of_h100, "preflight"])


def test_no_pod_runs_as_root_unbounded_or_unlabelled(specs):
    for task, row in table_of(*specs).items():
        assert row["kubernetes"]["securityContext"]["runAsNonRoot"] is True, task
        assert row["kubernetes"]["securityContext"]["runAsUser"] != "0", task
        for amount in ("Cpu", "Memory"):
            requests, allowed = (row["resources"][f"resource{amount}{kind}"] for kind in ("Request", "Limit"))
            assert requests == allowed, task
        labels = row["kubernetes"]["podMetadata"]["labels"]
        assert labels["kueue.x-k8s.io/queue-name"] == (
            "h100-queue" if "accelerator" in row["resources"] else "cpu-queue"
        )
        assert labels["rubricworks.dev/stage"] == task.replace("-", "_")
        assert row["image"].startswith("registry.example/")


def test_no_parameter_reads_as_yes_or_no_and_there_is_no_wide_fan_out(specs):
    spec, _ = specs
    components = [spec.root, *spec.components.values()]
    assert not {name for component in components for name in component.input_definitions.parameters} & {
        "y", "n", "yes", "no", "on", "off",
    }  # fmt: skip
    assert not [
        task for component in components for task in component.dag.tasks.values() if task.WhichOneof("iterator")
    ]


def test_the_parameters_are_the_run_and_a_configuration_for_each_task(name, specs):
    expected = {"run", *(f"{stage}_config" for stage in (*DAGS[name], "preflight", "outcome"))}
    assert set(specs[0].root.input_definitions.parameters) == expected
    assert specs[0].default_pipeline_root == "s3://models/kubeflow"


def test_runs_on_a_claim_are_mounted_where_the_stages_look_for_them():
    cluster = cluster_of("rubicap", storage="pvc://all-runs/vision/2026")
    assert cluster.run_uri("mine") == "file:///rubricworks/runs/mine"
    table = table_of(*compile_specs(rubicap, cluster))
    for row in table.values():
        mount = {"constant": "all-runs", "mountPath": "/rubricworks/runs", "subPath": "vision/2026"}
        assert mount in row["kubernetes"]["pvcMount"]


def test_the_run_of_a_bucket_lies_below_its_prefix():
    assert cluster_of("rubicap").run_uri("mine") == "s3://models/runs/mine"


def test_a_small_cluster_asks_for_no_more_than_is_said():
    table = table_of(*compile_specs(rubicap, ClusterConfig(storage="s3://b", images=REGISTRY)))
    assert not [task for task in table if task.startswith("check")]
    row = table["train-policy"]
    assert row["image"] == REGISTRY["trainer"]
    assert row["kubernetes"] == {
        "securityContext": {"runAsNonRoot": True},
        "emptyDirMounts": [
            {"volumeName": "workspace", "mountPath": "/rubricworks/workspace", "sizeLimit": "50Gi"}
        ],
        "podMetadata": {
            "labels": {"app.kubernetes.io/part-of": "rubricworks", "rubricworks.dev/stage": "train_policy"}
        },
        "fieldPathAsEnv": [
            {"name": "RUBRICWORKS_ATTEMPT", "fieldPath": "metadata.annotations['workflows.argoproj.io/node-name']"}
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("named", "role"),
    [
        ({}, "cpu is not set"),
        ({"cpu": "rubricworks/cpu:0.2.0"}, "cpu is 'rubricworks/cpu:0.2.0'"),
        ({"cpu": "cpu"}, "cpu is 'cpu'"),
        ({"cpu": "rubricworks/cpu@sha256:" + "c" * 64}, "cpu is 'rubricworks/cpu@sha256"),
        ({"cpu": "localhost/cpu:1"}, "trainer is not set"),
        ({"cpu": "registry:5000/cpu:1", "trainer": "team/trainer"}, "trainer is 'team/trainer'"),
    ],
)
def test_an_image_without_a_registry_is_refused_with_what_to_write(named, role):
    with pytest.raises(UserError) as caught:
        compile_specs(rubicap, ClusterConfig(storage="s3://b", images=named))
    message = str(caught.value)
    assert message.startswith(f"cluster.images.{role}")
    assert "on a public hub; name your registry, as in cluster.images: {" in message
    assert "\n" not in message


def test_the_server_of_rollouts_needs_a_registry_as_well():
    stages = copy.deepcopy(cluster_of("rubicap").model_dump(exclude_defaults=True)["stages"])
    stages["train_policy"] |= {"train_job": {"nodes": 2, "rollouts": {"accelerators": 4}}}
    with pytest.raises(UserError, match=r"cluster\.images\.vllm is not set"):
        placed_rubicap(stages=stages)


def test_images_that_every_node_holds_need_no_registry():
    cluster = ClusterConfig(storage="s3://b", images={"pull_policy": "Never"})
    assert table_of(*compile_specs(rubicap, cluster))["train-policy"]["image"] == images.TRAINER


def test_a_stage_on_several_nodes_follows_from_a_small_pod_and_carries_their_plan():
    stages = copy.deepcopy(cluster_of("rubicap").model_dump(exclude_defaults=True)["stages"])
    rollouts = {"accelerators": 4}
    stages["train_policy"] |= {"train_job": {"nodes": 4, "min_nodes": 2, "rollouts": rollouts}}
    stages["caption_committee"] = {"fan_out": {"parts": 16}}
    table = placed_rubicap(stages=stages, images=REGISTRY, production=False)

    follower = table["train-policy"]
    assert "accelerator" not in follower["resources"]
    assert follower["resources"]["resourceMemoryLimit"] == "2Gi"
    assert follower["kubernetes"]["nodeSelector"]["labels"] == {"pool": "cpu"}
    assert "RUBRICWORKS_ACCELERATORS" not in follower["env"]

    plan = TrainJobPlan.model_validate_json(follower["env"]["RUBRICWORKS_TRAIN_JOB"])
    assert (plan.job.nodes, plan.namespace) == (4, "vision")
    assert (plan.pod.accelerator, plan.pod.accelerators, plan.pod.memory) == ("nvidia.com/gpu", 8, "800Gi")
    assert plan.pod.image == follower["image"]
    assert plan.pod.labels["kueue.x-k8s.io/queue-name"] == "h100-queue"
    by_name = {entry["name"]: entry for entry in plan.pod.env}
    assert by_name["RUBRICWORKS_ACCELERATORS"]["value"] == "8"
    assert by_name["JUDGE_KEY"]["valueFrom"] == {"secretKeyRef": {"name": "judge", "key": "key"}}
    assert by_name["HTTPS_PROXY"]["valueFrom"] == {"configMapKeyRef": {"name": "proxies", "key": "https"}}
    assert plan.pod.tolerations[1]["tolerationSeconds"] == 300
    required = plan.pod.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [expression["key"] for expression in required["nodeSelectorTerms"][0]["matchExpressions"]] == [
        "topology.kubernetes.io/zone", "gpu-memory",
    ]  # fmt: skip
    assert plan.rollouts.accelerators == 4
    assert plan.rollouts.image == REGISTRY["vllm"]

    shared = FanOutPlan.model_validate_json(table["caption-committee"]["env"]["RUBRICWORKS_FAN_OUT"])
    assert (shared.fan_out.parts, shared.pod.cpu, shared.pod.node_selector) == (16, "2", {"pool": "cpu"})


def test_secrets_and_config_maps_are_files_in_every_pod_that_a_stage_has_or_makes():
    stages = {**cluster_of("rubicap").model_dump(exclude_defaults=True)["stages"]}
    stages["caption_committee"] = {"fan_out": {"parts": 2}}
    table = placed_rubicap(
        secret_files={"s3-certificate": "/etc/s3"},
        config_map_files={"corporate-ca": "/etc/ca"},
        env={"SSL_CERT_FILE": "/etc/ca/ca.crt"},
        stages=stages,
    )
    for task, row in table.items():
        (secret,), (config_map,) = row["kubernetes"]["secretAsVolume"], row["kubernetes"]["configMapAsVolume"]
        assert (secret["secretName"], secret["mountPath"]) == ("s3-certificate", "/etc/s3"), task
        assert (config_map["configMapName"], config_map["mountPath"]) == ("corporate-ca", "/etc/ca"), task
        assert row["env"]["SSL_CERT_FILE"] == "/etc/ca/ca.crt"
    pod = FanOutPlan.model_validate_json(table["caption-committee"]["env"]["RUBRICWORKS_FAN_OUT"]).pod
    volumes = {volume["name"]: volume for volume in pod.volumes}
    assert volumes["corporate-ca"]["configMap"] == {"name": "corporate-ca"}
    assert volumes["s3-certificate"]["secret"] == {"secretName": "s3-certificate"}
    mounts = {mount["name"]: mount["mountPath"] for mount in pod.mounts}
    assert (mounts["corporate-ca"], mounts["s3-certificate"]) == ("/etc/ca", "/etc/s3")


def test_the_pipeline_itself_stays_as_it_was():
    before = json_format.MessageToDict(rubicap.pipeline_spec)
    place_pipeline(rubicap, cluster_of("rubicap"))
    assert json_format.MessageToDict(rubicap.pipeline_spec) == before


def test_stages_that_call_a_served_model_and_the_exit_task_know_where_it_runs():
    pool = {"accelerator": "nvidia.com/gpu", "per_node": 8, "node_selector": {"gpu": "h100"}}
    section = {
        "storage": "s3://models/runs",
        "images": REGISTRY,
        "pools": {"h100": pool},
        "serve": {"genrm": {"pool": "h100", "memory": "99Gi"}},
        "kserve": True,
    }
    cluster = ClusterConfig.model_validate(section)
    served = {"genrm": ["audit", "train_rlr3"]}
    pipeline = place_pipeline(load_pipeline("rlr3"), cluster, served=served)
    table = table_of(*compile_specs(pipeline))
    plans = {
        task: ServePlan.model_validate_json(row["env"]["RUBRICWORKS_SERVE"])
        for task, row in table.items()
        if "RUBRICWORKS_SERVE" in row["env"]
    }
    assert plans.keys() == {"audit", "train-rlr3", "outcome"}
    pod = plans["audit"].pods["genrm"]
    assert (pod.image, pod.memory, pod.accelerator) == (REGISTRY["vllm"], "99Gi", "nvidia.com/gpu")
    assert pod.node_selector == {"gpu": "h100"}
    assert plans["train-rlr3"].callers == {"genrm": ("audit", "train_rlr3")}
    assert {plan.kserve for plan in plans.values()} == {True}


def test_a_served_model_needs_a_pool_with_its_accelerators():
    cluster = ClusterConfig.model_validate(
        {"storage": "s3://models/runs", "pools": {"cpu": {}, "small": {"accelerator": "a/b", "per_node": 2}}}
    )
    definition = ServedDefinition(model="./folder", accelerators=4)
    assert cluster.server_placement("genrm").pool == "small"
    for changes, words in (
        ({"genrm": {"pool": "cpu"}}, "cluster.serve.genrm.pool: serve.genrm.accelerators is 4, and its pool has none"),
        ({}, "serve.genrm.accelerators is 4, and a node of its pool has 2"),
        ({"genrm": {"pool": "small"}}, "serve.genrm.accelerators is 4, and a node of its pool has 2"),
        ({"other": {"pool": "small"}}, "cluster.serve.other: no served model 'other'; there are genrm"),
        ({"genrm": {"accelerators": 4}}, "cluster.serve.genrm.accelerators: a served model has none; leave it out"),
    ):
        section = ClusterConfig.model_validate(
            {**cluster.model_dump(mode="json", exclude_defaults=True), "serve": changes}
        )
        with pytest.raises(ValueError, match=re.escape(words)):
            section.check_served({"genrm": definition})
