"""The `cluster:` section of a recipe: where on a Kubeflow cluster each stage runs, and with what.

Nothing in here changes what a stage makes, so the section is in no stage's configuration and in no digest: a run that
was begun on one pool goes on in another.

    cluster:
      storage: s3://rubricworks/runs
      pools:
        cpu: {}
        h100: {accelerator: nvidia.com/gpu, per_node: 8, tolerations: [{key: nvidia.com/gpu, operator: Exists}]}
      stages:
        default: {pool: cpu}
        train_policy: {pool: h100, accelerators: 8, cpu: 96, memory: 800Gi, shared_memory: 64Gi, timeout: 24h}
"""

import re
from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.recipe.kubeflow import KubeflowConfig
from rubricworks.recipe.placement import (
    AS_SAID,
    FromKeys,
    Label,
    LabelValue,
    Memory,
    Name,
    PoolConfig,
    StagePlacement,
    Variable,
    written_as,
)
from rubricworks.runtime.stage_table import STAGES

DEFAULT = "default"
CLUSTER_ONLY = ("preflight", "outcome")
"""Tasks that a pipeline has on a cluster alone: the first, and the last, which runs whatever became of the others."""
CHECK_ACCELERATORS = "check_accelerators"
RUNS_FOLDER = "/rubricworks/runs"
"""Where a claim with all runs is mounted."""

_SEVERAL_PODS = {
    "train_job": ("multi_node", "cannot be trained on several nodes"),
    "fan_out": ("can_fan_out", "cannot be shared out over pods"),
}
"""Field of a placement → flag of the stage table that allows it, and the refusal of other stages."""

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_PVC = "pvc://"


class ImagesConfig(BaseModel):
    """The images that `make images` builds, as the cluster's nodes pull them; by default, those of this version."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    cpu: str | None = Field(default=None, min_length=1)
    """Stages that read tables and call endpoints."""
    trainer: str | None = Field(default=None, min_length=1)
    """Stages that load a model."""
    vllm: str | None = Field(default=None, min_length=1)
    """Servers of judges, teachers and rollouts."""
    api: str | None = Field(default=None, min_length=1)
    pull_policy: str | None = Field(default=None, pattern="^(Always|IfNotPresent|Never)$")
    pull_secrets: tuple[Name, ...] = ()


class WorkspaceConfig(BaseModel):
    """Where a stage keeps its files while it works: its inputs, checkpoints and what it has not delivered yet."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    size: Memory = "50Gi"
    storage_class: str | None = Field(default=None, min_length=1)
    """A volume of this class for each stage, deleted with its pod. By default the node's own disk."""


