"""An Indexed Job from its making to its end, and a stage whose parts are real processes."""

import json
import os
import subprocess
import sys
import threading
import time
from io import BytesIO
from pathlib import Path

import pytest
from kubernetes_api import JOBS, KubernetesApi, ended
from PIL import Image
from scripted_server import fail, say

from rubricworks.data.tables import read_rows
from rubricworks.errors import StoppedAtBudget, UserError
from rubricworks.kubernetes import FAN_OUT
from rubricworks.kubernetes.config import FanOutConfig, FanOutPlan, PodPlan
from rubricworks.kubernetes.indexed_job import follow_indexed_job, indexed_job
from rubricworks.llm import Budget, write_budget
from rubricworks.llm.spending import read_spending
from rubricworks.runtime import launch as launching
from rubricworks.runtime.pods.fan_out import Part

POLL = 0.02
PLAN = FanOutPlan(fan_out=FanOutConfig(parts=4, at_once=2, wait_for_room=0.2), pod=PodPlan(image="cpu@sha256:1"))


def follow(cluster, work, plan=PLAN) -> tuple[list[int], list[str]]:
    done, lines = [], []
    follow_indexed_job(cluster, plan, work, 4, poll=POLL, on_progress=done.append, report=lines.append)
    return done, lines


def part(api: KubernetesApi, job: str, index: int, phase: str = "Running", **status) -> None:
    api.pod(f"{job}-{index}", {"batch.kubernetes.io/job-name": job}, phase, **status)


