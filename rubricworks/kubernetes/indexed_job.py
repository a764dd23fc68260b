"""Indexed Job of a stage's parts, one pod per part: create or find it, follow it, delete it.

Kubernetes retries a part that fails; a preemption does not count as a try. Exit code 2 of a part is a user error, which
all parts would meet, so it fails the whole job.
"""

import time
from collections.abc import Callable

from rubricworks.errors import TransientError, UserError
from rubricworks.kubernetes.config import FanOutPlan
from rubricworks.kubernetes.connection import Cluster, Json, report_api_errors
from rubricworks.kubernetes.pods import MAIN, PODS, USER_ERROR, Trouble, pod_template, pod_trouble, root_trouble
from rubricworks.kubernetes.train_job import find_condition
from rubricworks.kubernetes.work import StageWork, log_line, sigterm_as_exit

JOBS = "/apis/batch/v1/namespaces/{namespace}/jobs"
_DAY = 24 * 3600


def indexed_job(plan: FanOutPlan, work: StageWork, parts: int) -> Json:
    """Build the Job as JSON; a pod reads its part's number from JOB_COMPLETION_INDEX.

    Args:
        parts: number of parts; each runs the stage with `--parts`.
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
    on_progress: Callable[[int], None] = lambda parts: None,
    report: Callable[[str], None] = log_line,
) -> None:
    """Run all parts and return when they are done; a Job of an earlier pod of the stage is followed on.

    Args:
        poll: seconds between two requests for its state.
        on_progress: called with the number of parts done, when it changes.
        report: called with events of the pods.
    Raises:
        UserError: parts failed, or there is no room for any; the message is the reason that the pods gave.
    """
    path = f"{JOBS}/{work.name}"
    _create(cluster, plan, work, parts)
    try:
        with sigterm_as_exit():
            _watch(cluster, plan, path, poll, on_progress, report)
    except (KeyboardInterrupt, SystemExit):
        report("stopped: the pods are deleted; parts that are done are kept")
        cluster.delete(path)
        raise
    except UserError:
        cluster.delete(path)
        raise
    cluster.delete(path)


def _create(cluster: Cluster, plan: FanOutPlan, work: StageWork, parts: int) -> None:
    """Create the Job unless it exists; a failed one is deleted first, and the new one skips the parts that are done."""
    path, body = f"{JOBS}/{work.name}", indexed_job(plan, work, parts)
    deadline = time.monotonic() + 300
    with report_api_errors("create an Indexed Job", cluster.namespace):
        while cluster.create(JOBS, body) is None:
            job = cluster.get(path)
            terminating = job["metadata"].get("deletionTimestamp")
            if not terminating and not find_condition(job, "Failed") and job["spec"]["completions"] == parts:
                return
            cluster.delete(path)
            if time.monotonic() > deadline:
                raise TransientError(
                    f"the Job {work.name} of an earlier attempt is not deleted; delete it, and run again"
                )
            time.sleep(1)


def _watch(
    cluster: Cluster,
    plan: FanOutPlan,
    path: str,
    poll: float,
    on_progress: Callable[[int], None],
    report: Callable[[str], None],
) -> None:
    finished, reported = -1, set[str]()
    failures: dict[str, Trouble] = {}
    no_room_since: float | None = None
    while True:
        with report_api_errors("follow the parts", cluster.namespace):
            job = cluster.get(path)
            pods = cluster.list(PODS, **{"batch.kubernetes.io/job-name": job["metadata"]["name"]})
        status = job.get("status") or {}
        if (succeeded := status.get("succeeded") or 0) != finished:
            finished = succeeded
            on_progress(finished)
        troubles = {pod["metadata"]["name"]: trouble for pod in pods if (trouble := pod_trouble(pod))}
        failures |= {name: trouble for name, trouble in troubles.items() if trouble.kind == "failed"}
        for name, trouble in troubles.items():
            if trouble.kind in ("failed", "preempted", "cannot start") and name not in reported:
                reported.add(name)
                if trouble.exit_code != USER_ERROR:
                    report(f"a part will be tried again: {trouble.message}")
        if find_condition(job, "Complete"):
            return
        if failed := find_condition(job, "Failed"):
            trouble = root_trouble(failures.values())
            indexes = status.get("failedIndexes")
            which = f" (parts {indexes})" if indexes else ""
            if trouble is None:
                raise TransientError(f"{failed['reason']}: {failed.get('message', '')}")
            raise trouble.to_error(trouble.message + which)
        waits = [trouble for trouble in troubles.values() if trouble.kind in ("no room", "cannot start")]
        stuck = waits and not status.get("ready") and len(waits) == status.get("active", 0)
        no_room_since = (no_room_since or time.monotonic()) if stuck else None
        waited = 0.0 if no_room_since is None else time.monotonic() - no_room_since
        if (reason := root_trouble(waits)) is not None and stuck and waited >= plan.fan_out.wait_for_room:
            raise TransientError(
                f"no part could start in {plan.fan_out.wait_for_room:.0f} seconds: {reason.message}; "
                "take another pool, or wait longer (fan_out.wait_for_room)"
            )
        time.sleep(poll)
