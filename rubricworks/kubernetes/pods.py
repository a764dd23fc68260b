"""Pods: their specification, and the trouble that a pod's status or a refusal to create it shows, in words."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rubricworks.errors import StoppedAtBudget, TransientError, UserError
from rubricworks.kubernetes import FAN_OUT, SERVE, TRAIN_JOB
from rubricworks.kubernetes.config import PodPlan
from rubricworks.kubernetes.connection import Cluster, Json, is_over_quota
from rubricworks.llm.served import VARIABLE_PREFIX
from rubricworks.redaction import foreign_line

PODS = "/api/v1/namespaces/{namespace}/pods"
EVENTS = "/api/v1/namespaces/{namespace}/events"
MAIN = "main"
INDEX = "batch.kubernetes.io/job-completion-index"
"""Label of a pod: the index of its part or node."""
_KUEUE = "kueue.x-k8s.io/"
_NO_SIDECAR = {"sidecar.istio.io/inject": "false"}
"""A mesh's proxy never ends, so that no job with one is ever complete; Kubeflow labels its own pods so, too."""
USER_ERROR = 2
"""Exit code of a stage that ended with a user error; a retry would not help."""

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
_EVICTION_REASONS = {"Evicted", "NodeAffinity", "NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"}


class Trouble(NamedTuple):
    """Problem of a pod: its kind and a message for the user."""

    kind: Literal["preempted", "no room", "cannot start", "failed"]
    message: str
    exit_code: int | None = None
    at: str = ""
    more: str | None = None
    """For a stage that stopped at its budget: the option to resume it with."""

    def to_error(self, message: str | None = None) -> UserError:
        """Return the error that the stage raises for this trouble."""
        text = message or self.message
        if self.more is not None:
            return StoppedAtBudget(text, self.more)
        is_final = self.kind == "failed" and self.exit_code == USER_ERROR
        return UserError(text) if is_final else TransientError(text)


def resources(plan: PodPlan) -> Json:
    """Return requests and limits: memory and accelerators are limited to their requests, processors are not."""
    requests = {"cpu": plan.cpu, "memory": plan.memory, "ephemeral-storage": plan.ephemeral_storage}
    limits: dict[str, str | None] = {"memory": plan.memory}
    if plan.accelerator and plan.accelerators:
        requests[plan.accelerator] = limits[plan.accelerator] = str(plan.accelerators)
    return {
        "requests": {name: amount for name, amount in requests.items() if amount is not None},
        "limits": {name: amount for name, amount in limits.items() if amount is not None},
    }


def environment(plan: PodPlan, more: Mapping[str, str] = {}) -> list[Json]:
    """Return the plan's variables, those of served models, and `more`; none makes the stage start further pods."""
    inherited = {name: value for name, value in os.environ.items() if name == SERVE or name.startswith(VARIABLE_PREFIX)}
    more = {**inherited, **more}
    own = [variable for variable in plan.env if variable["name"] not in {TRAIN_JOB, FAN_OUT, *more}]
    return [*own, *({"name": name, "value": value} for name, value in more.items())]


def volumes(plan: PodPlan) -> list[Json]:
    memory: Json = {"medium": "Memory"} | ({"sizeLimit": plan.shared_memory} if plan.shared_memory else {})
    shared = [{"name": "shared-memory", "emptyDir": memory}] if plan.shared_memory else []
    return [*plan.volumes, *shared]


def mounts(plan: PodPlan) -> list[Json]:
    shared = [{"name": "shared-memory", "mountPath": "/dev/shm"}] if plan.shared_memory else []
    return [*plan.mounts, *shared]


def pod_placement(plan: PodPlan) -> Json:
    """Return the placement and security part of a pod's spec; it meets the Pod Security Standard `restricted`."""
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
    """Return the pod's labels: without a mesh's sidecar, unless the plan asks for one.

    Kueue's are left out: a queue admits the whole job, so only the job carries its name.
    """
    own = {name: value for name, value in {**plan.labels, **labels}.items() if not name.startswith(_KUEUE)}
    return {**_NO_SIDECAR, **own}


def pod_template(plan: PodPlan, labels: Mapping[str, str], command: Sequence[str], env: Mapping[str, str] = {}) -> Json:
    """Build the template of a pod with one container, `main`, that runs a command once."""
    container = {
        "name": MAIN,
        "image": plan.image,
        "command": list(command),
        "env": environment(plan, env),
        "resources": resources(plan),
        "volumeMounts": mounts(plan),
        "securityContext": RESTRICTED,
    }
    # Else a Service named `vllm` sets VLLM_PORT, and vLLM ends.
    spec = {"restartPolicy": "Never", "enableServiceLinks": False, "containers": [container], **pod_placement(plan)}
    return {"metadata": {"labels": pod_labels(plan, labels)}, "spec": spec}


