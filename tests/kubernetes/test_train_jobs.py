"""A TrainJob from its making to its end, against an API over HTTP whose controllers the tests play."""

import os
import signal
import threading
import time

import kubernetes_validate
import pytest
from kubernetes_api import NO_ACCOUNT, PODS, QUOTA, RUNTIMES, TRAIN_JOBS, KubernetesApi, ended
from pydantic import ValidationError

from rubricworks.errors import TransientError, UserError
from rubricworks.kubernetes.config import PodPlan, RolloutServer, TrainJobConfig, TrainJobPlan
from rubricworks.kubernetes.connection import connect
from rubricworks.kubernetes.rollout_server import rollout_environment, rollout_runtime
from rubricworks.kubernetes.train_job import train_job
from rubricworks.kubernetes.train_job_follower import follow_train_job

GPU = {"accelerator": "nvidia.com/gpu", "accelerators": 8, "memory": "800Gi", "cpu": "96", "shared_memory": "64Gi"}
SECRET = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "judge", "key": "key"}}}
POLL = 0.02
FORBIDDEN = 'trainjobs.trainer.kubeflow.org is forbidden: User "system:serviceaccount:team:x" cannot create resource'


def plan(**job) -> TrainJobPlan:
    pod = PodPlan(
        image="trainer@sha256:1",
        env=(SECRET, {"name": "RUBRICWORKS_TRAIN_JOB", "value": "{}"}),
        labels={"kueue.x-k8s.io/queue-name": "gpus", "team": "vision"},
        tolerations=({"key": "nvidia.com/gpu", "operator": "Exists"},),
        **GPU,
    )
    return TrainJobPlan(job=TrainJobConfig(**{"nodes": 4, **job}), pod=pod)


def node(api: KubernetesApi, job: str, index: int, phase: str = "Running", **status) -> str:
    name = f"{job}-node-0-{index}"
    labels = {"jobset.sigs.k8s.io/jobset-name": job, "batch.kubernetes.io/job-completion-index": str(index)}
    api.pod(name, labels, phase, **status)
    return name


def follow(cluster, plan, work, **options) -> list[str]:
    lines: list[str] = []
    follow_train_job(cluster, plan, work, poll=POLL, report=lines.append, **options)
    return lines


def wait_until(holds) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(POLL)


def in_order(*acts):
    """Plays the first act for the first TrainJob, the second for the second, …"""
    waiting = list(acts)

    def play(path: str, item: dict) -> None:
        if path.startswith(TRAIN_JOBS):
            waiting.pop(0)(path, item["metadata"]["name"])

    return play


def completes(api: KubernetesApi, *lines: str):
    def act(path: str, name: str) -> None:
        pod = node(api, name, 0)
        api.say(pod, *lines)
        time.sleep(4 * POLL)
        api.status(f"{PODS}/{pod}", phase="Succeeded")
        api.condition(path, "Complete")

    return act


