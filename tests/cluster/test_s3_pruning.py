"""Old runs taken out of a bucket, on a server that is not ours; rclone's own cannot be trusted with deletions."""

import json
from datetime import UTC, datetime, timedelta

import ceph_store
import object_store
import pytest

from rubricworks.runs.pruning import parse_age, prune_runs
from rubricworks.runs.store import PRUNED, open_run_store
from rubricworks.storage import open_bucket

pytestmark = pytest.mark.cluster

IN_A_YEAR = datetime.now(UTC) + timedelta(days=365)
DONE = {
    "recipe.yaml": "name: ours",
    "prepare/made_from.json": "{}",
    "prepare/done.json": "{}",
    "report/made_from.json": "{}",
    "report/done.json": "{}",
    "state/prepare/attempt.json": "{}",
    "outcome/outcome.json": json.dumps({"state": "SUCCEEDED"}),
}


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    if missing := ceph_store.missing():
        pytest.skip(f"{', '.join(missing)} not installed; tests/cluster/install.sh does it")
    with ceph_store.ceph_server(tmp_path / "ceph") as endpoint:
        for name, value in object_store.environment(endpoint).items():
            monkeypatch.setenv(name, value)
        name = object_store.bucket_name()
        whole = open_bucket(f"s3://{name}")
        whole._client.make_bucket(name)
        yield whole.below("runs")


def test_a_run_goes_whole_whether_it_ended_or_not_and_one_that_may_be_going_stays(bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MLflow makes its folder of artifacts where it is asked
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    half = {path: text for path, text in DONE.items() if path in ("recipe.yaml", "prepare/made_from.json")}
    start = {"prepare/done.json": "{}", PRUNED: "{}"}  # by a sweep that was killed
    for run, files in {"old": DONE, "half": half, "begun": start}.items():
        for path, content in files.items():
            bucket.write(f"{run}/{path}", content.encode())
    store = open_run_store(bucket.uri)
    soon = datetime.now(UTC) + timedelta(days=1)
    reasons = {run.run.name: run.keep_reason for run in prune_runs(store, parse_age("12h"), dry_run=False, now=soon)}
    assert reasons == {
        "old": "",
        "half": "it is unfinished, but was changed in the last 3 days: it may be going, or go on",
    }
    assert bucket.folders() == ["half"]
    assert sorted(item.key for item in bucket.objects()) == ["half/prepare/made_from.json", "half/recipe.yaml"]
    assert [run.keep_reason for run in prune_runs(store, parse_age("90d"), dry_run=False, now=IN_A_YEAR)] == [""]
    assert list(bucket.objects()) == []
