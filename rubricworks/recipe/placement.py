"""Placement of a stage on a cluster: pools of nodes, and the resources of a pod.

The values are Kubernetes' own. They are checked here, since a cluster would refuse them only when the stage starts.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rubricworks.kubernetes.config import FanOutConfig, TrainJobConfig

_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN = rf"(?=[^/]{{1,253}}(/|\Z)){_NAME}(\.{_NAME})*"
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _number_as_text(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else value


def _parse_duration(value: Any) -> Any:
    """Seconds of a text such as `90m`; other types are left to pydantic."""
    if not isinstance(value, str):
        return value
    if not (match := re.fullmatch(r"(\d+)([smhd])", value)):
        raise ValueError("a duration is seconds, or such as 90m, 12h, 2d")
    return int(match[1]) * _SECONDS[match[2]]


def pattern_validator(pattern: str, message: str) -> AfterValidator:
    """Pydantic validator of a text that must match the whole pattern; `message` is its error."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(message)
        return text

    return AfterValidator(check)


Name = Annotated[str, pattern_validator(_DOMAIN, "a name is small letters, digits, - and . inside, at most 253")]
"""Name of a Secret, a ConfigMap, a claim, a service account or a pool."""
Namespace = Annotated[
    str, pattern_validator(rf"(?=.{{1,63}}\Z){_NAME}", "a namespace is at most 63 small letters, digits and - inside")
]
Label = Annotated[str, pattern_validator(rf"({_DOMAIN}/)?{_WORD}", "a label is a word, or domain/word")]
LabelValue = Annotated[
    str,
    BeforeValidator(_number_as_text),
    pattern_validator(rf"({_WORD})?", "a label's value is at most 63 letters, digits, - _ and . inside"),
]
Variable = Annotated[str, pattern_validator(r"[A-Za-z_][A-Za-z0-9_]*", "a variable's name is letters, digits and _")]
Cpu = Annotated[
    str,
    BeforeValidator(_number_as_text),
    pattern_validator(r"[1-9][0-9]*m?|[0-9]+\.[0-9]*[1-9]", "cores are such as 4, 0.5 or 500m"),
]
Memory = Annotated[str, pattern_validator(r"[1-9][0-9]*[EPTGMK]i?", "a size is such as 16Gi or 500Mi")]
Duration = Annotated[int, BeforeValidator(_parse_duration), Field(gt=0, le=2**31 - 1)]
"""Seconds, or `90m`, `12h`, `2d`."""
KeyVariables = dict[Name, dict[str, Variable]]
"""Secret or ConfigMap → key → environment variable of the stage that gets its value."""


class Toleration(BaseModel):
    """Toleration of a taint that keeps other pods off a pool's nodes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    key: str | None = None
    """Key of the taint; None with `Exists` means every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """`Exists` matches any value of the taint."""
    value: str | None = None
    """Value of the taint, for `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; None means every effect."""
    seconds: int | None = Field(default=None, ge=0)
    """Time for which a `NoExecute` taint is tolerated; by default for good."""

    @model_validator(mode="after")
    def _fields_are_consistent(self) -> "Toleration":
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("value stands beside operator Exists, which is true of every value; leave one out")
        if self.operator == "Equal" and (self.key is None or self.value is None):
            raise ValueError("key and value are both needed with operator Equal; give them, or operator: Exists")
        if self.seconds is not None and self.effect != "NoExecute":
            raise ValueError("seconds is only for effect: NoExecute")
        return self


class NodeTerm(BaseModel):
    """Requirement or preference for the value of a node's label."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    key: Label
    """Label of the node."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = "In"
    """Comparison of the label with the values."""
    values: tuple[LabelValue, ...] = ()
    """Values to compare with."""
    weight: int | None = Field(default=None, ge=1, le=100)
    """None if nodes must match; with a weight, those that match are preferred."""

    @property
    def match_expression(self) -> dict[str, object]:
        """The term as a Kubernetes match expression."""
        values = {"values": list(self.values)} if self.values else {}
        return {"key": self.key, "operator": self.operator, **values}

    @model_validator(mode="after")
    def _values_fit(self) -> "NodeTerm":
        if bool(self.values) == (self.operator in ("Exists", "DoesNotExist")):
            raise ValueError(f"operator {self.operator} {'takes no values' if self.values else 'needs values'}")
        if self.operator in ("Gt", "Lt") and not (len(self.values) == 1 and self.values[0].isdigit()):
            raise ValueError(f"operator {self.operator} compares with one whole number")
        return self


