"""Pods: what one is made of, and what has become of it, in words."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rubricworks.errors import StoppedAtBudget, UserError
from rubricworks.kubernetes import FAN_OUT, TRAIN_JOB
from rubricworks.kubernetes.config import PodPlan
from rubricworks.kubernetes.connection import Json

PODS = "/api/v1/namespaces/{namespace}/pods"
MAIN = "main"
_KUEUE = "kueue.x-k8s.io/"
USER_ERROR = 2
"""Exit code of a stage that was told something impossible; trying again changes nothing."""

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_NO_MEMORY = "ran out of memory"
_CANNOT_START = {
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
}
_TAKEN_BY_NODE = {"Evicted", "NodeAffinity", "NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"}


class Trouble(NamedTuple):
    """What is wrong with a pod."""

    kind: Literal["preempted", "no room", "cannot start", "failed"]
    message: str
    exit_code: int | None = None
    at: str = ""
    more: str | None = None
    """Of a stage that stopped at its budget: what to resume it with."""

    def raised(self, message: str | None = None) -> UserError:
        """The error that a stage raises for it."""
        said = message or self.message
        return UserError(said) if self.more is None else StoppedAtBudget(said, self.more)


def resources(plan: PodPlan) -> Json:
    """Requests and limits: memory and accelerators are held to what was asked for, idle processors may be used."""
    asked = {"cpu": plan.cpu, "memory": plan.memory}
    held: dict[str, str | None] = {"memory": plan.memory}
    if plan.accelerator and plan.accelerators:
        asked[plan.accelerator] = held[plan.accelerator] = str(plan.accelerators)
    return {
        "requests": {name: amount for name, amount in asked.items() if amount is not None},
        "limits": {name: amount for name, amount in held.items() if amount is not None},
    }


def environment(plan: PodPlan, more: Mapping[str, str] = {}) -> list[Json]:
    """The plan's variables and ours. What makes a stage ask for further pods is not handed on."""
    own = [variable for variable in plan.env if variable["name"] not in {TRAIN_JOB, FAN_OUT, *more}]
    return [*own, *({"name": name, "value": value} for name, value in more.items())]


def volumes(plan: PodPlan) -> list[Json]:
    memory: Json = {"medium": "Memory"} | ({"sizeLimit": plan.shared_memory} if plan.shared_memory else {})
    shared = [{"name": "shared-memory", "emptyDir": memory}] if plan.shared_memory else []
    return [*plan.volumes, *shared]


def mounts(plan: PodPlan) -> list[Json]:
    shared = [{"name": "shared-memory", "mountPath": "/dev/shm"}] if plan.shared_memory else []
    return [*plan.mounts, *shared]


def placed(plan: PodPlan) -> Json:
    """Of a pod's spec, what says where it runs and as whom; it passes the Pod Security Standard `restricted`."""
    user = {"runAsUser": plan.run_as_user} if plan.run_as_user else {}
    spec = {
        "volumes": volumes(plan),
        "securityContext": {"runAsNonRoot": True, **user, "seccompProfile": {"type": "RuntimeDefault"}},
        "nodeSelector": plan.node_selector,
        "tolerations": list(plan.tolerations),
        "affinity": plan.affinity,
        "serviceAccountName": plan.service_account,
        "imagePullSecrets": [{"name": name} for name in plan.image_pull_secrets],
    }
    return {field: value for field, value in spec.items() if value}


def pod_labels(plan: PodPlan, labels: Mapping[str, str]) -> dict[str, str]:
    """A queue admits the whole job, so its name stands on the job and not on the pods."""
    return {name: value for name, value in {**plan.labels, **labels}.items() if not name.startswith(_KUEUE)}


def pod_template(plan: PodPlan, labels: Mapping[str, str], command: Sequence[str], env: Mapping[str, str] = {}) -> Json:
    """A pod of one container, `main`, that runs a command once."""
    container = {
        "name": MAIN,
        "image": plan.image,
        "command": list(command),
        "env": environment(plan, env),
        "resources": resources(plan),
        "volumeMounts": mounts(plan),
        "securityContext": RESTRICTED,
    }
    spec = {"restartPolicy": "Never", "containers": [container], **placed(plan)}
    return {"metadata": {"labels": pod_labels(plan, labels)}, "spec": spec}


def trouble_of(pod: Json) -> Trouble | None:
    """What is wrong with a pod, if anything is."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    conditions = {item["type"]: item for item in status.get("conditions") or []}
    taken = conditions.get("DisruptionTarget", {})
    if taken.get("status") == "True" or (status.get("phase") == "Failed" and status.get("reason") in _TAKEN_BY_NODE):
        why = taken.get("message") or status.get("message") or taken.get("reason") or status.get("reason")
        return Trouble("preempted", f"{name}: {why}")
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state = container.get("state") or {}
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            return _ended(name, ended)
        waits = state.get("waiting") or {}
        if waits.get("reason") in _CANNOT_START:
            said = waits.get("message") or ""
            return Trouble("cannot start", f"{name} cannot start: {waits['reason']}: {said}".rstrip(": "))
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return Trouble("no room", scheduled.get("message") or "no node has room")
    return None


def worst(troubles: Iterable[Trouble]) -> Trouble | None:
    """The one that explains the others: when a node is taken, the rest fail for want of it."""
    ranked = sorted(troubles, key=lambda trouble: (*_rank(trouble), trouble.at or "9", trouble.message))
    return ranked[0] if ranked else None


def _rank(trouble: Trouble) -> tuple[int, int]:
    if trouble.kind == "failed" and trouble.exit_code == USER_ERROR:
        return 0, 0
    kinds = ["preempted", "failed", "cannot start", "no room"]
    # Without memory one fails first; one that was killed (137, 143) was most often killed because another failed.
    order = 0 if _NO_MEMORY in trouble.message else 2 if trouble.exit_code in (137, 143) else 1
    return 1 + kinds.index(trouble.kind), order


def _ended(name: str, ended: Mapping[str, Any]) -> Trouble:
    code, at = ended["exitCode"], ended.get("finishedAt") or ""
    if ended.get("reason") == "OOMKilled":
        advice = "give the stage more (cluster.stages: memory), or work on less at a time"
        return Trouble("failed", f"{name} {_NO_MEMORY}; {advice}", code, at)
    words = ended.get("message") or ""
    try:
        left = json.loads(words)
        if left["ours"]:
            # torchrun ends with 1 whatever its processes ended with.
            return Trouble("failed", left["message"], USER_ERROR, at, left.get("more"))
        words = left["message"]
    except (ValueError, TypeError, KeyError):
        pass
    if said := " ".join(words.split()):
        return Trouble("failed", said if code == USER_ERROR else f"{name}: {said}", code, at)
    return Trouble(
        "failed", f"{name} ended with exit code {code} ({ended.get('reason') or 'Error'}); see its log", code, at
    )
