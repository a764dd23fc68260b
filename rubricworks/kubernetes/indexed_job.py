"""An Indexed Job: a stage's parts, each a pod with its number; made or found again, watched, cleaned up.

A part that fails is tried again by Kubernetes; a pod that was preempted costs no try. A part that ends with exit code
2 was told something impossible, as all the others will be, so the whole job ends.
"""

import time
from collections.abc import Callable

from rubricworks.errors import UserError
from rubricworks.kubernetes.config import FanOutPlan
from rubricworks.kubernetes.connection import Cluster, Json, telling
from rubricworks.kubernetes.pods import MAIN, PODS, USER_ERROR, Trouble, pod_template, trouble_of, worst
from rubricworks.kubernetes.train_job import condition
from rubricworks.kubernetes.work import StageWork, ended_by_sigterm, say

JOBS = "/apis/batch/v1/namespaces/{namespace}/jobs"
_DAY = 24 * 3600


def indexed_job(plan: FanOutPlan, work: StageWork, parts: int) -> Json:
    """The Job as JSON; which part a pod is stands in its JOB_COMPLETION_INDEX.

    Args:
        parts: how many there are; each runs the stage with `--parts`.
    """
    command = ["python", "-m", "rubricworks.runtime", *work.arguments(), "--parts", str(parts)]
    spec = {
        "completionMode": "Indexed",
        "completions": parts,
        "parallelism": min(plan.fan_out.at_once, parts),
        "backoffLimitPerIndex": plan.fan_out.retries,
        "ttlSecondsAfterFinished": _DAY,
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": MAIN, "operator": "In", "values": [USER_ERROR]},
                },
            ]
        },
        "template": pod_template(plan.pod, work.labels, command),
    }
    if plan.fan_out.timeout:
        spec["activeDeadlineSeconds"] = int(plan.fan_out.timeout)
    labels = {**plan.pod.labels, **work.labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": work.name, "labels": labels}, "spec": spec}


def follow_indexed_job(
    cluster: Cluster,
    plan: FanOutPlan,
    work: StageWork,
    parts: int,
    *,
    poll: float = 5.0,
    done: Callable[[int], None] = lambda parts: None,
    tell: Callable[[str], None] = say,
) -> None:
    """Have all parts made and return when they are; a job that an earlier pod of the stage made is watched on.

    Args:
        done: called with how many parts are done, when that changes.
    Raises:
        UserError: parts failed, or there is no room for any; the message is the reason that the pods gave.
    """
    path = f"{JOBS}/{work.name}"
    _make(cluster, plan, work, parts)
    try:
        with ended_by_sigterm():
            _watch(cluster, plan, path, poll, done, tell)
    except (KeyboardInterrupt, SystemExit):
        tell("stopped: the pods are deleted; parts that are done are kept")
        cluster.delete(path)
        raise
    except UserError:
        cluster.delete(path)
        raise
    cluster.delete(path)


def _make(cluster: Cluster, plan: FanOutPlan, work: StageWork, parts: int) -> None:
    """A job that failed before is deleted first: done parts are found done, so a new one repeats nothing."""
    path, body = f"{JOBS}/{work.name}", indexed_job(plan, work, parts)
    until = time.monotonic() + 300
    with telling("create an Indexed Job", cluster.namespace):
        while cluster.create(JOBS, body) is None:
            there = cluster.get(path)
            leaving = there["metadata"].get("deletionTimestamp")
            if not leaving and not condition(there, "Failed") and there["spec"]["completions"] == parts:
                return
            cluster.delete(path)
            if time.monotonic() > until:
                raise UserError(f"the Job {work.name} of an earlier attempt is not deleted; delete it, and run again")
            time.sleep(1)


def _watch(
    cluster: Cluster,
    plan: FanOutPlan,
    path: str,
    poll: float,
    done: Callable[[int], None],
    tell: Callable[[str], None],
) -> None:
    finished, told = -1, set[str]()
    seen: dict[str, Trouble] = {}
    no_room_since: float | None = None
    while True:
        with telling("follow the parts", cluster.namespace):
            job = cluster.get(path)
            pods = cluster.list(PODS, **{"batch.kubernetes.io/job-name": job["metadata"]["name"]})
        status = job.get("status") or {}
        if (succeeded := status.get("succeeded") or 0) != finished:
            finished = succeeded
            done(finished)
        troubles = {pod["metadata"]["name"]: trouble for pod in pods if (trouble := trouble_of(pod))}
        seen |= {name: trouble for name, trouble in troubles.items() if trouble.kind == "failed"}
        for name, trouble in troubles.items():
            if trouble.kind in ("failed", "preempted", "cannot start") and name not in told:
                told.add(name)
                if trouble.exit_code != USER_ERROR:
                    tell(f"a part will be tried again: {trouble.message}")
        if condition(job, "Complete"):
            return
        if failed := condition(job, "Failed"):
            trouble = worst(seen.values())
            indexes = status.get("failedIndexes")
            which = f" (parts {indexes})" if indexes else ""
            if trouble is None:
                raise UserError(f"{failed['reason']}: {failed.get('message', '')}")
            raise trouble.raised(trouble.message + which)
        waits = [trouble for trouble in troubles.values() if trouble.kind in ("no room", "cannot start")]
        stuck = waits and not status.get("ready") and len(waits) == status.get("active", 0)
        no_room_since = (no_room_since or time.monotonic()) if stuck else None
        if no_room_since is not None and time.monotonic() - no_room_since >= plan.fan_out.wait_for_room:
            raise UserError(
                f"no part could start in {plan.fan_out.wait_for_room:.0f} seconds: {worst(waits).message}; "
                "take another pool, or wait longer (fan_out.wait_for_room)"
            )
        time.sleep(poll)