class PoolConfig(BaseModel):
    """Nodes of one kind, and the fields by which a pod is scheduled on them."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    accelerator: Label | None = None
    """Resource of the device plugin, such as `nvidia.com/gpu` or `amd.com/gpu`; None without accelerators."""
    per_node: int | None = Field(default=None, ge=1)
    """Accelerators of one node; a stage that requests more is refused."""
    node_selector: dict[Label, LabelValue] = {}
    """Labels of the pool's nodes."""
    affinity: tuple[NodeTerm, ...] = ()
    """Terms besides the selector; those without a weight must all hold."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints of the pool's nodes that pods tolerate."""
    queue: LabelValue | None = None
    """Kueue's local queue for this pool; by default the cluster's."""

    @model_validator(mode="after")
    def _count_has_a_resource(self) -> "PoolConfig":
        if self.per_node and not self.accelerator:
            raise ValueError("per_node counts accelerators, and accelerator names none; set it, e.g. nvidia.com/gpu")
        return self


class StagePlacement(BaseModel):
    """Resources and settings of one stage's pod. Fields that it leaves out come from `default`, then as given below."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    pool: str | None = None
    """Pool of the nodes; None for any node that takes the pod."""
    cpu: Cpu | None = None
    """Cores, as request and limit; 2 by default."""
    memory: Memory | None = None
    """Memory, as request and limit; 4Gi by default."""
    accelerators: int | None = Field(default=None, ge=0)
    """Number of the pool's accelerators; none by default."""
    shared_memory: Memory | None = None
    """Size of /dev/shm, used by data loaders and NCCL; it counts as memory. By default the node's 64 MB."""
    workspace: Memory | None = None
    """Size of the workspace; by default the cluster's, or what the recipe's models take."""
    timeout: Duration | None = None
    """Time limit of an attempt; none by default."""
    retries: int | None = Field(default=None, ge=0, le=20)
    """Further attempts, each of which resumes the one before; 2 by default."""
    cache: bool | None = None
    """Let Kubeflow skip the stage if it ran with the same inputs; by default true for stages that make data."""
    env: dict[Variable, str] = {}
    """Environment variables of the pod."""
    secrets: KeyVariables = {}
    """Secret keys that the pod reads as environment variables: Secret → key → variable."""
    config_maps: KeyVariables = {}
    """ConfigMap keys that the pod reads as environment variables: ConfigMap → key → variable."""
    labels: dict[Label, LabelValue] = {}
    """Labels of the pod."""
    train_job: TrainJobConfig | None = None
    """Train on several nodes, each with the resources given here; the stage's own pod only follows the job."""
    fan_out: FanOutConfig | None = None
    """Divide the stage's samples among several pods like its own."""

    @property
    def processes(self) -> int:
        """Processes of a training placed so: one for each accelerator of all nodes."""
        return (self.accelerators or 1) * (self.train_job.nodes if self.train_job else 1)

    def with_defaults(self, default: "StagePlacement") -> "StagePlacement":
        """Fill the fields that are None from another placement, and merge the mappings."""
        fields = {name: value for name, value in self if value is not None}
        for name in ("env", "labels"):
            fields[name] = {**getattr(default, name), **getattr(self, name)}
        for name in ("secrets", "config_maps"):
            fields[name] = merge_keys(getattr(default, name), getattr(self, name))
        return default.model_copy(update=fields)


def merge_keys(first: KeyVariables, second: KeyVariables) -> KeyVariables:
    """Merge two mappings of secrets or config maps; the second wins where both map a key."""
    return {name: {**first.get(name, {}), **second.get(name, {})} for name in {**first, **second}}


BUILT_IN_PLACEMENT = StagePlacement(cpu="2", memory="4Gi", accelerators=0, retries=2)
