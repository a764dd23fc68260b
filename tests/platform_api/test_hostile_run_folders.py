"""Run folders of strangers: whatever one holds, every page answers, and no other run, file or reader is harmed."""

import json
import logging
import os
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hostile_runs import mutate
from served_api import exchange, served, wait_for_rollouts
from trained_run import STAGE
from whole_run import write_whole_run

from rubricworks.llm.cache import CACHE_FILE, AnswerCache
from rubricworks.llm.spending import SPENDING_FILE, merge_spending
from rubricworks.platform_api.app import ROUTERS
from rubricworks.platform_api.services.judgements.labels import response_digest
from rubricworks.platform_api.settings import ApiSettings

SECRET = "the-secret-of-somebody-else"
SECRETS = (SECRET.encode(), f"PATH={os.environ['PATH']}".encode())
"""Contents of a file beside the runs, and of this process's environment."""
STAGES = {
    "rubrics": "synthesize_rubrics",
    "rubric-audit": "synthesize_rubrics",
    "scores": "score",
    "audit": "audit",
}
"""Part of a route's path → the stage that it is about; others are about a training."""
VALUES = {"step": "1", "sample_id": "a", "digest": "0" * 64}
ASKED = {
    "exchange": f"?response={response_digest('a star')}",
    "flips": "?criterion=Names the star",
    "standing": "?first=judge in {run}/train_policy&second=judge in good-1/train_policy",
    "compare-judges": "?with=good-1",
    "compare": "?before_set=good-1/synthesize_rubrics",
    "diff": "?before_set=good-1/synthesize_rubrics",
}
"""Last part of a route's path → its question."""
LAST = "zz-last"
"""A good run that is indexed after all others."""
MOST_BYTES = 400 * 1024 * 1024


def addresses(run: str) -> list[str]:
    """Everything that can be read of a run."""
    paths = []
    for route in (route for router in ROUTERS for route in router.routes):
        # A file that is taken along is sent as it is, however large.
        if "GET" not in route.methods or "{run}" not in route.path or route.path.endswith(("/events", "/artifact")):
            continue
        parts = route.path.split("/")
        stage = next((STAGES[part] for part in parts if part in STAGES), STAGE)
        path = route.path.format(**VALUES, run=run, stage=stage)
        paths.append((path + ASKED.get(parts[-1], "").format(run=run)).replace(" ", "%20"))
    paths += [f"/runs/{run}?tab={tab}" for tab in ("curves", "costs", "recipe", "artifacts")]
    paths += [f"/runs/{run}/responses/{STAGE}?{query}" for query in ("text=a", "truncated=true", "sort=reward")]
    paths += [f"{page}?run={run}&run=good-1" for page in ("/api/v1/comparison", "/compare-runs")]
    return [*paths, f"/api/v1/leaderboard?run={run}", f"/leaderboard?run={run}"]


def write_runs(folder: Path, count: int) -> None:
    """A good run, and others with something in every kind of file, before anything is done to them."""
    template = write_whole_run(folder, "good-1")
    row = {"stage": "prepare", "purpose": "caption", "model": "m", "errors": {"transport": 2}}
    figures = {"calls": 3, "cached": 1, "requests": 4, "prompt_tokens": 50, "completion_tokens": 9, "cost": 0.5}
    merge_spending(template / SPENDING_FILE, [row | figures | {"seconds": 2.0, "cached_tokens": 0}])
    cache = AnswerCache(template / CACHE_FILE)
    cache.put(b"key", "m", "{}")
    cache.close()
    for path, value in (
        ("budget.json", {"tokens": 10**6, "dollars": 5.0}),
        ("error.json", {"stage": STAGE, "message": "no room", "seconds": 4.0}),
        ("source.json", {"simulated": True}),
        ("reuse.json", {"runs": ["/runs/other-1"]}),
        ("tracking/settings.json", {"config": {"uri": "http://mlflow.test"}}),
        ("tracking/pipeline.delivered.json", {"run": "a1"}),
        (f"state/{STAGE}/progress.json", {"done": 1, "total": 2, "unit": "steps", "rate": 1.0, "seconds_left": None}),
        (f"state/{STAGE}/attempt.json", {"attempt": "1"}),
    ):
        (template / path).parent.mkdir(parents=True, exist_ok=True)
        (template / path).write_text(json.dumps(value))
    for name in (*(f"odd-{number}" for number in range(count)), LAST):
        shutil.copytree(template, folder / name)


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    """Keep no log: pytest would hold every error with the rows that it was about, which no service does."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@contextmanager
def memory() -> Iterator[list[int]]:
    """Largest resident memory of this process within the block, beyond what it was before."""
    begin, peak, ended = _resident(), [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            peak[0] = max(peak[0], _resident() - begin)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check(tmp_path: Path, count: int, change, *, pages: int | None = None) -> None:
    """Change each of several runs, read everything of all, and compare what is not theirs with what it was.

    Args:
        pages: number of pages that are read of each, in turn; None for all.
    """
    runs, beside = tmp_path / "runs", tmp_path / "beside"
    beside.mkdir()
    (beside / "secret").write_text(SECRET)
    write_runs(runs, count)
    done = {f"odd-{number}": change(runs / f"odd-{number}", beside, number) for number in range(count)}
    problems = []
    with served(ApiSettings(storage=str(runs), index_seconds=0.05)) as url, memory() as peak:
        wait_for_rollouts(url, "good-1")
        wait_for_rollouts(url, LAST)
        for name, what in done.items():
            for path in addresses(name):
                status, _, body = exchange(url + path)
                if status >= 500 or any(secret in body for secret in SECRETS):
                    problems.append(f"{name} ({what}): {path}: {status} {body[:300]!r}")
        good = [exchange(url + path)[0] for path in addresses("good-1")]
    assert problems == []
    assert max(good) < 500
    assert good.count(200) > 0.8 * len(good)
    assert (beside / "secret").read_text() == SECRET
    assert sorted(path.name for path in beside.iterdir()) == ["secret"]
    assert peak[0] < MOST_BYTES


def mutations(seed: int):
    return lambda run, beside, number: mutate(run, beside, random.Random(f"{seed}-{number}"))


def test_no_mutation_of_a_run_harms_its_readers(tmp_path):
    check(tmp_path, 100, mutations(1), pages=13)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_mutation_of_many_runs_harms_their_readers(seed, tmp_path):
    check(tmp_path, 200, mutations(seed))
