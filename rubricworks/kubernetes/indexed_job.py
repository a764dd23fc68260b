"""Indexed Job of a stage's parts, one pod per part: create or find it, follow it, delete it.

Kubernetes retries a part that fails; a preemption does not count as a try. Exit code 2 of a part is a user error, which
all parts would meet, so it fails the whole job.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rubricworks.errors import TransientError, UserError
from rubricworks.kubernetes.config import FanOutPlan
from rubricworks.kubernetes.connection import Cluster, Json, report_api_errors
from rubricworks.kubernetes.pods import (
    MAIN,
    PODS,
    USER_ERROR,
    Trouble,
    index_of,
    no_pod,
    pod_template,
    pod_trouble,
    refusal,
    root_trouble,
)
from rubricworks.kubernetes.train_job import find_condition
from rubricworks.kubernetes.work import StageWork, log_line, sigterm_as_exit

JOBS = "/apis/batch/v1/namespaces/{namespace}/jobs"
_DAY = 24 * 3600
_FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of a pod: how often its part had failed before. Preemptions do not count."""


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
    on_waiting: Callable[[str], None] = lambda reason: None,
    report: Callable[[str], None] = log_line,
) -> None:
    """Run all parts and return when they are done; a Job of an earlier pod of the stage is followed on.

    Args:
        poll: seconds between two requests for its state.
        on_progress: called with the number of parts done, when it changes.
        on_waiting: called with the reason for which parts wait, when it changes; empty when none does any more.
        report: called with events of the pods.
    Raises:
        UserError: parts failed, or there is no room for any; the message is the reason that the pods gave.
    """
    path = f"{JOBS}/{work.name}"
    _create(cluster, plan, work, parts)
    try:
        with sigterm_as_exit():
            _watch(cluster, plan, path, poll, on_progress, on_waiting, report)
            on_waiting("")
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
    on_waiting: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    finished, waiting = -1, ""
    failures: dict[int, Trouble] = {}
    stuck_since: float | None = None
    reported = set[str]()

    def report_once(key: str, line: str) -> None:
        if key not in reported:
            reported.add(key)
            report(line)

    while True:
        with report_api_errors("follow the parts", cluster.namespace):
            job = cluster.get(path)
            pods = cluster.list(PODS, **{"batch.kubernetes.io/job-name": job["metadata"]["name"]})
            wait = _wait(cluster, job, pods)
        status = job.get("status") or {}
        if (succeeded := status.get("succeeded") or 0) != finished:
            finished = succeeded
            on_progress(finished)
        troubles = [(pod, trouble) for pod in sorted(pods, key=_attempt_of) if (trouble := pod_trouble(pod))]
        # The last failure of each part; pods of a failed Job are soon deleted.
        failures |= {index_of(pod): trouble for pod, trouble in troubles if trouble.kind == "failed"}
        if failed := find_condition(job, "Failed"):
            raise _failure(failed, status, failures)
        if not find_condition(job, "FailureTarget"):
            for pod, trouble in troubles:
                if trouble.kind in ("failed", "preempted") and trouble.exit_code != USER_ERROR:
                    is_last = trouble.kind == "failed" and _attempt_of(pod) >= plan.fan_out.retries
                    outlook = "failed for good" if is_last else "will be tried again"
                    report_once(pod["metadata"]["name"], f"a part {outlook}: {trouble.message}")
        if find_condition(job, "Complete"):
            return
        message = wait.message if wait else ""
        # Counts and a quota's use change with every pod of the namespace.
        if (kind := re.sub(r"\d+", "", message)) != waiting:
            waiting = kind
            on_waiting(message)
            if message:
                report_once(kind, message)
        stuck_since = (stuck_since or time.monotonic()) if wait and wait.is_stuck else None
        if wait and stuck_since and time.monotonic() - stuck_since >= plan.fan_out.wait_for_room:
            advice = "; take another pool, or wait longer (fan_out.wait_for_room)" if wait.kind == "no room" else ""
            raise TransientError(
                f"no part could start in {plan.fan_out.wait_for_room:.0f} seconds: {wait.reason}{advice}"
            )
        time.sleep(poll)


class _Wait(NamedTuple):
    """Parts that may run and have no pod that does."""

    kind: str
    reason: str
    message: str
    """Line for the user; empty as long as nothing but pods is missing."""
    is_stuck: bool
    """True if no part runs."""


def _wait(cluster: Cluster, job: Json, pods: Sequence[Json]) -> _Wait | None:
    """Return which parts wait, and why; None if all that may run do, or the Job is in a queue or has ended."""
    spec, status, name = job["spec"], job.get("status") or {}, job["metadata"]["name"]
    if spec.get("suspend") or any(find_condition(job, kind) for kind in ("Complete", "Failed", "FailureTarget")):
        return None
    ended = _indexes(status.get("completedIndexes")) | _indexes(status.get("failedIndexes"))
    live = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    waits = [trouble for pod in live if (trouble := pod_trouble(pod)) and trouble.kind in ("no room", "cannot start")]
    is_stuck = len(waits) == len(live)
    may_run = min(spec["parallelism"], spec["completions"] - len(ended))
    missing, refused = max(0, may_run - len(live)), None
    if missing:
        created = max(str(item["metadata"].get("creationTimestamp") or "") for item in (job, *pods))
        refused = refusal(cluster, [name], created)
        # A part that failed rests before it is tried again.
        resting = {index_of(pod) for pod in pods} - {index_of(pod) for pod in live} - ended
        missing = missing if refused else max(0, missing - len(resting))
    if not waits and not missing:
        return None
    trouble = root_trouble([*waits, refused] if refused else waits)
    if trouble is None:  # so it is for a moment whenever pods are due
        trouble = no_pod(cluster, "job", name)
        return _Wait(trouble.kind, trouble.message, "", is_stuck)
    message = f"{len(waits) + missing} of {may_run} parts wait: {trouble.message}"
    return _Wait(trouble.kind, trouble.message, message, is_stuck)


def _failure(failed: Json, status: Json, failures: Mapping[int, Trouble]) -> UserError:
    """Return the error of a failed Job: a part that was tried again and succeeded does not explain it."""
    lost, done = _indexes(status.get("failedIndexes")), _indexes(status.get("completedIndexes"))
    blamed = {index: trouble for index, trouble in failures.items() if index in lost or trouble.exit_code == USER_ERROR}
    blamed = blamed or {index: trouble for index, trouble in failures.items() if index not in done}
    trouble = root_trouble(blamed.values())
    if trouble is None:
        return TransientError(f"{failed['reason']}: {failed.get('message', '')}")
    parts = status.get("failedIndexes") or ",".join(str(index) for index in blamed if blamed[index] is trouble)
    return trouble.to_error(f"{trouble.message} (parts {parts})")


def _attempt_of(pod: Json) -> int:
    """Return how often a part had failed when this pod of it was created."""
    return int((pod["metadata"].get("annotations") or {}).get(_FAILURES) or 0)


def _indexes(text: str | None) -> set[int]:
    """Read the indexes of a Job's status, such as `0,2-4`."""
    indexes: set[int] = set()
    for item in (text or "").split(","):
        first, _, last = item.partition("-")
        if first:
            indexes |= {*range(int(first), int(last or first) + 1)}
    return indexes
