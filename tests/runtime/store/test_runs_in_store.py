"""Stages of a run in a store: what a lost machine had kept is taken up, whatever happens to the store meanwhile."""

import json
import shutil
from pathlib import Path

import pytest
from coloured_squares import squares

from rubricworks.errors import UserError
from rubricworks.llm import Budget, Usage, read_budget, write_budget
from rubricworks.llm.cache import CACHE_FILE, AnswerCache
from rubricworks.llm.spending import SPENDING_FILE, Spending, read_spending
from rubricworks.llm.usage import Totals
from rubricworks.runs.records import run_record
from rubricworks.runs.store import open_run_store
from rubricworks.runtime.job import Job
from rubricworks.runtime.launch import launch
from rubricworks.runtime.store.attempts import begin_attempt, read_index
from rubricworks.runtime.store.mirror import Mirror
from rubricworks.runtime.store.run_state import RunState
from rubricworks.runtime.store.workspace import Workspace, upload_run_files, workspace_path, workspace_uri
from rubricworks.storage import open_bucket


@pytest.fixture
def images(tmp_path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for number, (image, _, _) in enumerate(squares()):
        (folder / f"{number}.png").write_bytes(image)
    return folder


def config(images: Path | str, **more: object) -> str:
    return json.dumps({"source": str(images), "held_out": 3, "shard_size": 2, **more})


def stored(uri: str, stage: str) -> dict[str, bytes]:
    """Stored files of a stage, by path."""
    it = open_bucket(uri)
    return {item.key: it.read(item.key) for item in it.objects(f"{stage}/")}


def test_a_stage_makes_the_same_in_a_store_as_in_a_folder_and_is_not_made_twice(run, images, tmp_path, capfd):
    assert launch("prepare", config(images), run, {}) == f"{run}/prepare"
    origin = Path(launch("prepare", config(images), str(tmp_path / "local"), {}))
    local = {f"prepare/{path.relative_to(origin)}": path.read_bytes() for path in origin.rglob("*") if path.is_file()}
    assert stored(run, "prepare") == local
    shutil.rmtree(tmp_path / "workspace")
    capfd.readouterr()
    assert launch("prepare", config(images), run, {}) == f"{run}/prepare"
    assert "done in an earlier run" in capfd.readouterr().err


@pytest.mark.slow
def test_a_stage_made_from_something_else_replaces_what_is_there_and_keeps_it_aside(run, images, tmp_path):
    launch("prepare", config(images), run, {})
    before = stored(run, "prepare")
    shutil.rmtree(tmp_path / "workspace")
    launch("prepare", config(images, held_out=4), run, {})
    shutil.rmtree(tmp_path / "workspace")
    launch("prepare", config(images, held_out=5), run, {})
    asides = open_bucket(f"{run}/replaced").folders()
    assert len(asides) == 2
    files = {
        key.partition("/")[2]: content for aside in asides for key, content in stored(f"{run}/replaced", aside).items()
    }
    assert {key.partition("/")[2] for key in before} == set(files)
    assert json.loads(stored(run, "prepare")["prepare/.manifest.json"])["rows"] == 12


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [(500, "InternalError"), "drop"])
def test_a_store_that_fails_at_every_other_request_loses_nothing(run, images, line, tmp_path, trouble):
    count = {"requests": 0}

    def every_other(request):
        count["requests"] += 1
        return trouble if count["requests"] % 2 else None

    line.fault = every_other
    launch("prepare", config(images), run, {})
    line.fault = lambda request: None
    local = Path(launch("prepare", config(images), str(tmp_path / "local"), {}))
    assert stored(run, "prepare")["prepare/.manifest.json"] == (local / ".manifest.json").read_bytes()
    assert set(read_index(open_bucket(run), "prepare")) == set(stored(run, "prepare"))


def test_a_store_that_fills_up_stops_the_stage_and_what_it_took_is_gone_on_from(run, images, line, tmp_path):
    def full_at_the_third_shard(request):
        shard = "part-00002" in request.path or "index.json" in request.path
        return (403, "QuotaExceeded") if request.method == "PUT" and shard else None

    line.fault = full_at_the_third_shard
    with pytest.raises(
        UserError, match=r"the store is full \(QuotaExceeded\); make room .* what was committed is kept"
    ):
        launch("prepare", config(images), run, {})
    assert "prepare/done.json" not in stored(run, "prepare"), "nobody takes it for done"
    line.fault = lambda request: None
    launch("prepare", config(images), run, {})
    local = Path(launch("prepare", config(images), str(tmp_path / "local"), {}))
    assert stored(run, "prepare")["prepare/done.json"] == (local / "done.json").read_bytes()
    assert "state/prepare/error.json" not in {item.key for item in open_bucket(run).objects()}