class ClusterConfig(BaseModel):
    """Storage, images, pools, and the placement of each stage."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    storage: Annotated[
        str,
        written_as(
            r"s3://[^/\s]+(/\S*)?|pvc://[a-z0-9][-a-z0-9.]*(/\S*)?", "write s3://bucket/prefix or pvc://claim/folder"
        ),
    ]
    """All runs: `s3://bucket/prefix`, or `pvc://claim/folder` that every node can mount."""
    namespace: Name | None = None
    """The profile that runs belong to."""
    service_account: Name | None = None
    """Of the stages' pods; the installation's own by default."""
    worker_service_account: Name | None = None
    """Of the pods that stages make on other nodes, which need no rights in the cluster; the stages' by default."""
    production: bool = False
    """Refuse images that are not named by their digest."""
    images: ImagesConfig = ImagesConfig()
    pools: dict[Name, PoolConfig] = {}
    stages: dict[str, StagePlacement] = {}
    """By stage, `preflight` and `outcome` among them; `default` is for what they leave out."""
    check_pools: bool = True
    """Look at each pool's accelerators once, on one of them, before the first stage that needs them all."""
    workspace: WorkspaceConfig = WorkspaceConfig()
    claims: dict[Name, Annotated[str, written_as(r"/[^\s:]+", "a claim is mounted at a folder such as /models")]] = {}
    """Claims that every stage finds mounted: name → folder, such as a cache of models at HF_HOME."""
    queue: LabelValue | None = None
    """Kueue's local queue that admits the pods."""
    labels: dict[Label, LabelValue] = {}
    env: dict[Variable, str] = {}
    secrets: FromKeys = {}
    """For every stage, such as the store's: `s3-keys: {access: AWS_ACCESS_KEY_ID, secret: AWS_SECRET_ACCESS_KEY}`."""
    config_maps: FromKeys = {}
    run_as_user: int | None = Field(default=None, ge=1)
    """The images' own user by default; root is never taken."""
    pipeline_root: str | None = None
    """Where Kubeflow keeps what its pages show; the installation's own by default."""
    kubeflow: KubeflowConfig = KubeflowConfig()

    @model_validator(mode="after")
    def _stages_fit_their_pools(self) -> Self:
        for stage, placement in self.stages.items():
            where, asked = f"stages.{stage}", self.placement(stage)
            if placement.pool is not None and placement.pool not in self.pools:
                there = f"there are {', '.join(self.pools)}" if self.pools else "the cluster names none"
                raise ValueError(f"{where}.pool: no pool {placement.pool!r}; {there}")
            self._check_rollouts(where, asked)
            pool = self.pools.get(asked.pool or "", PoolConfig())
            if asked.accelerators and not pool.accelerator:
                name = f"pool {asked.pool!r} has no accelerator" if asked.pool else "no pool is set"
                raise ValueError(f"{where}.accelerators is {asked.accelerators}, and {name}; choose a pool that has")
            if pool.per_node and (asked.accelerators or 0) > pool.per_node:
                raise ValueError(
                    f"{where}.accelerators is {asked.accelerators}, a node of pool {asked.pool!r} has {pool.per_node}"
                )
        return self

    def _check_rollouts(self, where: str, asked: StagePlacement) -> None:
        server = asked.train_job and asked.train_job.rollouts
        if not server:
            return
        name = server.pool or asked.pool
        if server.pool is not None and server.pool not in self.pools:
            raise ValueError(f"{where}.train_job.rollouts.pool: no pool {name!r}; there are {', '.join(self.pools)}")
        pool = self.pools.get(name or "", PoolConfig())
        if not pool.accelerator or server.accelerators > (pool.per_node or server.accelerators):
            has = pool.per_node if pool.accelerator else 0
            raise ValueError(
                f"{where}.train_job.rollouts.accelerators is {server.accelerators}, a node of pool {name!r} has {has}"
            )

    @model_validator(mode="after")
    def _images_have_digests(self) -> Self:
        if self.production:
            for role, image in self.images:
                if role in ("cpu", "trainer") and image is None:
                    raise ValueError(f"images.{role} is not set; production names every image by its digest")
                if role in ("cpu", "trainer", "vllm", "api") and image and not _DIGEST.search(image):
                    raise ValueError(
                        f"images.{role} is {image!r}; production needs its digest: name@sha256: and 64 digits"
                    )
        return self

    def placement(self, stage: str) -> StagePlacement:
        """What a stage asks for, with what it leaves out."""
        default = self.stages.get(DEFAULT, StagePlacement()).over(AS_SAID)
        return self.stages.get(stage, StagePlacement()).over(default)

    def check_stages(self, stages: Iterable[str]) -> None:
        """Whether every name below `stages` is a task of the pipeline, and has several pods only where it can.

        Raises:
            ValueError: names the one that is not or cannot, and those that are or can.
        """
        stages = list(stages)
        known = [*stages, *CLUSTER_ONLY, CHECK_ACCELERATORS, DEFAULT]
        for stage, placement in self.stages.items():
            if stage not in known:
                raise ValueError(f"cluster.stages.{stage}: no such stage; there are {', '.join(known)}")
            for field, (flag, refusal) in _SEVERAL_PODS.items():
                if getattr(placement, field) and stage not in (
                    able := [one for one in stages if getattr(STAGES[one], flag)]
                ):
                    which = f"{' and '.join(able)} can" if able else "no stage of this pipeline can"
                    raise ValueError(f"cluster.stages.{stage}.{field}: {stage} {refusal}; leave it out ({which})")

    def run_uri(self, run_id: str) -> str:
        """Of a run's folder, as its stages are given it."""
        if self.storage.startswith(_PVC):
            return f"file://{RUNS_FOLDER}/{run_id}"
        return f"{self.storage.rstrip('/')}/{run_id}"

    def runs_claim(self) -> tuple[str, str] | None:
        """The claim that holds all runs and the folder in it; None where a bucket does."""
        if not self.storage.startswith(_PVC):
            return None
        claim, _, folder = self.storage.removeprefix(_PVC).partition("/")
        return claim, folder.strip("/")
