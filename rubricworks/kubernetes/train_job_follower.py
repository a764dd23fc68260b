"""Follow a TrainJob to its end: create or find it, show its log, restart it after a preemption, delete it.

A stage resumes from its last checkpoint whenever it starts, so a restart is the creation of the next TrainJob. That may
have fewer nodes than the last, if the cluster has no room for all.

Follow pods' logs line by line, across lost connections and from one pod to the next.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import filterfalse
from typing import Any

from rubricworks.errors import UserError
from rubricworks.kubernetes.config import TrainJobPlan
from rubricworks.kubernetes.connection import Cluster, Json, report_api_errors
from rubricworks.kubernetes.pods import PODS, USER_ERROR, Trouble, index_of, no_pod, pod_trouble, refusal, root_trouble
from rubricworks.kubernetes.rollout_server import (
    ROLLOUTS,
    RUNTIMES,
    any_ready,
    is_server,
    rollout_environment,
    rollout_runtime,
)
from rubricworks.kubernetes.train_job import NODE, TRAIN_JOBS, find_condition, train_job
from rubricworks.kubernetes.work import StageWork, log_line, sigterm_as_exit

_ATTEMPT = "rubricworks/attempt"
_MAX_START_S = 120.0
"""Seconds for which a container that cannot start, such as for want of its image, may recover."""


def follow_train_job(
    cluster: Cluster,
    plan: TrainJobPlan,
    work: StageWork,
    *,
    poll: float = 5.0,
    report: Callable[[str], None] = log_line,
) -> None:
    """Run the stage as TrainJobs until one succeeds; a TrainJob of an earlier pod of the stage is followed on.

    Args:
        poll: seconds between two requests for its state.
        report: called with each log line of the first node, and with events of the nodes.
    Raises:
        UserError: training failed, or there is no room for it; the message is the reason that the pods gave.
    """
    nodes, restarts = plan.job.nodes, 0
    job = _latest_job(cluster, work)
    if job is not None and find_condition(job, "Failed"):
        job = _create_next(cluster, plan, work, nodes, job)
    job = job or _create_next(cluster, plan, work, nodes, None)
    try:
        with sigterm_as_exit():
            while True:
                if plan.job.rollouts:
                    _own_runtime(cluster, job)
                nodes = job["spec"]["trainer"]["numNodes"]
                trouble = _watch(cluster, plan, job, poll, report)
                if trouble is None:
                    break
                if trouble.kind == "preempted" and restarts < plan.job.restarts:
                    restarts, nodes = restarts + 1, plan.job.nodes
                    report(f"a node was taken ({trouble.message}); training goes on from its last checkpoint")
                elif trouble.kind == "no room" and (fewer := _halve(nodes, plan.job.min_nodes)):
                    report(f"no room for {nodes} nodes ({trouble.message}); trying {fewer}")
                    nodes = fewer
                else:
                    raise trouble.to_error(_failure_message(trouble, plan, nodes, restarts))
                job = _create_next(cluster, plan, work, nodes, job)
    except (KeyboardInterrupt, SystemExit):
        report("stopped: the training's pods are deleted; it goes on from its last checkpoint when it is run again")
        cluster.delete(_path(job))
        raise
    except UserError:
        with suppress(UserError):
            # Pods of a job that waits may hold accelerators, so only one that has failed is kept.
            if not plan.job.keep_failed or not find_condition(cluster.get(_path(job)), "Failed"):
                cluster.delete(_path(job))
        raise
    cluster.delete(_path(job))


def _watch(
    cluster: Cluster, plan: TrainJobPlan, job: Json, poll: float, report: Callable[[str], None]
) -> Trouble | None:
    """Wait until the TrainJob ends, or its pods have waited too long; return what went wrong, None if it is done."""
    log = LogFollower(cluster, NODE, report, pause=min(poll, 1.0))
    failures: dict[str, Trouble] = {}
    waiting_since: float | None = None
    loading_since: float | None = None
    suspended, reported = False, set[str]()
    try:
        while True:
            with report_api_errors("follow the training", cluster.namespace):
                state = cluster.get(_path(job))
                pods = _pods(cluster, job)
                servers, nodes = [*filter(is_server, pods)], [*filterfalse(is_server, pods)]
                # Nodes are made when their server is ready.
                is_loading = plan.job.rollouts is not None and not any_ready(servers)
                lacking = not servers if is_loading else len(nodes) < job["spec"]["trainer"]["numNodes"]
                refused = _refusal(cluster, state, pods) if lacking else None
            for pod in nodes:
                if index_of(pod) == 0:
                    log.follow(pod)
            troubles = {pod["metadata"]["name"]: trouble for pod in pods if (trouble := pod_trouble(pod))}
            # Pods of a failed job are soon deleted, so their failures are kept here.
            failures |= {name: trouble for name, trouble in troubles.items() if trouble.kind in ("failed", "preempted")}
            if find_condition(state, "Complete"):
                return None
            if failed := find_condition(state, "Failed"):
                return root_trouble(failures.values()) or _job_trouble(failed)
            if (is_suspended := find_condition(state, "Suspended") is not None) != suspended:
                suspended = is_suspended
                failures = {}
                report("waiting in the queue" if suspended else "admitted by the queue")
            waits = [problem for problem in troubles.values() if problem.kind in ("no room", "cannot start")]
            trouble = root_trouble([*waits, refused] if refused else waits)
            if trouble and not suspended and (kind := re.sub(r"\d+", "", trouble.message)) not in reported:
                reported.add(kind)
                report(f"nodes wait: {trouble.message}")
            if trouble is None and lacking:
                trouble = no_pod(cluster, "trainjob", job["metadata"]["name"])
            loading_since = (loading_since or time.monotonic()) if is_loading and servers and not suspended else None
            if plan.job.rollouts and servers and not suspended:
                if loading_since and time.monotonic() - loading_since >= plan.job.rollouts.start_within:
                    return _not_ready(plan.job.rollouts.start_within, trouble)
                if (line := f"the vLLM server {'loads the model' if is_loading else 'is ready'}") not in reported:
                    reported.add(line)
                    report(line)
            waiting_since = None if suspended or trouble is None else waiting_since or time.monotonic()
            if waiting_since is not None and trouble is not None:
                room_s = plan.job.wait_for_room
                limit = room_s if trouble.kind == "no room" else min(_MAX_START_S, room_s)
                if time.monotonic() - waiting_since >= limit:
                    return trouble
            time.sleep(poll)
    finally:
        log.close()


def _create_next(cluster: Cluster, plan: TrainJobPlan, work: StageWork, nodes: int, last: Json | None) -> Json:
    """Delete the last TrainJob, whose pods may hold nodes, and create the next one."""
    attempt = 1 if last is None else _attempt(last) + 1
    if last is not None:
        with report_api_errors("delete the last TrainJob", cluster.namespace):
            cluster.delete(_path(last))
    labels, name = {**work.labels, _ATTEMPT: str(attempt)}, f"{work.name}-{attempt}"
    body = train_job(
        plan, name, nodes, labels, work.arguments(), rollout_environment(name) if plan.job.rollouts else {}
    )
    with report_api_errors("create a TrainJob", cluster.namespace):
        if plan.job.rollouts:
            cluster.create(RUNTIMES, rollout_runtime(plan, work, name, labels))
        return cluster.create(TRAIN_JOBS, body) or cluster.get(f"{TRAIN_JOBS}/{name}")


def _own_runtime(cluster: Cluster, job: Json) -> None:
    """Make a TrainJob own the runtime of its name, so that the cluster deletes it with the TrainJob."""
    owner = {key: job[key] for key in ("apiVersion", "kind")} | {key: job["metadata"][key] for key in ("name", "uid")}
    with report_api_errors("hand the training's runtime over", cluster.namespace):
        cluster.patch(f"{RUNTIMES}/{owner['name']}", {"metadata": {"ownerReferences": [owner]}})


def _latest_job(cluster: Cluster, work: StageWork) -> Json | None:
    with report_api_errors("look for TrainJobs", cluster.namespace):
        jobs = cluster.list(TRAIN_JOBS, **{"rubricworks/work": work.key})
    return max(jobs, key=_attempt) if jobs else None


def _attempt(job: Json) -> int:
    return int(job["metadata"]["labels"][_ATTEMPT])


def _pods(cluster: Cluster, job: Json) -> list[Json]:
    return cluster.list(PODS, **{"jobset.sigs.k8s.io/jobset-name": job["metadata"]["name"]})


def _refusal(cluster: Cluster, job: Json, pods: Sequence[Json]) -> Trouble | None:
    """Return why pods are missing: events are on the TrainJob, its JobSet of the same name, or the JobSet's Jobs."""
    name = job["metadata"]["name"]
    created = max(str(item["metadata"].get("creationTimestamp") or "") for item in (job, *pods))
    return refusal(cluster, [name, f"{name}-{NODE}-0", f"{name}-{ROLLOUTS}-0"], created)