def test_killed_stage_links_its_model_again_in_the_store(run, tmp_path):
    student = tmp_path / "student"
    student.mkdir()
    (student / "config.json").write_text("{}")
    passed_on = json.dumps({"student": str(student)})
    launch("warm_up", passed_on, run, {})
    done = stored(run, "warm_up")
    assert "warm_up/model/config.json" in done
    store = open_bucket(run)
    index = json.loads(store.read("state/warm_up/index.json"))
    del index["files"]["warm_up/done.json"]
    store.write("state/warm_up/index.json", json.dumps(index).encode())
    store.delete("warm_up/done.json")
    shutil.rmtree(tmp_path / "workspace")
    launch("warm_up", passed_on, run, {})
    assert (workspace_path(run) / "warm_up" / "model").resolve() == student
    assert stored(run, "warm_up") == done


def test_an_input_is_fetched_from_another_run_and_one_that_is_not_finished_is_named(run, images, bucket):
    with pytest.raises(UserError, match=rf"{run}/prepare: there is nothing here; run the stage"):
        Workspace("caption_committee", run, {"samples": f"{run}/prepare"}).fetch()
    first = launch("prepare", config(images), f"{bucket}/runs/first", {})
    open_bucket(f"{bucket}/runs/first").delete("prepare/done.json")
    index = json.loads(open_bucket(f"{bucket}/runs/first").read("state/prepare/index.json"))
    del index["files"]["prepare/done.json"]
    open_bucket(f"{bucket}/runs/first").write("state/prepare/index.json", json.dumps(index).encode())
    with pytest.raises(UserError, match=rf"{first}: the prepare stage has not finished; run it first"):
        Workspace("caption_committee", run, {"samples": first}).fetch()


def mirror_of(uri: str, stage: str) -> tuple[Mirror, Path]:
    it, folder = open_bucket(uri), workspace_path(uri)
    folder.mkdir(parents=True, exist_ok=True)
    state = RunState(it, folder, stage)
    return Mirror(it, folder, stage, begin_attempt(it, stage), read_index(it, stage), state), folder


