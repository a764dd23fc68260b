"""Two projects in one bucket of Ceph's gateway, each with its own keys: the store refuses what is the other's."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ceph_store import add_user, ceph_server, missing
from object_store import environment
from operations_guide import blocks, carry_out
from peer_folders import PEERS
from trained_run import write_run

from rubricworks.errors import UserError
from rubricworks.runs.store import open_run_store
from rubricworks.storage import check_storage, open_bucket
from rubricworks.storage.s3_client import create_client
from rubricworks.storage.s3_settings import settings_from_environment

pytestmark = pytest.mark.cluster

POLICY = Path(__file__).parents[2] / "docs" / "project-policy.json"
"""The policy of docs/operations.md, for the project `captions` of the bucket `rubricworks`."""


def aws(folder: Path) -> dict[str, str]:
    """Variables by which a block finds Amazon's client."""
    if shutil.which("aws"):
        return {}
    if not (PEERS / "awscli").is_dir():
        pytest.skip("no aws; tests/cluster/install.sh installs it")
    (folder / "bin").mkdir()
    program = folder / "bin" / "aws"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={PEERS}/awscli exec {sys.executable} -P -m awscli "$@"\n')
    program.chmod(0o755)
    return {"PATH": str(program.parent)}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[dict[str, dict[str, str]]]:
    """Project → environment of its pods. Each has one run below its prefix."""
    if missing():
        pytest.skip(f"{', '.join(missing())}: not installed; tests/cluster/install.sh does it")
    folder = tmp_path_factory.mktemp("ceph")
    with ceph_server(folder) as address, pytest.MonkeyPatch.context() as patch:
        projects = {}
        for name in ("captions", "images"):
            access, secret = add_user(folder, name)
            keys = {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}
            projects[name] = environment(address) | keys
        for name, value in environment(address).items():
            patch.setenv(name, value)
        client = create_client(settings_from_environment())
        client.make_bucket("rubricworks")
        owner = open_bucket("s3://rubricworks")
        statements = [
            statement
            for name in projects
            for statement in json.loads(POLICY.read_text().replace("captions", name))["Statement"]
        ]
        (folder / "project-policy.json").write_text(json.dumps({"Version": "2012-10-17", "Statement": statements}))
        script, _ = blocks()["Give a project its own keys"]
        carry_out(script, environment(address) | aws(folder), folder)
        assert json.loads(client.get_bucket_policy("rubricworks"))["Statement"] == statements
        for name in projects:
            run = write_run(folder / name, "today")
            for file in run.rglob("*"):
                if file.is_file():
                    owner.below(f"{name}/runs/today").write(str(file.relative_to(run)), file.read_bytes())
        yield projects


@pytest.fixture
def captions(store, monkeypatch) -> None:
    for name, value in store["captions"].items():
        monkeypatch.setenv(name, value)


def test_a_project_reads_writes_and_lists_below_its_own_prefix(captions) -> None:
    assert check_storage("s3://rubricworks/captions/runs")
    runs = open_run_store("s3://rubricworks/captions/runs")
    assert runs.names() == ["today"]
    assert runs.read("today", "recipe.yaml")
    open_bucket("s3://rubricworks/captions/runs/next").write("a.txt", b"a")
    runs.delete("next")
    assert runs.names() == ["today"]


OTHER = "s3://rubricworks/images/runs"
WORK = {
    "list": lambda: open_run_store(OTHER).names(),
    "read": lambda: open_bucket(f"{OTHER}/today").read("recipe.yaml"),
    "write": lambda: open_bucket(f"{OTHER}/today").write("recipe.yaml", b"mine"),
    "delete": lambda: open_run_store(OTHER).delete("today"),
}


@pytest.mark.parametrize("work", WORK)
def test_the_store_refuses_what_is_below_the_other_projects_prefix(captions, work: str) -> None:
    with pytest.raises(UserError, match=r"AccessDenied|may not|refuses") as refused:
        WORK[work]()
    assert "\n" not in str(refused.value)


def test_nothing_of_the_other_project_was_changed(store, monkeypatch) -> None:
    for name, value in store["images"].items():
        monkeypatch.setenv(name, value)
    runs = open_run_store("s3://rubricworks/images/runs")
    assert runs.names() == ["today"]
    assert b"mine" not in runs.read("today", "recipe.yaml")
