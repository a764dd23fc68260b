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
from drawing_stages import drawing_stage
from kubernetes_api import CONFLICT, EVENTS, JOBS, NO_ACCOUNT, PODS, QUOTA, JobController, KubernetesApi, ended
from PIL import Image
from scripted_server import fail, say

from rubricworks.data.tables import read_rows
from rubricworks.errors import StoppedAtBudget, TransientError, UserError
from rubricworks.kubernetes import FAN_OUT
from rubricworks.kubernetes.config import FanOutConfig, FanOutPlan, PodPlan
from rubricworks.kubernetes.indexed_job import follow_indexed_job, indexed_job
from rubricworks.llm import Budget, write_budget
from rubricworks.llm.spending import read_spending
from rubricworks.runtime import launch as launching
from rubricworks.runtime.pods.fan_out import Part

POLL = 0.02
PLAN = FanOutPlan(fan_out=FanOutConfig(parts=4, at_once=2, wait_for_room=0.2), pod=PodPlan(image="cpu@sha256:1"))


SUCCEEDED = ("Succeeded", {})


def follow(cluster, work, plan=PLAN, **options) -> tuple[list[int], list[str]]:
    done, lines = [], []
    options = {"poll": POLL, "on_progress": done.append, "report": lines.append} | options
    follow_indexed_job(cluster, plan, work, 4, **options)
    return done, lines


def failed(message: str, code: int = 1, reason: str = "Error") -> tuple[str, dict]:
    return "Failed", {"containerStatuses": ended(code, message, reason, name="main")}


def part(api: KubernetesApi, job: str, index: int, phase: str = "Running", **status) -> None:
    labels = {"batch.kubernetes.io/job-name": job, "batch.kubernetes.io/job-completion-index": str(index)}
    api.pod(f"{job}-{index}", labels, phase, **status)


def test_every_part_is_tried_alone_and_a_preemption_costs_nothing(api, cluster, work):
    taken = ("Failed", {"conditions": [{"type": "DisruptionTarget", "status": "True", "message": "preempted"}]})
    play = JobController(
        api,
        lambda index, attempt: {(1, 0): failed("lost its connection"), (2, 0): taken}.get((index, attempt), SUCCEEDED),
    )

    def controller(path: str, item: dict) -> None:
        spec = item["spec"]
        assert (spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]) == (4, 2, 3)
        assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore", "FailJob"]
        pod = spec["template"]["spec"]
        assert pod["enableServiceLinks"] is False, "a Service named vllm would set VLLM_PORT"
        # In a mesh, the Job would wait for the sidecar, which never ends.
        assert spec["template"]["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
        assert pod["containers"][0]["command"][-2:] == ["--parts", "4"]
        assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
        play(path, item)

    api.on_create = controller
    done, lines = follow(cluster, work)
    assert (done[-1], done) == (4, sorted(done))
    assert sorted(lines) == [
        f"a part will be tried again: {work.name}-1-00000: lost its connection",
        f"a part will be tried again: {work.name}-2-00000: preempted",
    ]
    assert api.of(JOBS) == []


def test_a_part_that_failed_is_blamed_not_one_that_then_succeeded(api, cluster, work):
    lines: list[str] = []
    first_failure_seen = threading.Event()

    def run(index: int, attempt: int) -> tuple[str, dict]:
        if index == 0 and attempt == 0:
            return failed("", 137, "OOMKilled")
        if index == 3 and attempt == 1:
            assert first_failure_seen.wait(60)
        return failed(f"no answer of the judge, attempt {attempt}") if index == 3 else SUCCEEDED

    def report(line: str) -> None:
        lines.append(line)
        if line.endswith("attempt 0"):
            first_failure_seen.set()

    api.on_create = JobController(api, run)
    plan = PLAN.model_copy(update={"fan_out": FanOutConfig(parts=4, at_once=2, retries=1)})
    with pytest.raises(UserError) as raised:
        follow(cluster, work, plan, report=report)
    assert str(raised.value) == f"{work.name}-3-00001: no answer of the judge, attempt 1 (parts 3)"
    (again,) = [line for line in lines if "attempt" in line and "will be tried again" in line]
    assert again.endswith("attempt 0")
    # The Job may have failed before the last attempt is seen; then the error tells it.
    assert [line for line in lines if "attempt 1" in line] in (
        [],
        [f"a part failed for good: {raised.value}"[: -len(" (parts 3)")]],
    )


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (QUOTA, r"no part could start in 0 seconds: pods are refused: exceeded quota: compute, .*resourcequota"),
        (NO_ACCOUNT, r'no part could start in 0 seconds: pods are refused: .*serviceaccount "workers" not found'),
    ],
)
def test_pods_that_are_refused_end_the_wait_with_the_reason(api, cluster, work, reason, message):
    waits: list[str] = []
    api.on_create = JobController(api, lambda *_: SUCCEEDED, refuse_pod=lambda index: reason)
    with pytest.raises(TransientError, match=message):
        follow(cluster, work, on_waiting=waits.append)
    assert len(waits) == 1
    assert reason in waits[0]
    assert api.of(JOBS) == []