def write(path: Path, content: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_what_is_half_written_is_in_no_index(run):
    mirror, folder = mirror_of(run, "train")
    out = folder / "train"
    write(out / "checkpoint-2" / "model.safetensors")
    write(out / "model.part" / "model.safetensors")
    write(out / ".alarm.json.1234.aside")
    write(out / ".model.1234.aside" / "config.json")
    write(out / "steps.jsonl", '{"step": 1}\n')
    mirror.push()
    assert set(read_index(open_bucket(run), "train")) == {"train/steps.jsonl"}
    write(out / "checkpoint-2" / "trainer_state.json", '{"global_step": 2}')
    mirror.push()
    assert set(read_index(open_bucket(run), "train")) == {
        "train/steps.jsonl",
        "train/checkpoint-2/model.safetensors",
        "train/checkpoint-2/trainer_state.json",
    }
    write(out / "checkpoint-4" / "model.safetensors")
    write(out / "checkpoint-4" / "trainer_state.json", '{"global_step": 4}')
    shutil.rmtree(out / "checkpoint-2")
    mirror.push()
    assert {path.split("/")[1] for path in stored(run, "train")} == {"steps.jsonl", "checkpoint-4"}


def test_a_kill_between_two_uploads_leaves_the_state_before_them(run, line):
    mirror, folder = mirror_of(run, "train")
    for name in ("model.safetensors", "trainer_state.json"):
        write(folder / "train" / "checkpoint-2" / name, '{"global_step": 2}')
    mirror.push()
    before = read_index(open_bucket(run), "train")
    for name in ("model.safetensors", "trainer_state.json"):
        write(folder / "train" / "checkpoint-4" / name, '{"global_step": 4}')
    shutil.rmtree(folder / "train" / "checkpoint-2")
    line.fault = lambda request: (403, "AccessDenied") if "checkpoint-4/trainer_state" in request.path else None
    with pytest.raises(UserError):
        mirror.push()
    line.fault = lambda request: None
    assert read_index(open_bucket(run), "train") == before
    assert set(before) <= set(stored(run, "train")), "what the index names is still there"


def test_an_attempt_that_was_taken_over_keeps_nothing_more(run):
    first, folder = mirror_of(run, "train")
    write(folder / "train" / "steps.jsonl")
    first.push()
    second, _ = mirror_of(run, "train")
    write(folder / "train" / "steps.jsonl", "of the first, cut off")
    with pytest.raises(UserError, match="a later attempt of train has taken over"):
        first.push()
    write(folder / "train" / "steps.jsonl", "of the second")
    second.push()
    assert stored(run, "train")["train/steps.jsonl"] == b"of the second"


def test_what_two_machines_spent_said_and_were_answered_comes_together_on_a_third(run, tmp_path):
    keys = {}
    for stage, tokens in (("caption_committee", 100), ("warm_up", 7)):
        folder = tmp_path / stage
        folder.mkdir()
        spending = Spending(folder / SPENDING_FILE, stage)
        totals = Totals()
        spending.open_account("caption", "m", totals)
        totals.calls, totals.prompt_tokens, totals.cost = 3, tokens, 0.5
        spending.close()
        cache = AnswerCache(folder / CACHE_FILE)
        keys[stage] = stage.encode().ljust(32, b"-")
        cache.put(keys[stage], "m", f'"answer of {stage}"')
        cache.close()
        (folder / "ledger.jsonl").write_text(json.dumps({"stage": stage, "seconds": 1.0}) + "\n")
        state = RunState(open_bucket(run), folder, stage)
        state.push("first")
        state.push("first")
    third = tmp_path / "third"
    third.mkdir()
    RunState(open_bucket(run), third, "warm_up").fetch(whole=False)
    RunState(open_bucket(run), third, "warm_up").fetch(whole=False)
    assert sorted(
        (row["stage"], row["prompt_tokens"], row["cost"]) for row in read_spending(third / SPENDING_FILE)
    ) == [
        ("caption_committee", 100, 0.5),
        ("warm_up", 7, 0.5),
    ]
    assert sorted(json.loads(line)["stage"] for line in (third / "ledger.jsonl").read_text().splitlines()) == [
        "caption_committee",
        "warm_up",
    ]
    cache = AnswerCache(third / CACHE_FILE)
    assert cache.get(keys["warm_up"]) == '"answer of warm_up"', "its own calls are not made again"
    cache.close()
    pieces = [item.key for item in open_bucket(f"{run}/state/warm_up").objects("answers/")]
    assert len(pieces) == 1, "an answer goes up once"


def test_the_progress_of_a_stage_on_another_machine_is_in_the_store_once_it_pushes(run, tmp_path):
    parent, _, name = run.rpartition("/")
    bucket, folder = open_bucket(run), tmp_path / "pod"
    bucket.write("recipe.yaml", b"name: x\n")
    bucket.write("train_policy/made_from.json", b"{}")
    job = Job(stage="train_policy", run=folder, out=folder / "train_policy", inputs={}, made_by={})
    job.progress(40, "steps")
    RunState(bucket, folder, "train_policy").push("a")
    (shown,) = run_record(open_run_store(parent), name).progress
    assert (shown.stage, shown.done, shown.total, shown.unit) == ("train_policy", 0, 40, "steps")


def test_a_budget_covers_what_other_machines_spend_meanwhile(run, tmp_path):
    local, remote = tmp_path / "here", tmp_path / "there"
    for folder in (local, remote):
        folder.mkdir()
        write_budget(folder, Budget(tokens=1000))
    mine = Spending(local / SPENDING_FILE, "evaluate", read_budget(local))
    assert mine.try_reserve(600, 0)
    mine.settle(600, 0, Usage())
    remote_spending, totals = Spending(remote / SPENDING_FILE, "train_policy"), Totals()
    remote_spending.open_account("judge", "m", totals)
    totals.calls, totals.prompt_tokens = 1, 900
    remote_spending.close()
    RunState(open_bucket(run), remote, "train_policy").push("a")
    RunState(open_bucket(run), local, "evaluate").fetch_spending()
    mine.write()
    assert not mine.try_reserve(600, 0)
    mine.close()


def test_images_of_a_store_are_read_as_if_they_lay_here_and_named_as_the_recipe_does(run, images, bucket, tmp_path):
    source, other = f"{bucket}/photographs", open_bucket(f"{bucket}/photographs")
    for path in images.iterdir():
        other.upload(path, path.name)
    launch("prepare", config(source), run, {})
    local = Path(launch("prepare", config(images), str(tmp_path / "local"), {}))
    from rubricworks.data.tables import read_rows

    rows = list(read_rows(workspace_path(run) / "prepare"))
    expected = list(read_rows(local))
    assert [row["image_digest"] for row in rows] == [row["image_digest"] for row in expected]
    assert [row["source"] for row in rows] == [row["source"].replace(str(images), source) for row in expected]
    other.delete("0.png")
    shutil.rmtree(workspace_path(run))
    launch("prepare", config(source, seed=1), f"{run}-again", {})
    assert len(list(read_rows(workspace_path(f"{run}-again") / "prepare"))) == len(expected) - 1
    with pytest.raises(UserError, match=r"nowhere: there is nothing here; name a file or a folder"):
        launch("prepare", config(f"{bucket}/nowhere"), run, {})


def test_what_is_said_of_a_run_is_fetched_before_its_stages(run, images, tmp_path):
    folder = workspace_path(run)
    write_budget(folder, Budget(tokens=5))
    upload_run_files(run)
    shutil.rmtree(tmp_path / "workspace")
    launch("prepare", config(images), run, {})
    assert read_budget(folder) == Budget(tokens=5)
    assert workspace_uri(folder) == run
    assert workspace_uri(tmp_path) is None
