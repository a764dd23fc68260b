"""The `cluster:` section of a recipe: the place and the resources of each stage on a Kubeflow cluster.

The section does not change the output of a stage, so it is in no stage's configuration and in no digest: a run that was
started on one pool can be resumed on another.

    cluster:
      storage: s3://rubricworks/runs
      pools:
        cpu: {}
        h100: {accelerator: nvidia.com/gpu, per_node: 8, tolerations: [{key: nvidia.com/gpu, operator: Exists}]}
      stages:
        default: {pool: cpu}
        train_policy: {pool: h100, accelerators: 8, cpu: 96, memory: 800Gi, shared_memory: 64Gi, timeout: 24h}
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.llm.served import ServedDefinition
from rubricworks.recipe.kubeflow import KubeflowConfig
from rubricworks.recipe.placement import (
    BUILT_IN_PLACEMENT,
    KeyVariables,
    Label,
    LabelValue,
    Memory,
    Name,
    Namespace,
    PoolConfig,
    StagePlacement,
    Variable,
    pattern_validator,
)
from rubricworks.runtime.stage_table import STAGES

DEFAULT = "default"
CLUSTER_ONLY = ("preflight", "outcome")
"""Tasks that a pipeline has only on a cluster: the first, and the last, which runs even if others failed."""
DEFAULT_WORKSPACE = "50Gi"
"""Workspace of a stage that reads and trains no large model."""
CHECK_ACCELERATORS = "check_accelerators"
WORKSPACE = "/rubricworks/workspace"
"""Folder of a stage's files in its pod."""
RUNS_FOLDER = "/rubricworks/runs"
"""Mount point of a claim that holds all runs."""

_SEVERAL_PODS = {
    "train_job": ("multi_node", "cannot be trained on several nodes"),
    "fan_out": ("can_fan_out", "cannot be shared out over pods"),
}
"""Field of a placement → flag of the stage table that allows it, and the error for other stages."""

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_PVC = "pvc://"


MountPath = Annotated[str, pattern_validator(r"/[^\s:]+", "a claim is mounted at a folder such as /models")]
_VOLUMES = frozenset(
    {
        *("workspace", "shared-memory", "kfp-launcher", "gcs-scratch", "s3-scratch", "minio-scratch"),
        *("dot-local-scratch", "dot-cache-scratch", "dot-config-scratch", "var-run-argo", "tmp-dir-argo"),
    }
)
"""Names of volumes that every stage's pod has: ours, and those of Kubeflow 2.16 and Argo."""
_FOLDERS = {
    "/": "",
    WORKSPACE: "the workspace",
    "/dev/shm": "shared memory",
    "/kfp-launcher": "Kubeflow's launcher",
    "/var/run/argo": "Argo's folder",
}
"""Folders of a stage's pod on which nothing else can be mounted, and what is there."""
_LONGEST_VOLUME = 63


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
    """Image of the API."""
    pull_policy: str | None = Field(default=None, pattern="^(Always|IfNotPresent|Never)$")
    """Pull policy of all images."""
    pull_secrets: tuple[Name, ...] = ()
    """Secrets of the registry."""


class WorkspaceConfig(BaseModel):
    """Volume of a stage's inputs, checkpoints and outputs while it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    size: Memory | None = None
    """Size for every stage. By default what the models and checkpoints of a stage take by its recipe, 50Gi at least."""
    storage_class: str | None = Field(default=None, min_length=1)
    """Class of a volume for each stage, deleted with its pod. By default the node's own disk."""


class ClaimMount(NamedTuple):
    """Mount of a persistent volume claim in a stage's pod."""

    claim: str
    folder: str
    sub_path: str = ""
    """Folder in the claim; empty for all of it."""