def test_parts_that_wait_for_a_quota_are_reported_while_others_run(api, cluster, work):
    waits: list[str] = []
    told, polled = threading.Event(), threading.Event()

    def refuse(index: int) -> str | None:
        if not index or told.is_set():
            return None
        polled.clear()
        assert polled.wait(60), "the pod of the first part is seen before the others are refused"
        return QUOTA

    def note_poll(method: str, path: str) -> None:
        if path == PODS:
            polled.set()

    def on_waiting(message: str) -> None:
        waits.append(message)
        told.set()

    running = threading.Event()

    def run(index: int, attempt: int) -> tuple[str, dict]:
        if index == 0:
            running.set()
            return "Running", {}
        return SUCCEEDED

    def controller(path: str, item: dict) -> None:
        def end_the_first() -> None:
            running.wait(300)
            told.wait(300)
            time.sleep(20 * POLL)  # longer than wait_for_room: a part that runs makes progress
            api.status(f"{PODS}/{work.name}-0-00000", phase="Succeeded")

        threading.Thread(target=end_the_first, daemon=True).start()
        JobController(api, run, refuse_pod=refuse)(path, item)

    api.on_create, api.refuse = controller, note_poll
    done, lines = follow(cluster, work, on_waiting=on_waiting)
    assert done[-1] == 4
    assert waits[0].startswith("1 of 2 parts wait: pods are refused: exceeded quota")
    assert waits[-1] == "", "it waits no longer"
    assert [line for line in lines if "exceeded quota" in line] == [waits[0]]


def test_no_pods_and_no_events_end_the_wait(api, cluster, work):
    # The role of an earlier version may not list events.
    for refused in (None, (403, 'events is forbidden: User "x" cannot list resource "events"')):
        api.refuse = lambda method, path, refused=refused: refused if path == EVENTS else None
        with pytest.raises(TransientError, match=rf"there is no pod.*kubectl -n team describe job {work.name}"):
            follow(cluster, work)


def test_parts_in_a_queue_are_not_parts_without_pods(api, cluster, work):
    def queued(path: str, item: dict) -> None:
        api.objects[path]["spec"]["suspend"] = True
        time.sleep(20 * POLL)
        api.condition(path, "Complete")

    api.on_create = queued
    assert follow(cluster, work) == ([0], [])


def test_conflicts_are_tried_again_and_refusals_name_quota_policy_or_rights(api, cluster, work):
    conflicts = iter([(409, CONFLICT)] * 2)
    api.refuse = lambda method, path: next(conflicts, None) if method == "POST" else None
    api.on_create = JobController(api, lambda *_: SUCCEEDED)
    assert follow(cluster, work)[0][-1] == 4

    quota = f'jobs.batch "{work.name}" is forbidden: {QUOTA}'
    api.refuse = lambda method, path: (403, quota) if method == "POST" else None
    with pytest.raises(TransientError, match=r"exceeded quota.*kubectl describe resourcequota") as raised:
        follow(cluster, work)
    assert "role" not in str(raised.value)

    policy = f'jobs.batch "{work.name}" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
    api.refuse = lambda method, path: (403, policy) if method == "POST" else None
    with pytest.raises(UserError, match=r"violates PodSecurity.*mend the recipe's cluster section") as raised:
        follow(cluster, work)
    assert "role" not in str(raised.value)

    rights = 'jobs.batch is forbidden: User "system:serviceaccount:team:x" cannot create resource "jobs"'
    api.refuse = lambda method, path: (403, rights) if method == "POST" else None
    with pytest.raises(UserError, match=r"cannot create resource.*chart's role"):
        follow(cluster, work)


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
@pytest.mark.parametrize("stage_name", ["offline_filter", "genrm_data"])
def test_stage_that_draws_responses_is_spread_over_pods_which_load_the_model(
    pods_are_processes, tmp_path, serve, monkeypatch, stage_name
):
    from rubricworks.training import engine

    config, inputs = drawing_stage(tmp_path, serve, stage_name)
    with monkeypatch.context() as patch:
        patch.delenv(FAN_OUT)
        expected = stage(tmp_path / "alone", stage_name, config, **inputs)

    def refuse(*_, **__):
        raise AssertionError("the pod that merges the parts loads no model")

    monkeypatch.setattr(engine, "load_engine", refuse)
    out = stage(tmp_path / "shared", stage_name, config, **inputs)
    assert files(out) == files(expected)
    assert len(pods_are_processes) == 2
    assert len(list(read_rows(out))) > 4


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
