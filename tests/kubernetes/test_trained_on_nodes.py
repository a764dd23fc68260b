"""A policy trained by a TrainJob whose nodes are processes here, joined by torchrun as Kubeflow Trainer has them do."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from kubernetes_api import PODS, TRAIN_JOBS, ended
from small_policy import GROUP, LONGEST, make_inputs
from training_configs import policy_json

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.kubernetes import TRAIN_JOB
from rubricworks.kubernetes.config import PodPlan, TrainJobConfig, TrainJobPlan
from rubricworks.kubernetes.train_job_follower import follow_train_job
from rubricworks.policy.algorithms.grpo import AnswerGrpo
from rubricworks.runtime.launch import launch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

SHAPE = {"steps": 4, "prompts_per_step": 4, "group_size": GROUP, "max_new_tokens": LONGEST, "learning_rate": 1e-3}
SHAPE |= {"save_every": 2}
TRAINED_ON = ("samples", "rubrics", "filtered", "model")
NODES = 2


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    paths = make_inputs(tmp_path_factory.mktemp("inputs"))
    return {name: paths[name] for name in TRAINED_ON}


class Nodes:
    """Plays the controller: pods of TrainJobs are processes, and those of the first are taken away in the middle."""

    def __init__(self, api, folder: Path, until: Path | None) -> None:
        self.api, self.folder, self.until = api, folder, until
        self.jobs = 0

    def __call__(self, path: str, item: dict) -> None:
        self.jobs += 1
        name, trainer = item["metadata"]["name"], item["spec"]["trainer"]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        environment = {variable["name"]: variable["value"] for variable in trainer["env"]}
        inherited = {key: value for key, value in os.environ.items() if key != TRAIN_JOB}
        pods, processes = [], []
        for index in range(trainer["numNodes"]):
            own = {"PET_NNODES": trainer["numNodes"], "PET_NODE_RANK": index, "PET_NPROC_PER_NODE": 1}
            own |= {"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": port}
            own |= {"RUBRICWORKS_LAST_WORDS": self.folder / f"{name}-{index}"}
            variables = {key: str(value) for key, value in own.items()}
            labels = {"jobset.sigs.k8s.io/jobset-name": name, "batch.kubernetes.io/job-completion-index": str(index)}
            self.api.pod(f"{name}-{index}", labels)
            pods.append(f"{name}-{index}")
            processes.append(
                subprocess.Popen(
                    [sys.executable, *trainer["command"][1:]],
                    env=inherited | environment | variables,
                )
            )
        if self.until is not None and self.jobs == 1:
            while not self.until.exists() and all(process.poll() is None for process in processes):
                time.sleep(0.05)
            # torchrun's own processes are in sessions of their own.
            for process in processes:
                for child in (*psutil.Process(process.pid).children(recursive=True), process):
                    child.kill()
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": "bye",
            }
            self.api.status(f"{PODS}/{pods[1]}", phase="Failed", conditions=[condition])
        codes = [process.wait() for process in processes]
        for pod, code in zip(pods, codes, strict=True):
            words = self.folder / pod
            text = words.read_text() if words.exists() else ""
            self.api.status(f"{PODS}/{pod}", phase="Failed" if code else "Succeeded")
            if code > 0:
                self.api.status(f"{PODS}/{pod}", containerStatuses=ended(code, text))
        self.api.condition(path, "Failed" if any(codes) else "Complete", "FailedJobs" if any(codes) else "Done")


@pytest.fixture
def train(api, cluster, tmp_path, monkeypatch, inputs):
    plan = TrainJobPlan(job=TrainJobConfig(nodes=NODES, sharding="none"), pod=PodPlan(image="trainer"))
    monkeypatch.setenv(TRAIN_JOB, plan.model_dump_json())
    monkeypatch.setattr(
        "rubricworks.kubernetes.train_job_follower.follow_train_job",
        lambda *args, **options: follow_train_job(*args, **options, poll=0.1),
    )

    def go(until: str | None = None, **config) -> tuple[Path, Nodes]:
        run = tmp_path / "run"
        api.on_create = nodes = Nodes(api, tmp_path, run / until if until else None)
        return Path(
            launch("train_rlvr", policy_json({"type": "answer"}, AnswerGrpo, **(SHAPE | config)), str(run), inputs)
        ), nodes

    return go


def test_two_nodes_train_through_a_preemption_and_one_process_writes(train, api):
    out, nodes = train(until="train_rlvr/checkpoint-2/trainer_state.json")
    assert nodes.jobs == 2
    rollouts = list(read_rows(out / "rollouts"))
    assert [row["step"] for row in rollouts] == [step for step in (1, 2, 3, 4) for _ in range(4 * GROUP)]
    assert (out / "model" / "model.safetensors").is_file()
    ledger = [json.loads(line) for line in (out.parent / "ledger.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in ledger] == ["train_rlvr"]
    assert not (out.parent / "error.json").exists()
    assert api.of(TRAIN_JOBS) == []


def test_what_the_nodes_refuse_is_the_stages_error(train):
    with pytest.raises(UserError, match=r"^prompts_per_step 3 does not divide over 2 processes"):
        train(prompts_per_step=3, group_size=GROUP)