class ClusterConfig(BaseModel):
    """Storage, images, pools, and the placement of each stage."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    storage: Annotated[
        str,
        pattern_validator(
            r"s3://[^/\s]+(/\S*)?|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/\S*)?",
            "write s3://bucket/prefix or pvc://claim/folder",
        ),
    ]
    """Place of all runs: `s3://bucket/prefix`, or `pvc://claim/folder` that every node can mount."""
    namespace: Namespace | None = None
    """Profile that runs belong to."""
    service_account: Name | None = None
    """Service account of the stages' pods; by default the installation's own."""
    worker_service_account: Name | None = None
    """Service account of the pods that stages create, which need no rights in the cluster; by default the stages'."""
    production: bool = False
    """Refuse images that are not named by their digest."""
    images: ImagesConfig = ImagesConfig()
    pools: dict[Name, PoolConfig] = {}
    """Node pools by name."""
    stages: dict[str, StagePlacement] = {}
    """Stage → placement, also of `preflight` and `outcome`; `default` fills the fields that a stage leaves out."""
    serve: dict[str, StagePlacement] = {}
    """Served model → placement of its pods; `default` of `stages` fills the fields that it leaves out, but for the pool
    if only one has accelerators. The number of accelerators is the recipe's `serve.NAME.accelerators`.
    """
    kserve: bool = False
    """Serve models by InferenceServices of KServe instead of Deployments."""
    check_pools: bool = True
    """Check one accelerator of each pool before the first stage that needs accelerators there."""
    workspace: WorkspaceConfig = WorkspaceConfig()
    claims: dict[Name, MountPath] = {}
    """Claims mounted in every stage: name → folder, such as a cache of models at HF_HOME."""
    queue: LabelValue | None = None
    """Kueue's local queue that admits the pods."""
    labels: dict[Label, LabelValue] = {}
    """Labels of every pod."""
    env: dict[Variable, str] = {}
    """Environment variables of every pod."""
    secrets: KeyVariables = {}
    """Secrets of every stage: `s3-keys: {access: AWS_ACCESS_KEY_ID, secret: AWS_SECRET_ACCESS_KEY}` for a store."""
    config_maps: KeyVariables = {}
    """ConfigMap keys that pods read as environment variables: ConfigMap → key → variable."""
    secret_files: dict[Name, MountPath] = {}
    """Secrets mounted in every stage as a folder with a file per key: `s3-certificate: /etc/s3`."""
    config_map_files: dict[Name, MountPath] = {}
    """ConfigMaps likewise, such as a private authority: `ca: /etc/ca` with `env: {SSL_CERT_FILE: /etc/ca/ca.crt}`."""
    run_as_user: int | None = Field(default=None, ge=1)
    """User of the pods; by default the images' own, never root."""
    pipeline_root: str | None = None
    """Store of the artifacts on Kubeflow's pages; by default the installation's own."""
    kubeflow: KubeflowConfig = KubeflowConfig()

    @model_validator(mode="after")
    def _stages_fit_their_pools(self) -> Self:
        for stage, placement in self.stages.items():
            where, resolved = f"stages.{stage}", self.placement(stage)
            if placement.pool is not None and placement.pool not in self.pools:
                hint = f"there are {', '.join(self.pools)}" if self.pools else "the cluster names none"
                raise ValueError(f"{where}.pool: no pool {placement.pool!r}; {hint}")
            self._check_rollouts(where, resolved)
            pool = self.pools.get(resolved.pool or "", PoolConfig())
            if resolved.accelerators and not pool.accelerator:
                name = f"pool {resolved.pool!r} has no accelerator" if resolved.pool else "no pool is set"
                raise ValueError(f"{where}.accelerators is {resolved.accelerators}, and {name}; choose a pool that has")
            count = resolved.accelerators or 0
            if pool.per_node and count > pool.per_node:
                raise ValueError(
                    f"{where}.accelerators is {count}, a node of pool {resolved.pool!r} has {pool.per_node}"
                )
        return self

    def _check_rollouts(self, where: str, placement: StagePlacement) -> None:
        server = placement.train_job and placement.train_job.rollouts
        if not server:
            return
        name = server.pool or placement.pool
        if server.pool is not None and server.pool not in self.pools:
            raise ValueError(f"{where}.train_job.rollouts.pool: no pool {name!r}; there are {', '.join(self.pools)}")
        pool = self.pools.get(name or "", PoolConfig())
        if not pool.accelerator or server.accelerators > (pool.per_node or server.accelerators):
            has = pool.per_node if pool.accelerator else 0
            raise ValueError(
                f"{where}.train_job.rollouts.accelerators is {server.accelerators}, a node of pool {name!r} has {has}"
            )

    @model_validator(mode="after")
    def _volumes_fit_into_one_pod(self) -> Self:
        """Kubeflow names the volume of a claim, a Secret or a ConfigMap after it; a folder holds one volume."""
        if ".." in (self.runs_claim() or ("", ""))[1].split("/"):
            raise ValueError(f"storage: {self.storage}: a folder of a claim has no .. in it")
        names, folders = dict.fromkeys(_VOLUMES, ""), dict(_FOLDERS)
        for where, kind, name, folder in self._volumes():
            if (other := names.get(name)) is not None and not kind == other == "claims":
                raise ValueError(
                    f"{where}: another volume of the pods has this name; rename one of them"
                    if other
                    else f"{where}: every pod has another volume of this name; rename it"
                )
            if "." in name or len(name) > _LONGEST_VOLUME:
                raise ValueError(f"{where}: the volume gets this name; it has no dots, and 63 letters at most")
            place = "/" + posixpath.normpath(folder).lstrip("/")
            if place in folders:
                there = (
                    f"{folders[place]} is mounted on {place} already" if folders[place] else "/ holds the image itself"
                )
                raise ValueError(f"{where}: {there}; choose another folder")
            names[name], folders[place] = kind, "the claim of all runs" if where.startswith("storage") else where
        return self

    def _volumes(self) -> Iterator[tuple[str, str, str, str]]:
        """Field, kind, name and folder of each volume that the section mounts."""
        if runs := self.runs_claim():
            yield f"storage: claim {runs[0]}", "claims", runs[0], RUNS_FOLDER
        for kind in ("claims", "secret_files", "config_map_files"):
            for name, folder in getattr(self, kind).items():
                yield f"{kind}.{name}", kind, name, folder

    @model_validator(mode="after")
    def _texts_can_be_stored(self) -> Self:
        """The section becomes part of the compiled pipeline, as it is; parameters of a run are escaped."""
        for where, text in _texts(self.model_dump(mode="json", exclude={"kubeflow"})):
            if sign := next((sign for sign in text if ord(sign) > 0xFFFF), ""):
                raise ValueError(f"{where}: Kubeflow's database does not store {sign!r}; leave it out")
        return self

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
        """Placement of a stage, with defaults in the fields that it leaves out."""
        default = self.stages.get(DEFAULT, StagePlacement()).with_defaults(BUILT_IN_PLACEMENT)
        return self.stages.get(stage, StagePlacement()).with_defaults(default)

    def server_placement(self, name: str) -> StagePlacement:
        """Placement of a served model's pods, with defaults for unset fields.

        Without a pool of its own it runs in the only pool with accelerators, if there is just one.
        """
        default = self.stages.get(DEFAULT, StagePlacement()).with_defaults(BUILT_IN_PLACEMENT)
        pools = [pool for pool, config in self.pools.items() if config.accelerator]
        if len(pools) == 1:
            default = default.model_copy(update={"pool": pools[0]})
        return self.serve.get(name, StagePlacement()).with_defaults(default)

    def check_served(self, served: Mapping[str, ServedDefinition]) -> None:
        """Check that every name below `serve` is a served model, and that each model's pool has its accelerators.

        Raises:
            ValueError: names the first field that is wrong.
        """
        for name, placement in self.serve.items():
            if name not in served:
                there = f"there are {', '.join(served)}" if served else "the recipe serves none"
                raise ValueError(f"cluster.serve.{name}: no served model {name!r}; {there}")
            for field in ("accelerators", "train_job", "fan_out", "timeout", "retries", "cache"):
                if getattr(placement, field) is not None:
                    raise ValueError(f"cluster.serve.{name}.{field}: a served model has none; leave it out")
        for name, definition in served.items():
            pool = self.pools.get(self.server_placement(name).pool or "", PoolConfig())
            count, where = definition.accelerators, f"serve.{name}.accelerators is {definition.accelerators}"
            if count and not pool.accelerator:
                raise ValueError(f"cluster.serve.{name}.pool: {where}, and its pool has none; name a pool that has")
            if pool.per_node and count > pool.per_node:
                raise ValueError(f"cluster.serve.{name}.pool: {where}, and a node of its pool has {pool.per_node}")
            if definition.command and definition.image is None:
                raise ValueError(f"serve.{name}.image is missing; name the image of its command")
            if definition.engine == "generate":
                raise ValueError(f"serve.{name}.engine: a cluster serves models by vLLM; leave the engine out")

    def workspace_size(self, placement: StagePlacement) -> str:
        """Size of a stage's workspace."""
        return placement.workspace or self.workspace.size or DEFAULT_WORKSPACE

    def check_stages(self, stages: Iterable[str]) -> None:
        """Check that every name below `stages` is a task of the pipeline, and has several pods only if it can.

        Raises:
            ValueError: names the first that is not or cannot, and those that are or can.
        """
        stages = list(stages)
        names = [*stages, *CLUSTER_ONLY, CHECK_ACCELERATORS, DEFAULT]
        for stage, placement in self.stages.items():
            if stage not in names:
                raise ValueError(f"cluster.stages.{stage}: no such stage; there are {', '.join(names)}")
            for field, (flag, refusal) in _SEVERAL_PODS.items():
                if getattr(placement, field) and stage not in (
                    able := [stage for stage in stages if getattr(STAGES[stage], flag)]
                ):
                    which = f"{' and '.join(able)} can" if able else "no stage of this pipeline can"
                    raise ValueError(f"cluster.stages.{stage}.{field}: {stage} {refusal}; leave it out ({which})")

    def run_uri(self, run_id: str) -> str:
        """URI of a run's folder, as its stages get it."""
        if self.storage.startswith(_PVC):
            return f"file://{RUNS_FOLDER}/{run_id}"
        return f"{self.storage.rstrip('/')}/{run_id}"

    def runs_claim(self) -> tuple[str, str] | None:
        """Claim that holds all runs, and the folder in it; None if a bucket holds them."""
        if not self.storage.startswith(_PVC):
            return None
        claim, _, folder = self.storage.removeprefix(_PVC).partition("/")
        return claim, folder.strip("/")

    def claim_mounts(self) -> list[ClaimMount]:
        """Mounts of every stage: the claim of the runs, if there is one, then the further claims."""
        runs = self.runs_claim()
        mounts = [ClaimMount(runs[0], RUNS_FOLDER, runs[1])] if runs else []
        return mounts + [ClaimMount(claim, folder) for claim, folder in self.claims.items()]


def _texts(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Path and text of every string of the section."""
    if isinstance(value, str):
        yield where, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _texts(inner, f"{where}.{key}" if where else str(key))
