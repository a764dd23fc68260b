"""The store on a server of another make, and a stage that is in the middle of its work when that server fails."""

import base64
import gzip
import io
import json
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import ceph_store
import object_store
import pytest
from minio import Minio
from object_store import ACCESS, SECRET, Line

from rubricworks.errors import UserError
from rubricworks.storage import check_storage, open_bucket
from rubricworks.storage.s3_settings import settings_from_environment

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def ceph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if programs := ceph_store.missing():
        pytest.skip(f"{', '.join(programs)} not installed; tests/cluster/install.sh does it")
    with ceph_store.ceph_server(tmp_path_factory.mktemp("ceph")) as address:
        yield address


@pytest.fixture
def line(ceph: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    line = Line(ceph)
    for name, value in object_store.environment(line.url).items():
        monkeypatch.setenv(name, value)
    yield line
    line.close()


@pytest.fixture
def bucket(ceph: str, line: Line) -> str:
    return object_store.make_bucket(ceph)


def test_parts_checksums_and_listings_are_those_of_any_server(bucket, tmp_path):
    it, source = open_bucket(f"{bucket}/runs"), tmp_path / "model.safetensors"
    source.write_bytes(os.urandom(40 << 20))
    it.upload(source, "model.safetensors")
    it.download("model.safetensors", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    (item,) = it.objects()
    assert (item.size, item.etag[-2:]) == (40 << 20, "-3"), "it went up in three parts"
    assert "can be written" in check_storage(f"{bucket}/runs")
    with pytest.raises(UserError, match="there is no bucket"):
        check_storage("s3://nowhere-at-all/runs")


def test_an_object_stored_gzip_encoded_is_whole_and_public_ones_need_no_key(bucket, ceph, monkeypatch, tmp_path):
    name, stored = bucket.removeprefix("s3://"), gzip.compress(b'{"caption": "a red circle"}')
    theirs = Minio(ceph.removeprefix("http://"), ACCESS, SECRET, secure=False, region="us-east-1")
    theirs.put_object(name, "rows.jsonl", io.BytesIO(stored), len(stored), metadata={"Content-Encoding": "gzip"})
    with urllib.request.urlopen(theirs.presigned_get_object(name, "rows.jsonl")) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
    assert open_bucket(bucket).read("rows.jsonl") == stored
    open_bucket(bucket).download("rows.jsonl", tmp_path / "rows")
    assert (tmp_path / "rows").read_bytes() == stored
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    monkeypatch.setenv("RUBRICWORKS_S3_ANONYMOUS", "true")
    with pytest.raises(UserError, match="may not be read with these S3 credentials"):
        open_bucket(bucket).read("rows.jsonl")
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{name}/*"}
    theirs.set_bucket_policy(name, json.dumps({"Version": "2012-10-17", "Statement": [everybody]}))
    assert open_bucket(bucket).read("rows.jsonl") == stored


def test_of_two_that_write_the_same_new_object_one_is_first(bucket):
    it, won = open_bucket(bucket), []
    barrier = threading.Barrier(8)

    def write(number: int) -> None:
        barrier.wait()
        won.extend([number] if it.write("done.json", b"%d" % number, only_new=True) else [])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [it.read("done.json")] == [b"%d" % number for number in won]


def test_parts_that_a_killed_upload_left_are_dropped(bucket):
    it = open_bucket(f"{bucket}/runs")
    it._client._create_multipart_upload(bucket.removeprefix("s3://"), "runs/left", {})
    assert it.delete_unfinished_uploads() == 1
    assert it.delete_unfinished_uploads() == 0


def test_what_a_key_of_ones_own_encrypted_is_read_with_it_alone(bucket, monkeypatch, tmp_path):
    monkeypatch.setenv("RUBRICWORKS_S3_SSE", "c")
    monkeypatch.setenv("RUBRICWORKS_S3_SSE_KEY", base64.b64encode(os.urandom(32)).decode())
    it, source = open_bucket(bucket), tmp_path / "model"
    source.write_bytes(os.urandom(33 << 20))
    it.write("small", b"content")
    it.upload(source, "large")
    assert it.read("small") == b"content"
    assert it.read("large") == source.read_bytes()
    monkeypatch.delenv("RUBRICWORKS_S3_SSE")
    with pytest.raises(UserError, match="encrypted with a key of one's own"):
        open_bucket(bucket).read("small")
    assert "SSE_KEY" not in repr(settings_from_environment())


def test_stage_loses_nothing_when_the_store_fails_for_thirty_seconds(bucket, line, tmp_path, monkeypatch):
    from coloured_squares import squares

    from rubricworks.runtime.launch import launch
    from rubricworks.stages.data import prepare

    images = tmp_path / "images"
    images.mkdir()
    for number, (image, _, _) in enumerate(squares()):
        (images / f"{number}.png").write_bytes(image)
    monkeypatch.setenv("RUBRICWORKS_WORKSPACE", str(tmp_path / "workspace"))
    monkeypatch.setenv("RUBRICWORKS_PUSH_SECONDS", "0.2")
    monkeypatch.setenv("RUBRICWORKS_S3_PATIENCE", "180")
    config = json.dumps({"source": str(images), "held_out": 3, "shard_size": 2})
    down = {"until": 0.0, "failed": 0}

    def fail(request):
        if "part-00001" in request.path and not down["until"]:
            down["until"] = time.monotonic() + 30
        if time.monotonic() < down["until"]:
            down["failed"] += 1
            return ((500, "InternalError"), "drop")[down["failed"] % 2]
        return None

    line.fault = fail
    assert launch(prepare.__name__.rpartition(".")[2], config, f"{bucket}/runs/one", {}) == f"{bucket}/runs/one/prepare"
    assert down["failed"] > 3
    local = Path(launch("prepare", config, str(tmp_path / "local"), {}))
    it = open_bucket(f"{bucket}/runs/one")
    objects = {item.key.removeprefix("prepare/"): it.read(item.key) for item in it.objects("prepare/")}
    assert objects == {
        path.relative_to(local).as_posix(): path.read_bytes() for path in local.rglob("*") if path.is_file()
    }
