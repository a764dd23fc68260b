"""What a recipe's `cluster:` section says of work on several pods, and the plan that a stage is handed of it.

A pipeline is compiled with the plan as JSON in the environment of the task: `RUBRICWORKS_TRAIN_JOB` makes a training
stage run as a Kubeflow TrainJob, `RUBRICWORKS_FAN_OUT` lets a stage that asks models share its samples among the pods
of an Indexed Job. Neither is part of a stage's configuration: where something runs changes nothing of what comes out.
"""

import os
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rubricworks.errors import UserError


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RolloutServer(_Section):
    """A vLLM server beside the training that writes its rollouts; the stage's `vllm.mode` must be `server`."""

    pool: str | None = None
    """Pool of the `cluster:` section; None = that of the stage."""
    accelerators: int = Field(1, ge=1)
    """One model over so many accelerators [--tensor-parallel-size]."""
    gpu_memory: float = Field(0.9, gt=0, le=1)
    max_model_length: int | None = Field(None, ge=1)
    start_within: float = Field(1800, gt=0)
    """Seconds in which the server must have loaded the model."""


class TrainJobConfig(_Section):
    """A training stage on several nodes, by Kubeflow Trainer (version 2.3 or later)."""

    nodes: int = Field(2, ge=1)
    min_nodes: int | None = Field(None, ge=1)
    """After a preemption, or while there is no room for all, train on as few as this; None = all or nothing."""
    processes_per_node: int | None = Field(None, ge=1)
    """None = one for each accelerator of a node, or 1."""
    runtime: str = "torch-distributed"
    """The (Cluster)TrainingRuntime that the nodes are made from; its policy must be `torch`."""
    runtime_kind: Literal["ClusterTrainingRuntime", "TrainingRuntime"] = "ClusterTrainingRuntime"
    sharding: Literal["fsdp", "none"] = "fsdp"
    """Weights, gradients and optimizer state shared out over all processes, or a copy on each."""
    wrap: tuple[str, ...] = ()
    """Layer classes that are sharded one by one; none = those that the model names itself."""
    offload: bool = False
    """Keep what is sharded in the memory of the host."""
    restarts: int = Field(5, ge=0)
    """Times that training is begun again from its last checkpoint after nodes were preempted or lost."""
    wait_for_room: float = Field(900, ge=0)
    """Seconds that pods may stay without a node before fewer nodes are tried, or the stage fails. Not while queued."""
    timeout: float | None = Field(None, gt=0)
    """Seconds for the whole of it."""
    keep_failed: bool = True
    """Leave a failed TrainJob to be looked at; one that is done or stopped is deleted."""
    rollouts: RolloutServer | None = None

    @model_validator(mode="after")
    def _nodes_fit(self) -> "TrainJobConfig":
        if self.min_nodes is not None and self.min_nodes > self.nodes:
            raise ValueError(f"min_nodes {self.min_nodes} is more than nodes {self.nodes}")
        return self


class FanOutConfig(_Section):
    """One stage's questions shared out over the pods of an Indexed Job."""

    parts: int = Field(ge=2, le=10_000)
    """Pods' worth of work; each takes whole shards, so more parts than shards are not made."""
    at_once: int = Field(8, ge=1)
    """Pods that run at the same time."""
    retries: int = Field(3, ge=0)
    """Of each part, beside preemptions, which do not count."""
    wait_for_room: float = Field(900, ge=0)
    """Seconds that all pods may stay without a node before the stage fails."""
    timeout: float | None = Field(None, gt=0)
    """Seconds for the whole of it."""


class PodPlan(_Section):
    """Where a pod runs and what it is given: a stage's placement, worked out. Values as Kubernetes writes them."""

    image: str
    cpu: str | None = None
    memory: str | None = None
    accelerator: str | None = None
    """Name of the resource: nvidia.com/gpu."""
    accelerators: int = Field(0, ge=0)
    shared_memory: str | None = None
    """Size of /dev/shm."""
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    affinity: dict[str, Any] | None = None
    service_account: str | None = None
    labels: dict[str, str] = {}
    """Kueue's queue name among them."""
    env: tuple[dict[str, Any], ...] = ()
    """EnvVar objects; secrets by reference."""
    image_pull_secrets: tuple[str, ...] = ()
    volumes: tuple[dict[str, Any], ...] = ()
    """Volume objects: the workspace, and the claim with all runs where no bucket holds them."""
    mounts: tuple[dict[str, Any], ...] = ()
    """VolumeMount objects."""
    run_as_user: int | None = Field(None, ge=1)


class TrainJobPlan(_Section):
    """`RUBRICWORKS_TRAIN_JOB`."""

    namespace: str | None = None
    """None = that of the pod."""
    job: TrainJobConfig
    pod: PodPlan
    rollouts: PodPlan | None = None
    """The vLLM server's."""


class FanOutPlan(_Section):
    """`RUBRICWORKS_FAN_OUT`."""

    namespace: str | None = None
    fan_out: FanOutConfig
    pod: PodPlan


Plan = TypeVar("Plan", TrainJobPlan, FanOutPlan)


def plan_from_environment(variable: str, kind: type[Plan]) -> Plan | None:
    """The plan that this task was compiled with, or None where it works alone."""
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{variable}: {where}: {first['msg']}; compile the pipeline again") from None
