"""Where one stage runs on a cluster and with what: pools of nodes, and what is asked of them.

The values are Kubernetes' own and are checked here, since a cluster would refuse them only when the stage's turn comes.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rubricworks.kubernetes.config import FanOutConfig, TrainJobConfig

_NAME = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _number_as_text(given: Any) -> Any:
    return f"{given:g}" if isinstance(given, int | float) and not isinstance(given, bool) else given


def _seconds(given: Any) -> Any:
    """`90m` → 5400; what is no duration is left to be refused."""
    if not isinstance(given, str):
        return given
    if not (match := re.fullmatch(r"(\d+)([smhd])", given)):
        raise ValueError("a duration is seconds, or such as 90m, 12h, 2d")
    return int(match[1]) * _SECONDS[match[2]]


def written_as(pattern: str, words: str) -> AfterValidator:
    """A text that matches the pattern whole; any other is refused in words."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(words)
        return text

    return AfterValidator(check)


Name = Annotated[str, written_as(rf"{_NAME}(\.{_NAME})*", "a name is small letters, digits, - and . inside")]
"""Of a Secret, a ConfigMap, a claim, a service account."""
Label = Annotated[str, written_as(rf"({_NAME}(\.{_NAME})*/)?{_WORD}", "a label is a word, or domain/word")]
LabelValue = Annotated[
    str,
    BeforeValidator(_number_as_text),
    written_as(rf"({_WORD})?", "a label's value is at most 63 letters, digits, - _ and . inside"),
]
Variable = Annotated[str, written_as(r"[A-Za-z_][A-Za-z0-9_]*", "a variable's name is letters, digits and _")]
Cpu = Annotated[
    str,
    BeforeValidator(_number_as_text),
    written_as(r"[1-9][0-9]*m?|[0-9]+\.[0-9]*[1-9]", "cores are such as 4, 0.5 or 500m"),
]
Memory = Annotated[str, written_as(r"[1-9][0-9]*[EPTGMK]i?", "a size is such as 16Gi or 500Mi")]
Duration = Annotated[int, BeforeValidator(_seconds), Field(gt=0, le=2**31 - 1)]
"""Seconds, or `90m`, `12h`, `2d`."""
FromKeys = dict[Name, dict[str, Variable]]
"""Secret or ConfigMap → its key → the environment variable that the stage finds it in."""


class Toleration(BaseModel):
    """Of a taint that keeps other pods off a pool's nodes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    key: str | None = None
    """None with `Exists`: every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """None: all of them."""
    seconds: int | None = Field(default=None, ge=0)
    """How long a `NoExecute` taint is borne; for good by default."""

    @model_validator(mode="after")
    def _makes_sense(self) -> "Toleration":
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("value stands beside operator Exists, which is true of every value; leave one out")
        if self.operator == "Equal" and (self.key is None or self.value is None):
            raise ValueError("key and value are both needed with operator Equal; give them, or operator: Exists")
        if self.seconds is not None and self.effect != "NoExecute":
            raise ValueError("seconds is only for effect: NoExecute")
        return self


class NodeTerm(BaseModel):
    """What a node's label must say, or had better say."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    key: Label
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = "In"
    values: tuple[LabelValue, ...] = ()
    weight: int | None = Field(default=None, ge=1, le=100)
    """None: nodes must match. A weight: those that match are preferred."""

    @model_validator(mode="after")
    def _values_fit(self) -> "NodeTerm":
        if bool(self.values) == (self.operator in ("Exists", "DoesNotExist")):
            raise ValueError(f"operator {self.operator} {'takes no values' if self.values else 'needs values'}")
        if self.operator in ("Gt", "Lt") and not (len(self.values) == 1 and self.values[0].isdigit()):
            raise ValueError(f"operator {self.operator} compares with one whole number")
        return self


class PoolConfig(BaseModel):
    """Nodes of one kind, and how a pod gets onto them."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    accelerator: Label | None = None
    """The resource that a device plugin offers there, such as `nvidia.com/gpu` or `amd.com/gpu`. None: none."""
    per_node: int | None = Field(default=None, ge=1)
    """Accelerators of one node; a stage that asks for more is refused."""
    node_selector: dict[Label, LabelValue] = {}
    affinity: tuple[NodeTerm, ...] = ()
    """Beyond the selector; terms without a weight must all hold."""
    tolerations: tuple[Toleration, ...] = ()
    queue: LabelValue | None = None
    """Kueue's local queue for this pool, in place of the cluster's."""

    @model_validator(mode="after")
    def _counts_something(self) -> "PoolConfig":
        if self.per_node and not self.accelerator:
            raise ValueError("per_node counts accelerators, and accelerator names none; set it, e.g. nvidia.com/gpu")
        return self


class StagePlacement(BaseModel):
    """What one stage asks for. What it leaves out is taken from `default`, and then as said below."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    pool: str | None = None
    """None: any node that takes the pod."""
    cpu: Cpu | None = None
    """Cores, requested and not exceeded; 2 by default."""
    memory: Memory | None = None
    """Requested and not exceeded; 4Gi by default."""
    accelerators: int | None = Field(default=None, ge=0)
    """Of the pool's kind; none by default."""
    shared_memory: Memory | None = None
    """Size of /dev/shm, which data loaders and NCCL share; it counts as memory. The node's 64 MB by default."""
    timeout: Duration | None = None
    """After which an attempt is ended; none by default."""
    retries: int | None = Field(default=None, ge=0, le=20)
    """Further attempts, each from where the one before it was ended; 2 by default."""
    cache: bool | None = None
    """Whether Kubeflow may pass over the stage when it ran with the same inputs; by default if it makes data."""
    env: dict[Variable, str] = {}
    secrets: FromKeys = {}
    config_maps: FromKeys = {}
    labels: dict[Label, LabelValue] = {}
    train_job: TrainJobConfig | None = None
    """Train on several nodes, each with what is asked for here; the stage's own pod only follows."""
    fan_out: FanOutConfig | None = None
    """Share the stage's samples among several pods like its own."""

    def over(self, default: "StagePlacement") -> "StagePlacement":
        """This one where it says something, the other elsewhere; what is kept by name is joined."""
        said = {name: value for name, value in self if value is not None}
        for name in ("env", "labels"):
            said[name] = {**getattr(default, name), **getattr(self, name)}
        for name in ("secrets", "config_maps"):
            ours, theirs = getattr(self, name), getattr(default, name)
            said[name] = {key: {**theirs.get(key, {}), **ours.get(key, {})} for key in {**theirs, **ours}}
        return default.model_copy(update=said)


AS_SAID = StagePlacement(cpu="2", memory="4Gi", accelerators=0, retries=2)