def pod_trouble(pod: Json) -> Trouble | None:
    """Return the trouble that a pod's status shows, or None."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    conditions = {item["type"]: item for item in status.get("conditions") or []}
    disruption = conditions.get("DisruptionTarget", {})
    if disruption.get("status") == "True" or (
        status.get("phase") == "Failed" and status.get("reason") in _EVICTION_REASONS
    ):
        reason = disruption.get("message") or status.get("message") or disruption.get("reason") or status.get("reason")
        return Trouble("preempted", f"{name}: {reason}")
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state = container.get("state") or {}
        terminated = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
        if terminated and terminated.get("exitCode"):
            return _exit_trouble(name, terminated)
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in _CANNOT_START:
            message = waiting.get("message") or ""
            return Trouble("cannot start", f"{name} cannot start: {waiting['reason']}: {message}".rstrip(": "))
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return Trouble("no room", scheduled.get("message") or "no node has room")
    return None


def index_of(pod: Json) -> int:
    """Return the index of a pod's part or node; 0 for a pod that has none."""
    return int(pod["metadata"].get("labels", {}).get(INDEX) or 0)


def refusal(cluster: Cluster, owners: Sequence[str], since: str) -> Trouble | None:
    """Return why the cluster creates no pods, by the newest event; None if there is none that this account may list.

    Args:
        owners: names of the objects whose controllers create the pods.
        since: time of the last pod that was created; events before it concern others.
    """
    from kubernetes.client import ApiException

    try:
        events = [event for name in owners for event in _warnings(cluster, name) if _time_of(event) >= since]
    except ApiException as error:
        if error.status != 403:
            raise
        return None
    if not events:
        return None
    message = str(max(events, key=_time_of).get("message") or "")
    reason = f"pods are refused: {foreign_line(message.partition(' is forbidden: ')[2] or message)}"
    if is_over_quota(message):
        return Trouble("no room", f"{reason}; free the quota or ask for more (kubectl describe resourcequota)")
    return Trouble("cannot start", reason)


def no_pod(cluster: Cluster, kind: str, name: str) -> Trouble:
    """Return the trouble of a job without pods that no event explains."""
    look = f"kubectl -n {cluster.namespace} describe {kind} {name}"
    return Trouble("no room", f"there is no pod, and no event that this account may list says why; see {look}")


def _warnings(cluster: Cluster, name: str) -> list[Json]:
    return cluster.get(EVENTS, fieldSelector=f"type=Warning,involvedObject.name={name}").get("items") or []


def _time_of(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def root_trouble(troubles: Iterable[Trouble]) -> Trouble | None:
    """Return the trouble that explains the others: when one node is preempted, the rest fail as a consequence."""
    ranked = sorted(troubles, key=lambda trouble: (*_rank(trouble), trouble.at or "9", trouble.message))
    return ranked[0] if ranked else None


def _rank(trouble: Trouble) -> tuple[int, int]:
    if trouble.kind == "failed" and trouble.exit_code == USER_ERROR:
        return 0, 0
    kinds = ["preempted", "failed", "cannot start", "no room"]
    # Out of memory is a first cause; a killed process (137, 143) was usually killed because another failed.
    order = 0 if _NO_MEMORY in trouble.message else 2 if trouble.exit_code in (137, 143) else 1
    return 1 + kinds.index(trouble.kind), order


def _exit_trouble(name: str, terminated: Mapping[str, Any]) -> Trouble:
    code, at = terminated["exitCode"], terminated.get("finishedAt") or ""
    if terminated.get("reason") == "OOMKilled":
        advice = "give the stage more (cluster.stages: memory), or work on less at a time"
        return Trouble("failed", f"{name} {_NO_MEMORY}; {advice}", code, at)
    message = terminated.get("message") or ""
    try:
        report = json.loads(message)
        if report["ours"]:
            # torchrun ends with 1 whatever its processes ended with.
            return Trouble("failed", report["message"], USER_ERROR, at, report.get("more"))
        message = report["message"]
    except (ValueError, TypeError, KeyError):
        pass
    if message := " ".join(message.split()):
        return Trouble("failed", message if code == USER_ERROR else f"{name}: {message}", code, at)
    return Trouble(
        "failed", f"{name} ended with exit code {code} ({terminated.get('reason') or 'Error'}); see its log", code, at
    )