def test_every_part_is_tried_alone_and_a_preemption_costs_nothing(api, cluster, work):
    def controller(path: str, item: dict) -> None:
        spec = item["spec"]
        assert (spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]) == (4, 2, 3)
        assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore", "FailJob"]
        container = spec["template"]["spec"]["containers"][0]
        # In a mesh, the Job would wait for the sidecar, which never ends.
        assert spec["template"]["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
        assert container["command"][-2:] == ["--parts", "4"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        part(api, work.name, 1, "Failed", containerStatuses=ended(1, "lost its connection", name="main"))
        for succeeded in range(1, 5):
            api.status(path, succeeded=succeeded)
            time.sleep(3 * POLL)
        api.condition(path, "Complete")

    api.on_create = controller
    done, lines = follow(cluster, work)
    assert (done[-1], done) == (4, sorted(done))
    assert lines == [f"a part will be tried again: {work.name}-1: lost its connection"]
    assert api.of(JOBS) == []


def test_killed_pod_of_a_stage_watches_its_job_and_a_failed_job_is_made_anew(api, cluster, work):
    api.create(JOBS, indexed_job(PLAN, work, 4))
    threading.Timer(5 * POLL, lambda: api.condition(f"{JOBS}/{work.name}", "Complete")).start()
    follow(cluster, work)
    assert api.of(JOBS) == []

    jobs = []
    api.create(JOBS, {**_job(work.name, parts=4), "status": {"conditions": [{"type": "Failed", "status": "True"}]}})
    api.on_create = lambda path, item: (jobs.append(path), api.condition(path, "Complete"))
    follow(cluster, work)
    assert len(jobs) == 1


def _job(name: str, parts: int) -> dict:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    spec = {"completions": parts, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": {}}, "spec": spec}


def test_the_reason_of_a_part_is_the_stages_and_a_budget_stays_a_budget(api, cluster, work):
    words = json.dumps({"ours": True, "message": "stopped at the budget: 5 tokens", "more": "--set budget.tokens=…"})

    def controller(path: str, item: dict) -> None:
        part(api, work.name, 2, "Failed", containerStatuses=ended(2, words, name="main"))
        api.status(path, failedIndexes="2")
        api.condition(path, "Failed", "PodFailurePolicy")

    api.on_create = controller
    with pytest.raises(StoppedAtBudget, match=r"stopped at the budget: 5 tokens \(parts 2\)"):
        follow(cluster, work)
    assert api.of(JOBS) == []


def test_parts_that_find_no_node_end_the_wait(api, cluster, work):
    def controller(path: str, item: dict) -> None:
        lacks = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}
        part(api, work.name, 0, "Pending", conditions=[lacks])
        api.status(path, active=1)

    api.on_create = controller
    with pytest.raises(UserError, match=r"no part could start.*0/3 nodes fit"):
        follow(cluster, work)


@pytest.mark.parametrize(("total", "size", "parts"), [(10, 2, 3), (7, 3, 3), (64, 1, 7), (5, 5, 1)])
def test_parts_hold_every_item_once_in_order_and_whole_shards(total, size, parts):
    items = [list(Part(index, parts).items(range(total), total, size)) for index in range(parts)]
    assert [item for part in items for item in part] == list(range(total))
    assert [len(part) for part in items] == [Part(index, parts).size(total, size) for index in range(parts)]
    assert all(part[0] % size == 0 for part in items if part)


@pytest.fixture
def pods_are_processes(api, cluster, tmp_path, monkeypatch):
    """Each index of a Job becomes a process here; the plan reaches the stage as on a cluster."""
    started: list[subprocess.Popen] = []

    def controller(path: str, item: dict) -> None:
        name, count = item["metadata"]["name"], item["spec"]["completions"]
        container = item["spec"]["template"]["spec"]["containers"][0]
        succeeded = 0
        for index in range(count):
            words = tmp_path / f"words-{index}"
            variables = {"JOB_COMPLETION_INDEX": str(index), "RUBRICWORKS_LAST_WORDS": str(words)}
            inherited = {key: value for key, value in os.environ.items() if key != FAN_OUT}
            process = subprocess.Popen([sys.executable, *container["command"][1:]], env=inherited | variables)
            started.append(process)
            if process.wait() == 0:
                part(api, name, index, "Succeeded")
                succeeded += 1
                api.status(path, succeeded=succeeded)
                continue
            text = words.read_text() if words.exists() else ""
            part(api, name, index, "Failed", containerStatuses=ended(process.returncode, text, name="main"))
            api.condition(path, "Failed", "PodFailurePolicy")
            return
        api.condition(path, "Complete")

    api.on_create = controller
    plan = PLAN.model_copy(update={"fan_out": FanOutConfig(parts=2)})
    monkeypatch.setattr("rubricworks.kubernetes.indexed_job.follow_indexed_job", _quick)
    monkeypatch.setenv(FAN_OUT, plan.model_dump_json())
    return started


def _quick(*args, **options) -> None:
    follow_indexed_job(*args, **{**options, "poll": POLL})


def stage(run: Path, name: str, config: dict, **inputs: str) -> Path:
    return Path(launching.launch(name, json.dumps(config), str(run), inputs))


def pictures(folder: Path, count: int) -> str:
    folder.mkdir()
    for number in range(count):
        content = BytesIO()
        Image.new("RGB", (32, 24), (20 * number, 80, 120)).save(content, "PNG")
        (folder / f"{number}.png").write_bytes(content.getvalue())
    return str(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.cluster
def test_committee_spread_over_pods_writes_the_bytes_of_one_process(pods_are_processes, tmp_path, serve, monkeypatch):
    server = serve(lambda _, body: fail(400, "too large") if body["model"] == "bad" else say("a wall"))
    config = {"teachers": [{"url": server.url, "model": name} for name in ("good", "bad")], "shard_size": 2}
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    images = pictures(tmp_path / "images", 7)
    plan = os.environ[FAN_OUT]
    samples = str(stage(alone, "prepare", {"source": images, "held_out": 2}))
    with monkeypatch.context() as patch:
        patch.delenv(FAN_OUT)
        expected = stage(alone, "caption_committee", config, samples=samples)
    request_count = len(server.chats)
    write_budget(_output(shared), Budget(tokens=100_000))
    out = stage(shared, "caption_committee", config, samples=samples)
    assert os.environ[FAN_OUT] == plan
    assert files(out) == files(expected)
    assert len(pods_are_processes) == 2
    assert len(server.chats) == 2 * request_count, "every sample was asked about once more, by the parts"
    (good, bad) = (read_spending(run / "spending.sqlite") for run in (alone, shared))
    assert [(row["model"], row["calls"], row["errors"]) for row in good] == [
        (row["model"], row["calls"], row["errors"]) for row in bad
    ]
    assert not (shared / "parts").exists() or not list((shared / "parts").rglob("*.parquet"))


@pytest.mark.cluster
def test_recaptioning_spread_over_pods_writes_the_bytes_of_one_process(
    pods_are_processes, tmp_path, serve, monkeypatch
):
    server = serve([say("a wall")])
    sources = [pictures(tmp_path / name, count) for name, count in (("a", 3), ("b", 2), ("c", 4))]
    config = {"sources": sources, "captioners": [{"endpoint": {"url": server.url, "model": "m"}}]}
    with monkeypatch.context() as patch:
        patch.delenv(FAN_OUT)
        expected = stage(tmp_path / "alone", "recaption", config)
    out = stage(tmp_path / "shared", "recaption", config)
    assert files(out) == files(expected)
    assert len(pods_are_processes) == 2
    assert len(list(read_rows(out))) == 9


@pytest.mark.cluster
def test_part_at_its_share_of_the_budget_stops_the_stage_until_it_is_raised(pods_are_processes, tmp_path, serve):
    server = serve(lambda _, body: say("a wall", tokens=(10, 5)))
    config = {"teachers": [{"url": server.url, "model": "m", "max_tokens": 20}], "shard_size": 1}
    run = tmp_path / "run"
    samples = str(stage(run, "prepare", {"source": pictures(tmp_path / "images", 4), "held_out": 1}))
    write_budget(run, Budget(tokens=2_000))
    with pytest.raises(StoppedAtBudget, match="stopped at the budget"):
        stage(run, "caption_committee", config, samples=samples)
    assert json.loads((run / "error.json").read_text())["more"]
    write_budget(run, Budget(tokens=1_000_000))
    out = stage(run, "caption_committee", config, samples=samples)
    assert len(list(read_rows(out))) == 4


def _output(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.cluster
def test_a_stage_whose_items_hang_together_is_not_shared_out(pods_are_processes, tmp_path, serve):
    samples = str(stage(tmp_path / "run", "prepare", {"source": pictures(tmp_path / "images", 4), "held_out": 1}))
    url = serve([say("a wall")]).url
    committee = {"teachers": [{"url": url, "model": "m"}], "shard_size": 4}
    captions = str(stage(tmp_path / "run", "caption_committee", committee, samples=samples))
    config = {"writer": {"url": url, "model": "m"}, "shard_size": 1}
    with pytest.raises(UserError, match=r"synthesize_rubrics cannot be shared out over pods"):
        stage(tmp_path / "run", "synthesize_rubrics", config, samples=samples, captions=captions)
    assert pods_are_processes == []
