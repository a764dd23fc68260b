"""A TrainJob followed to its end: made or found again, its log shown, begun again after a preemption, cleaned up.

A stage goes on from its last checkpoint whenever it is started, so beginning again is making the next TrainJob. It may
have fewer nodes than the one before, where the cluster has no room for all.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.kubernetes.config import TrainJobPlan
from rubricworks.kubernetes.connection import Cluster, Json, telling
from rubricworks.kubernetes.logs import LogFollower
from rubricworks.kubernetes.pods import PODS, Trouble, trouble_of, worst
from rubricworks.kubernetes.train_job import NODE, TRAIN_JOBS, condition, train_job
from rubricworks.kubernetes.work import StageWork, ended_by_sigterm, say

_ATTEMPT = "rubricworks/attempt"
_INDEX = "batch.kubernetes.io/job-completion-index"
_STUCK = 120.0
"""Seconds in which an image that cannot be pulled may still come."""


class End(NamedTuple):
    """How one TrainJob ended; no trouble: it is done."""

    trouble: Trouble | None = None


def follow_train_job(
    cluster: Cluster,
    plan: TrainJobPlan,
    work: StageWork,
    *,
    env: Mapping[str, str] = {},
    made: Callable[[Json], None] = lambda job: None,
    poll: float = 5.0,
    tell: Callable[[str], None] = say,
) -> None:
    """Have the stage trained and return when it is; taken up again where an earlier pod of the stage left off.

    Args:
        env: further variables of every process.
        made: called with each TrainJob.
        poll: seconds between two looks.
        tell: hears the log of the first node and what happens to the nodes.
    Raises:
        UserError: training failed, or there is no room for it; the message is the reason that the pods gave.
    """
    nodes, restarts = plan.job.nodes, 0
    job = _newest(cluster, work)
    if job is not None and condition(job, "Failed"):
        job = _next(cluster, plan, work, nodes, env, job)
    job = job or _next(cluster, plan, work, nodes, env, None)
    try:
        with ended_by_sigterm():
            while True:
                made(job)
                nodes = job["spec"]["trainer"]["numNodes"]
                trouble = _watch(cluster, plan, job, poll, tell).trouble
                if trouble is None:
                    break
                if trouble.kind == "preempted" and restarts < plan.job.restarts:
                    restarts, nodes = restarts + 1, plan.job.nodes
                    tell(f"a node was taken ({trouble.message}); training goes on from its last checkpoint")
                elif trouble.kind == "no room" and (fewer := _fewer(nodes, plan.job.min_nodes)):
                    tell(f"no room for {nodes} nodes ({trouble.message}); trying {fewer}")
                    nodes = fewer
                else:
                    raise trouble.raised(_told(trouble, plan, nodes, restarts))
                job = _next(cluster, plan, work, nodes, env, job)
    except (KeyboardInterrupt, SystemExit):
        tell("stopped: the training's pods are deleted; it goes on from its last checkpoint when it is run again")
        cluster.delete(_path(job))
        raise
    except UserError:
        if not plan.job.keep_failed:
            with suppress(UserError):
                cluster.delete(_path(job))
        raise
    cluster.delete(_path(job))


def _watch(cluster: Cluster, plan: TrainJobPlan, job: Json, poll: float, tell: Callable[[str], None]) -> End:
    """Until it ends, or its pods have waited too long."""
    log = LogFollower(cluster, NODE, tell, pause=min(poll, 1.0))
    seen: dict[str, Trouble] = {}
    waiting_since: float | None = None
    suspended = False
    try:
        while True:
            with telling("follow the training", cluster.namespace):
                now = cluster.get(_path(job))
                pods = _pods(cluster, job)
            for pod in pods:
                if pod["metadata"].get("labels", {}).get(_INDEX, "0") == "0":
                    log.follow(pod)
            troubles = {pod["metadata"]["name"]: trouble for pod in pods if (trouble := trouble_of(pod))}
            # Pods of a job that failed are soon deleted; what was wrong with them is remembered.
            seen |= {name: trouble for name, trouble in troubles.items() if trouble.kind in ("failed", "preempted")}
            if condition(now, "Complete"):
                return End()
            if failed := condition(now, "Failed"):
                return End(worst(seen.values()) or _unexplained(failed))
            if (is_suspended := condition(now, "Suspended") is not None) != suspended:
                suspended = is_suspended
                seen = {}
                tell("waiting in the queue" if suspended else "admitted by the queue")
            waits = [trouble for trouble in troubles.values() if trouble.kind in ("no room", "cannot start")]
            waiting_since = None if suspended or not waits else waiting_since or time.monotonic()
            if waiting_since is not None:
                trouble = worst(waits)
                allowed = plan.job.wait_for_room if trouble.kind == "no room" else min(_STUCK, plan.job.wait_for_room)
                if time.monotonic() - waiting_since >= allowed:
                    return End(trouble)
            time.sleep(poll)
    finally:
        log.close()


def _next(
    cluster: Cluster, plan: TrainJobPlan, work: StageWork, nodes: int, env: Mapping[str, str], last: Json | None
) -> Json:
    """The TrainJob after the last one, which is deleted: its pods hold nodes, and its log has been shown."""
    attempt = 1 if last is None else _attempt(last) + 1
    if last is not None:
        with telling("delete the last TrainJob", cluster.namespace):
            cluster.delete(_path(last))
    labels = {**work.labels, _ATTEMPT: str(attempt)}
    body = train_job(plan, f"{work.name}-{attempt}", nodes, labels, work.arguments(), env)
    with telling("create a TrainJob", cluster.namespace):
        return cluster.create(TRAIN_JOBS, body) or cluster.get(f"{TRAIN_JOBS}/{body['metadata']['name']}")


def _newest(cluster: Cluster, work: StageWork) -> Json | None:
    with telling("look for TrainJobs", cluster.namespace):
        found = cluster.list(TRAIN_JOBS, **{"rubricworks/work": work.key})
    return max(found, key=_attempt) if found else None


def _attempt(job: Json) -> int:
    return int(job["metadata"]["labels"][_ATTEMPT])


def _pods(cluster: Cluster, job: Json) -> list[Json]:
    return cluster.list(PODS, **{"jobset.sigs.k8s.io/jobset-name": job["metadata"]["name"]})


def _path(job: Json) -> str:
    return f"{TRAIN_JOBS}/{job['metadata']['name']}"


def _fewer(nodes: int, at_least: int | None) -> int | None:
    """Half of them, which leaves a batch divisible; None below the least."""
    fewer = max(nodes // 2, at_least or nodes)
    return fewer if fewer < nodes else None


def _unexplained(failed: Json) -> Trouble:
    """No pod says why: those of a node that is lost are gone with it."""
    reason, message = failed.get("reason", ""), failed.get("message", "")
    own = reason in ("DeadlineExceeded", "TrainingRuntimeNotSupported")
    return Trouble("failed" if own else "preempted", f"{reason}: {message}")


def _told(trouble: Trouble, plan: TrainJobPlan, nodes: int, restarts: int) -> str:
    if trouble.kind == "no room":
        each = f"{plan.pod.accelerators} {plan.pod.accelerator}" if plan.pod.accelerators else "its processors"
        return (
            f"no room for {nodes} nodes with {each} each in {plan.job.wait_for_room:.0f} seconds: {trouble.message}; "
            "take another pool or fewer nodes, or wait longer (train_job: nodes, min_nodes, wait_for_room)"
        )
    if trouble.kind == "preempted":
        return (
            f"nodes were taken {restarts + 1} times, the last one: {trouble.message}; run again to go on from the last "
            "checkpoint, or allow more train_job.restarts"
        )
    return trouble.message
