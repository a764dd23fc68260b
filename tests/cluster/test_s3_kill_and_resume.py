"""A run that lives in a store: stages killed with -9 and their workspace lost go on to what an unstopped run makes."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import object_store
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
from kills import continued_after, differing, products
from tiny_run import TINY, Run, settings

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]

STAGES = [
    *("prepare", "warm_up", "caption_student", "caption_committee", "synthesize_rubrics", "train_policy", "score"),
    "promote",
]
# What the store must hold of a stage before it is killed: some of its work, and not all.
KILLS = {
    "warm_up": "warm_up/checkpoint-2/trainer_state.json",
    "train_policy": "train_policy/checkpoint-2/trainer_state.json",
    "score": "score/scores/part-00000.parquet",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "buckets"
    (folder / "models").mkdir(parents=True)
    with object_store.rclone_server(folder) as endpoint:
        yield folder / "models", endpoint


def test_stages_killed_with_their_workspace_lost_end_as_if_nothing_had_happened(tmp_path, store):
    bucket, endpoint = store
    whole = tmp_path / "whole"
    tracked = {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/whole.db"}
    Run(whole, "quickstart", *settings(TINY), "--run", "it", env=tracked).finish()

    workspace, run = tmp_path / "workspace", bucket / "runs" / "it"
    environment = {
        **object_store.environment(endpoint),
        "RUBRICWORKS_WORKSPACE": str(workspace),
        "RUBRICWORKS_PUSH_SECONDS": "0.1",
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/cut.db",
    }
    arguments, output, left = ["quickstart", *settings(TINY), "--run", "it"], "", dict(KILLS)
    logs = tmp_path / "logs"
    while left:
        process = Run(logs, *arguments, env=environment, place="s3://models/runs")
        stage = process.wait_for_one({stage: lambda p=path, s=stage: exists(run, s, p) for stage, path in left.items()})
        process.kill_everything()
        process.wait_until_gone()
        del left[stage]
        assert not exists(run, stage, f"{stage}/done.json"), f"{stage} was done before it was killed"
        output += process.output
        shutil.rmtree(workspace)
        arguments = ["--resume", "it"]
    output += Run(logs, *arguments, env=environment, place="s3://models/runs").finish()

    assert differing(products(run, STAGES), products(whole / "it", STAGES)) == []
    assert continued_after("warm-up", output)[0] >= 2
    assert continued_after("policy", output)[0] >= 2
    assert (run / "report.html").is_file()
    # Every stage's time is told, though no machine saw all of them.
    summary, expected = (json.loads((folder / "summary.json").read_text()) for folder in (run, whole / "it"))
    assert summary["seconds"].keys() == expected["seconds"].keys()
    for name in ("seconds", "run"):
        del summary[name], expected[name]
    assert summary == expected


def exists(run: Path, stage: str, path: str) -> bool:
    """Return True if the index of a stage, on the store's own disk, names a file."""
    try:
        return path in json.loads((run / "state" / stage / "index.json").read_text())["files"]
    except (OSError, ValueError):
        return False
