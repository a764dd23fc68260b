"""The multi-pod part of a recipe's `cluster:` section, and the plans that stages get from it.

A pipeline is compiled with the plan as JSON in the task's environment: `RUBRICWORKS_TRAIN_JOB` runs a training stage as
a Kubeflow TrainJob, `RUBRICWORKS_FAN_OUT` divides the samples of a stage that calls models over the pods of an Indexed
Job; `RUBRICWORKS_SERVE` places the models that a run serves. None is part of a stage's configuration, because placement
does not change the output.
"""

import os
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rubricworks.errors import UserError


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RolloutServer(_Section):
    """A vLLM server that generates a training's rollouts; the stage's `rollouts.vllm.mode` must be `server`."""

    pool: str | None = None
    """Pool of the `cluster:` section; None = the stage's pool."""
    accelerators: int = Field(1, ge=1)
    """Accelerators that share the model [--tensor-parallel-size]."""
    gpu_memory: float = Field(0.9, gt=0, le=1)
    """Share of GPU memory for vLLM."""
    max_model_length: int | None = Field(None, ge=1)
    """Tokens of a prompt and its response; the model's own limit by default."""
    start_within: float = Field(1800, gt=0)
    """Seconds in which the server must have loaded the model."""


class TrainJobConfig(_Section):
    """A training stage on several nodes, by Kubeflow Trainer (version 2.3 or later)."""

    nodes: int = Field(2, ge=1)
    """Pods of the training."""
    min_nodes: int | None = Field(None, ge=1)
    """Fewest nodes to train on after a preemption or while there is no room for all; None = all or nothing."""
    processes_per_node: int | None = Field(None, ge=1)
    """None = one for each accelerator of a node, or 1."""
    runtime: str = "torch-distributed"
    """Name of the nodes' (Cluster)TrainingRuntime; its policy must be `torch`."""
    runtime_kind: Literal["ClusterTrainingRuntime", "TrainingRuntime"] = "ClusterTrainingRuntime"
    """Kind of the Kubeflow Trainer runtime."""
    sharding: Literal["fsdp", "none"] = "fsdp"
    """Weights, gradients and optimizer state sharded over all processes, or a copy in each."""
    wrap: tuple[str, ...] = ()
    """Layer classes that are sharded one by one; empty = the model's own list."""
    offload: bool = False
    """Offload the shards to host memory."""
    restarts: int = Field(5, ge=0)
    """Restarts from the last checkpoint after nodes were preempted or lost."""
    wait_for_room: float = Field(900, ge=0)
    """Seconds that pods may be unschedulable before fewer nodes are tried or the stage fails. Not while queued."""
    timeout: float | None = Field(None, gt=0)
    """Seconds for the whole TrainJob."""
    keep_failed: bool = True
    """Keep a failed TrainJob for inspection; one that is done or stopped is deleted."""
    rollouts: RolloutServer | None = None
    """vLLM server of the training, in a pod of its own; none by default."""

    @model_validator(mode="after")
    def _nodes_fit(self) -> "TrainJobConfig":
        if self.min_nodes is not None and self.min_nodes > self.nodes:
            raise ValueError(f"min_nodes {self.min_nodes} is more than nodes {self.nodes}")
        fields = type(self).model_fields
        if self.rollouts and any(getattr(self, name) != fields[name].default for name in ("runtime", "runtime_kind")):
            raise ValueError(f"runtime {self.runtime}: rollouts bring a runtime of their own; leave out one of the two")
        return self


class FanOutConfig(_Section):
    """Fan-out of one stage's items over the pods of an Indexed Job."""

    parts: int = Field(ge=2, le=10_000)
    """Number of parts; a part is whole shards, so there are never more parts than shards."""
    at_once: int = Field(8, ge=1)
    """Parts that run at the same time."""
    retries: int = Field(3, ge=0)
    """Retries of each part; preemptions do not count."""
    wait_for_room: float = Field(900, ge=0)
    """Seconds that all pods may be unschedulable before the stage fails."""
    timeout: float | None = Field(None, gt=0)
    """Seconds for the whole Indexed Job."""


class PodPlan(_Section):
    """Placement and resources of a pod, resolved from a stage's placement; values in Kubernetes' notation."""

    image: str
    cpu: str | None = None
    memory: str | None = None
    accelerator: str | None = None
    """Name of the resource: nvidia.com/gpu."""
    accelerators: int = Field(0, ge=0)
    shared_memory: str | None = None
    """Size of /dev/shm."""
    ephemeral_storage: str | None = None
    """Part of the node's disk that the pod may count on."""
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, object], ...] = ()
    affinity: dict[str, object] | None = None
    service_account: str | None = None
    labels: dict[str, str] = {}
    """Pod labels, Kueue's queue name among them."""
    env: tuple[dict[str, object], ...] = ()
    """EnvVar objects; secrets by reference."""
    image_pull_secrets: tuple[str, ...] = ()
    volumes: tuple[dict[str, object], ...] = ()
    """Volume objects: the workspace, and the claim that holds all runs if no bucket does."""
    mounts: tuple[dict[str, object], ...] = ()
    """VolumeMount objects."""
    run_as_user: int | None = Field(None, ge=1)


class TrainJobPlan(_Section):
    """Plan of a TrainJob, the value of `RUBRICWORKS_TRAIN_JOB`."""

    namespace: str | None = None
    """None = the stage's own namespace."""
    job: TrainJobConfig
    pod: PodPlan
    rollouts: PodPlan | None = None
    """Pod of the vLLM server."""


class FanOutPlan(_Section):
    """Plan of a fan-out, the value of `RUBRICWORKS_FAN_OUT`."""

    namespace: str | None = None
    fan_out: FanOutConfig
    pod: PodPlan


class ServePlan(_Section):
    """Plan of the models that a run serves, the value of `RUBRICWORKS_SERVE`."""

    namespace: str | None = None
    kserve: bool = False
    """Create InferenceServices of KServe instead of Deployments and Services."""
    pods: dict[str, PodPlan] = {}
    """Name of a served model → its pod; the model's definition has the number of accelerators."""
    callers: dict[str, tuple[str, ...]] = {}
    """Name of a served model → stages that call it."""


Plan = TypeVar("Plan", TrainJobPlan, FanOutPlan, ServePlan)


def plan_from_environment(variable: str, kind: type[Plan]) -> Plan | None:
    """Read the plan that this task was compiled with; None for a stage on one pod.

    Raises:
        UserError: the plan is invalid.
    """
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{variable}: {where}: {first['msg']}; compile the pipeline again") from None