@pytest.mark.slow
def test_nodes_run_the_very_stage_by_torchrun_with_fsdp_where_the_plan_says(api, cluster, work):
    jobs = []
    api.on_create = lambda path, item: (jobs.append(item), api.condition(path, "Complete"))
    follow(cluster, plan(), work)
    (job,) = jobs
    trainer = job["spec"]["trainer"]
    assert trainer["command"][:6] == [
        "python",
        "-m",
        "torch.distributed.run",
        "-m",
        "rubricworks.runtime",
        "train_policy",
    ]
    assert trainer["command"][6:] == [
        *("--config", '{"steps":4}', "--run-uri", "s3://runs/r1", "--input", "model=s3://runs/r1/warm_up")
    ]
    assert (trainer["numNodes"], trainer["numProcPerNode"], trainer["image"]) == (4, 8, "trainer@sha256:1")
    assert trainer["resourcesPerNode"]["limits"] == {"memory": "800Gi", "nvidia.com/gpu": "8"}
    env = {item["name"]: item for item in trainer["env"]}
    assert env["KEY"] == SECRET
    assert env["ACCELERATE_USE_FSDP"]["value"] == "true"
    assert "RUBRICWORKS_TRAIN_JOB" not in env, "its nodes would make TrainJobs"
    (patch,) = job["spec"]["runtimePatches"]
    (replicated,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = replicated["template"]["spec"]["template"]
    assert pod["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["volumes"] == [{"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    assert "kueue.x-k8s.io/queue-name" not in pod["metadata"]["labels"], "a queue admits the job, not each pod"
    assert pod["metadata"]["labels"]["sidecar.istio.io/inject"] == "false", "a sidecar outlives the training"


@pytest.mark.slow
def test_first_nodes_log_is_read_once_and_the_job_deleted(api, cluster, work):
    api.cut_logs = 2
    api.on_create = in_order(completes(api, "step 1", "step 2", "step 3"))
    lines = follow(cluster, plan(), work)
    assert [line for line in lines if line.startswith("step")] == ["step 1", "step 2", "step 3"]
    assert api.of(TRAIN_JOBS) == []


def test_preempted_node_starts_the_training_again(api, cluster, work):
    def preempted(path: str, name: str) -> None:
        node(api, name, 0, "Failed", containerStatuses=ended(1, "DistBackendError: connection closed by peer"))
        conditions = [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "by a"}
        ]
        node(api, name, 1, "Failed", conditions=conditions, containerStatuses=ended(137))
        api.condition(path, "Failed", "FailedJobs", "jobset failed")

    names = []
    api.on_create = in_order(preempted, lambda path, name: (names.append(name), completes(api)(path, name)))
    lines = follow(cluster, plan(restarts=1), work)
    assert names == [f"{work.name}-2"]
    assert "goes on from its last checkpoint" in lines[0]
    assert "by a" in lines[0]

    api.on_create = in_order(preempted, preempted)
    with pytest.raises(UserError, match=r"taken 2 times.*train_job\.restarts"):
        follow(cluster, plan(restarts=1), work._replace(run="s3://runs/r2"))


@pytest.mark.parametrize(
    ("statuses", "message"),
    [
        (
            {0: ended(143), 1: ended(1, "UserError: no"), 2: ended(2, "prompts_per_step 7 does not divide")},
            r"^prompts_per_step 7 does not divide$",
        ),
        ({0: ended(1, "RuntimeError: NCCL"), 3: ended(137, reason="OOMKilled")}, "ran out of memory; give the stage"),
        ({0: ended(1, ""), 1: ended(143)}, r"node-0-0 ended with exit code 1"),
    ],
)
def test_what_failed_first_is_the_reason_and_the_failed_job_stays_to_be_looked_at(
    api, cluster, work, statuses, message
):
    def fails(path: str, name: str) -> None:
        for index, containers in statuses.items():
            node(api, name, index, "Failed", containerStatuses=containers)
        api.condition(path, "Failed", "FailedJobs", "jobset failed")

    api.on_create = in_order(fails)
    with pytest.raises(UserError, match=message):
        follow(cluster, plan(), work)
    assert len(api.of(TRAIN_JOBS)) == 1
    api.on_create = in_order(completes(api))
    follow(cluster, plan(), work)
    assert api.of(TRAIN_JOBS) == [], "the next attempt begins anew, and deletes the failed one"


def test_fewer_nodes_are_taken_and_too_few_are_reported(api, cluster, work):
    def no_room(path: str, name: str) -> None:
        lacks = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/9 nodes have gpus"}
        node(api, name, 0, "Pending", conditions=[lacks])

    nodes = []

    def count_calls(act):
        return lambda path, name: (nodes.append(api.objects[path]["spec"]["trainer"]["numNodes"]), act(path, name))

    api.on_create = in_order(count_calls(no_room), count_calls(no_room), count_calls(completes(api)))
    follow(cluster, plan(min_nodes=1, wait_for_room=0.1), work)
    assert nodes == [4, 2, 1]

    api.on_create = in_order(no_room)
    with pytest.raises(UserError, match=r"no room for 4 nodes with 8 nvidia.com/gpu each.*0/9 nodes have gpus"):
        follow(cluster, plan(wait_for_room=0.1), work._replace(run="s3://runs/r2"))


def test_nodes_over_the_quota_are_fewer_and_other_refusals_end_the_wait(api, cluster, work):
    def refuses(reason: str):
        return lambda path, name: api.refused_pod("Job", f"{name}-node-0", reason)

    api.on_create = in_order(refuses(QUOTA), completes(api))
    lines = follow(cluster, plan(min_nodes=2, wait_for_room=0.1), work)
    assert lines[0].startswith("nodes wait: pods are refused: exceeded quota: compute")
    assert lines[1].startswith("no room for 4 nodes (pods are refused: exceeded quota: compute")
    assert lines[1].endswith("trying 2")

    api.on_create = in_order(refuses(NO_ACCOUNT))
    with pytest.raises(TransientError, match=r'^pods are refused: .*serviceaccount "workers" not found$'):
        follow(cluster, plan(min_nodes=2, wait_for_room=0.1), work._replace(run="s3://runs/r2"))


def test_a_training_without_pods_ends_the_wait_and_one_in_a_queue_does_not(api, cluster, work):
    with pytest.raises(TransientError, match=r"there is no pod, .*kubectl -n team describe trainjob train-policy-"):
        follow(cluster, plan(wait_for_room=0.1), work)

    def queued(path: str, name: str) -> None:
        api.condition(path, "Suspended")
        time.sleep(20 * POLL)
        completes(api)(path, name)

    api.on_create = in_order(queued)
    follow(cluster, plan(wait_for_room=4 * POLL), work._replace(run="s3://runs/r2"))


def test_an_image_that_cannot_be_pulled_ends_the_wait(api, cluster, work):
    def stuck(path: str, name: str) -> None:
        waits = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image trainer"}}
        node(api, name, 0, "Pending", containerStatuses=[{"name": "node", "state": waits}])

    api.on_create = in_order(stuck)
    with pytest.raises(UserError, match=r"cannot start: ImagePullBackOff: no such image trainer"):
        follow(cluster, plan(wait_for_room=0.1), work)


def test_a_stage_whose_pod_was_killed_takes_up_the_job_that_is_running(api, cluster, work):
    labels = {**work.labels, "rubricworks/attempt": "1"}
    api.create(TRAIN_JOBS, train_job(plan(), f"{work.name}-1", 4, labels, work.arguments()))
    threading.Timer(5 * POLL, lambda: api.condition(f"{TRAIN_JOBS}/{work.name}-1", "Complete")).start()
    follow(cluster, plan(), work)
    assert [method for method, _ in api.asked if method == "POST"] == []
    assert api.deleted == [f"{TRAIN_JOBS}/{work.name}-1"]


def test_absent_api_loses_nothing_and_a_refusal_says_what_to_do(api, cluster, work):
    away = iter([503] * 3)
    api.refuse = lambda method, path: (status, "down") if (status := next(away, None)) else None
    api.on_create = in_order(completes(api))
    follow(cluster, plan(), work)

    api.refuse = lambda method, path: (403, FORBIDDEN) if method == "POST" else None
    with pytest.raises(UserError, match=r"could not create a TrainJob in namespace team: .*forbidden.*chart's role"):
        follow(cluster, plan(), work)
    api.refuse = lambda method, path: (404, "the server could not find the requested resource")
    with pytest.raises(UserError, match=r"Kubeflow Trainer 2\.3"):
        follow(cluster, plan(), work)


def test_sigterm_deletes_the_job_so_that_its_nodes_are_free(api, cluster, work):
    api.on_create = lambda path, item: threading.Timer(4 * POLL, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(SystemExit):
        follow(cluster, plan(), work)
    assert api.deleted == [f"{TRAIN_JOBS}/{work.name}-1"]


def test_time_in_a_queue_is_not_time_without_room(api, cluster, work):
    def queued(path: str, name: str) -> None:
        api.condition(path, "Suspended")
        lacks = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "none"}
        node(api, name, 0, "Pending", conditions=[lacks])
        time.sleep(10 * POLL)
        api.condition(path, "Complete")

    api.on_create = in_order(queued)
    assert follow(cluster, plan(wait_for_room=4 * POLL), work) == ["waiting in the queue"]


class Controllers:
    """Plays Kueue, Trainer and JobSet: what a TrainJob and its runtime ask for is admitted whole or not at all.

    Sources: Kueue's controller of TrainJobs, which takes the pod sets of the runtime's jobs; JobSet's `dependsOn`.
    """

    def __init__(self, api: KubernetesApi, gpus: int) -> None:
        self.api, self.gpus = api, gpus
        self.is_ready = True
        self.waiting: list[str] = []
        self.changed = threading.Condition()

    def admit(self, gpus: int) -> None:
        with self.changed:
            self.gpus = gpus
            self.changed.notify_all()

    def __call__(self, path: str, item: dict) -> None:
        if not path.startswith(TRAIN_JOBS):
            return
        name, reference = item["metadata"]["name"], item["spec"]["runtimeRef"]
        assert (reference["kind"], reference["name"]) == ("TrainingRuntime", name)
        jobs = self.api.objects[f"{RUNTIMES}/{name}"]["spec"]["template"]["spec"]["replicatedJobs"]
        (server,) = jobs[0]["template"]["spec"]["template"]["spec"]["containers"]
        trainer = item["spec"]["trainer"]
        asked = int(server["resources"]["limits"]["nvidia.com/gpu"])
        asked += trainer["numNodes"] * int(trainer["resourcesPerNode"]["limits"]["nvidia.com/gpu"])
        with self.changed:
            while asked > self.gpus:
                self.waiting.append(name)
                self.api.condition(path, "Suspended", "Suspended", "not admitted")
                self.changed.wait()
        self.api.status(path, conditions=[])
        labels = {"jobset.sigs.k8s.io/jobset-name": name}
        self.pod(jobs[0]["name"], labels)
        (dependency,) = jobs[1]["dependsOn"]
        assert dependency == {"name": jobs[0]["name"], "status": "Ready"}
        if self.is_ready:
            for index in range(trainer["numNodes"]):
                node(self.api, name, index)
            self.api.condition(path, "Complete")

    def pod(self, job: str, labels: dict[str, str]) -> None:
        ready = [{"type": "Ready", "status": str(self.is_ready)}]
        own = {"jobset.sigs.k8s.io/replicatedjob-name": job, "batch.kubernetes.io/job-completion-index": "0"}
        self.api.pod("server", {**labels, **own}, conditions=ready)


def test_training_and_its_vllm_server_are_admitted_together_or_not_at_all(api, cluster, work):
    """Neither the quota of the server alone nor that of the nodes alone gives any pod; both are one TrainJob."""
    lines: list[str] = []
    api.on_create = controllers = Controllers(api, gpus=2)
    follower = threading.Thread(
        target=follow_train_job,
        args=(cluster, plan(rollouts=RolloutServer(accelerators=2)), work),
        kwargs={"poll": POLL, "report": lines.append},
    )
    follower.start()
    wait_until(lambda: len(controllers.waiting) == 1)
    assert api.of(PODS) == [], "there is room for the server"
    controllers.admit(32)
    wait_until(lambda: len(controllers.waiting) == 2)
    assert api.of(PODS) == [], "there is room for the four nodes"
    wait_until(lambda: lines == ["waiting in the queue"])
    assert [item["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] for item in api.of(TRAIN_JOBS)] == ["gpus"]
    controllers.admit(34)
    follower.join()
    assert {path.rpartition("/")[0] for path in api.deleted} == {TRAIN_JOBS, RUNTIMES}
    assert api.of(RUNTIMES) == [], "the runtime goes with its TrainJob"


def test_vllm_server_of_a_training_is_found_by_its_nodes_and_never_ends_it(api, cluster, work):
    api.on_create = lambda path, item: None
    job_plan = plan(rollouts=RolloutServer(accelerators=2, max_model_length=4096))
    labels = {"rubricworks/work": work.key}
    runtime = rollout_runtime(job_plan, work, "train-1", labels)
    assert cluster.create(RUNTIMES, runtime), "Trainer's own models know every field"
    template = runtime["spec"]["template"]["spec"]
    assert template["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["node"]}
    server = template["replicatedJobs"][0]["template"]["spec"]["template"]
    kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", **server}, "1.31", strict=True)
    assert server["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
    assert "kueue.x-k8s.io/queue-name" not in server["metadata"]["labels"], "a queue admits the job, not each pod"
    assert server["spec"]["enableServiceLinks"] is False
    (container,) = server["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    # tests/vllm_cpu/test_rollout_server.py runs the command.
    assert "--enable-scale-out" in container["command"]
    assert container["command"][-4:] == ["--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"]
    assert rollout_environment("train-1") == {"RUBRICWORKS_VLLM_URL": "http://train-1-rollouts-0-0.train-1:8000"}


def test_a_vllm_server_that_does_not_load_its_model_in_time_ends_the_stage(api, cluster, work):
    api.on_create = controllers = Controllers(api, gpus=34)
    controllers.is_ready = False
    job_plan = plan(rollouts=RolloutServer(accelerators=2, start_within=4 * POLL))
    with pytest.raises(UserError, match=r"the vLLM server was not ready within 0 seconds; see its log.*start_within"):
        follow(cluster, job_plan, work)
    assert api.of(TRAIN_JOBS) == [], "it would hold its accelerators"


def test_a_vllm_server_that_ends_says_why(api, cluster, work):
    def broken(path: str, name: str) -> None:
        labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": "rollouts"}
        api.pod("server", labels, "Failed", containerStatuses=ended(1, "no CUDA device", name="main"))
        api.condition(path, "Failed", "FailedJobs", "jobset failed")

    api.on_create = in_order(broken)
    with pytest.raises(TransientError, match="no CUDA device"):
        follow(cluster, plan(rollouts=RolloutServer()), work)
    assert len(api.of(TRAIN_JOBS)) == 1, "it stays to be looked at, and holds nothing"


def test_a_vllm_server_whose_pod_is_refused_says_why(api, cluster, work):
    api.on_create = in_order(lambda path, name: api.refused_pod("Job", f"{name}-rollouts-0", QUOTA))
    with pytest.raises(UserError, match=r"no room for 4 nodes.*pods are refused: exceeded quota: compute"):
        follow(cluster, plan(rollouts=RolloutServer(), wait_for_room=4 * POLL), work)


def test_nodes_that_find_no_room_beside_their_server_do_not_keep_it_waiting(api, cluster, work):
    """Without a queue the server may fit alone: it is deleted with its training, which has waited long enough."""

    def only_the_server(path: str, name: str) -> None:
        labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": "rollouts"}
        api.pod("server", labels, conditions=[{"type": "Ready", "status": "True"}])
        lacks = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
        node(api, name, 0, "Pending", conditions=[lacks])

    api.on_create = in_order(only_the_server)
    with pytest.raises(UserError, match="no room for 4 nodes"):
        follow(cluster, plan(rollouts=RolloutServer(), wait_for_room=4 * POLL), work)
    assert (api.of(TRAIN_JOBS), api.of(RUNTIMES)) == ([], [])


def test_a_runtime_of_ones_own_and_a_vllm_server_are_not_both_taken():
    with pytest.raises(ValidationError, match="runtime mine: rollouts bring a runtime of their own"):
        TrainJobConfig(runtime="mine", rollouts=RolloutServer())


def test_without_a_cluster_the_error_says_where_to_find_one(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UserError, match=r"no cluster to work on.*set KUBECONFIG"):
        connect()