def _not_ready(within: float, trouble: Trouble | None) -> Trouble:
    reason = f": {trouble.message}" if trouble else ""
    message = (
        f"the vLLM server was not ready within {within:.0f} seconds{reason}; see its log, or allow more "
        "(train_job.rollouts.start_within)"
    )
    return Trouble("failed", message, USER_ERROR)


def _path(job: Json) -> str:
    return f"{TRAIN_JOBS}/{job['metadata']['name']}"


def _halve(nodes: int, minimum: int | None) -> int | None:
    """Return half the nodes (the batch stays divisible), but at least the minimum; None if that is no fewer."""
    fewer = max(nodes // 2, minimum or nodes)
    return fewer if fewer < nodes else None


def _job_trouble(failed: Json) -> Trouble:
    """Return the trouble from the job's own condition, when no pod gives a reason: a lost node takes its pods along."""
    reason, message = failed.get("reason", ""), failed.get("message", "")
    is_job_failure = reason in ("DeadlineExceeded", "TrainingRuntimeNotSupported")
    return Trouble("failed" if is_job_failure else "preempted", f"{reason}: {message}")


def _failure_message(trouble: Trouble, plan: TrainJobPlan, nodes: int, restarts: int) -> str:
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


_PAUSE = 1.0


class LogFollower:
    """Follower of pods' logs in background threads; each line is reported once."""

    def __init__(
        self, cluster: Cluster, container: str, report: Callable[[str], None], *, pause: float = _PAUSE
    ) -> None:
        self._cluster, self._container, self._report, self._pause = cluster, container, report, pause
        self._threads: dict[str, threading.Thread] = {}
        self._stop = threading.Event()

    def follow(self, pod: Json) -> None:
        """Follow a pod's log from its first line; do nothing if it is followed already or has not started."""
        name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
        if name in self._threads or phase not in ("Running", "Succeeded", "Failed"):
            return
        thread = threading.Thread(target=self._read, args=(name,), name=f"log of {name}", daemon=True)
        self._threads[name] = thread
        thread.start()

    def close(self, within: float = 10.0) -> None:
        """Wait up to `within` seconds for the rest of the logs, then stop."""
        deadline = time.monotonic() + within
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._stop.set()

    def _read(self, name: str) -> None:
        last = ""
        while not self._stop.is_set():
            try:
                is_complete = self._has_ended(name)
                for stamp, line in self._lines(name, last):
                    if stamp > last:
                        last = stamp
                        self._report(line)
                if is_complete:
                    return
            except Exception as error:  # no connection error may stop the training for its log
                if getattr(error, "status", None) == 404:
                    return
            self._stop.wait(self._pause)

    def _lines(self, name: str, since: str) -> Iterator[tuple[str, str]]:
        """Yield (timestamp, text) from the second of the last line on; the API has no finer start."""
        query = {"container": self._container, "follow": "true", "timestamps": "true"}
        query |= {"sinceTime": f"{since[:19]}Z"} if since else {}
        response = self._cluster.stream(f"{PODS}/{name}/log", **query)
        try:
            for line in _split(response):
                stamp, _, text = line.partition(" ")
                yield stamp, text
        finally:
            response.close()

    def _has_ended(self, name: str) -> bool:
        phase = self._cluster.get(f"{PODS}/{name}").get("status", {}).get("phase")
        return phase in ("Succeeded", "Failed")


def _split(response: Any) -> Iterator[str]:
    rest = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
    if rest:
        yield rest.decode(errors="replace")
