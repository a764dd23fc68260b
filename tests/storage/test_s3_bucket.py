"""Objects over a real server, and over a line to it that breaks in every way that lines and servers do."""

import base64
import gzip
import hashlib
import io
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from minio import Minio
from object_store import ACCESS, SECRET, environment, rclone_server

from rubricworks.errors import UserError
from rubricworks.storage import check_storage, open_bucket
from rubricworks.storage.s3_errors import StoreFull
from rubricworks.storage.s3_settings import settings_from_environment

LARGE = 40 << 20


def test_what_is_written_is_listed_read_and_deleted_below_its_prefix_alone(bucket):
    outer, inner = open_bucket(bucket), open_bucket(f"{bucket}/runs/one")
    inner.write("samples/part-00000.parquet", b"rows")
    outer.write("runs/other", b"beside")
    assert [(item.key, item.size) for item in inner.objects()] == [("samples/part-00000.parquet", 4)]
    assert (inner.folders(), outer.below("runs").folders()) == (["samples"], ["one"])
    assert inner.read("samples/part-00000.parquet") == b"rows"
    inner.delete("samples/part-00000.parquet", "never there")
    assert not inner.exists("samples/part-00000.parquet")
    with pytest.raises(FileNotFoundError, match=f"{bucket}/runs/one/samples/part-00000.parquet"):
        inner.read("samples/part-00000.parquet")
    assert outer.read("runs/other") == b"beside"


@pytest.mark.parametrize(
    ("begin", "most", "expected", "asked"),
    [
        (0, 4, (b"6789", 6), "bytes=6-9"),
        (7, 4, (b"789", 7), "bytes=7-9"),
        (10, 4, (b"", 10), None),
        (12, 99, (b"0123456789", 0), "bytes=0-9"),
    ],
)
def test_the_end_of_an_object_is_read_alone(bucket, line, begin, most, expected, asked):
    here = open_bucket(bucket)
    here.write("log", b"0123456789")
    line.requests.clear()
    assert here.read_end("log", begin, most) == expected
    assert [request.headers.get("Range") for request in line.requests if request.method == "GET"] == [asked] * (
        asked is not None
    )
    with pytest.raises(FileNotFoundError, match=f"{bucket}/none"):
        here.read_end("none", 0, 1)


def test_an_object_larger_than_its_reader_takes_is_refused_and_not_read_to_its_end(bucket):
    here = open_bucket(bucket)
    here.write("large", b"x" * 3_000_000)
    assert len(here.read("large", 3_000_000)) == 3_000_000
    with pytest.raises(UserError, match=r"large has more than the 2 MB that are read"):
        here.read("large", 2 << 20)


@pytest.mark.slow
def test_a_listing_of_more_than_a_page_has_everything_once(monkeypatch, tmp_path):
    folder = tmp_path / "buckets" / "bucket" / "many"
    folder.mkdir(parents=True)
    for number in range(1_203):
        (folder / f"{number:04d}").touch()
    with rclone_server(tmp_path / "buckets") as endpoint:
        for name, value in environment(endpoint).items():
            monkeypatch.setenv(name, value)
        keys = [item.key for item in open_bucket("s3://bucket/many").objects()]
    assert keys == [f"{n:04d}" for n in range(1_203)]


def test_a_listing_of_folders_rests_after_each_page_for_as_long_as_it_is_told(monkeypatch, tmp_path):
    for number in range(2_100):
        (tmp_path / "buckets" / "bucket" / f"{number:04d}").mkdir(parents=True)
        (tmp_path / "buckets" / "bucket" / f"{number:04d}" / "file").touch()
    seconds, rests = iter(range(1_000)), []
    with rclone_server(tmp_path / "buckets") as endpoint:
        for name, value in environment(endpoint).items():
            monkeypatch.setenv(name, value)
        clock = SimpleNamespace(monotonic=lambda: next(seconds), sleep=rests.append)
        monkeypatch.setattr("rubricworks.storage.bucket.time", clock)
        names = open_bucket("s3://bucket").folders(rest=4.0)
    assert names == [f"{n:04d}" for n in range(2_100)]
    assert rests == [4.0, 4.0]


def test_an_object_that_must_be_new_is_left_alone_when_another_was_first(bucket, line):
    it = open_bucket(bucket)
    assert it.write("done.json", b"mine", only_new=True)
    assert any(request.headers.get("If-None-Match") == "*" for request in line.requests)
    assert it.write("done.json", b"mine", only_new=True), "the same content is no conflict"
    assert not it.write("done.json", b"theirs", only_new=True)
    assert it.read("done.json") == b"mine"


def test_a_lost_race_for_a_new_object_is_seen_where_the_server_knows_conditions(bucket, line, store):
    past_the_line = replace(settings_from_environment(), endpoint=store)

    def another_is_first(request):
        if request.method != "PUT":
            return None
        open_bucket(bucket, past_the_line).write("done.json", b"theirs")
        return 412, "PreconditionFailed"

    line.fault = another_is_first
    assert not open_bucket(bucket).write("done.json", b"mine", only_new=True)


@pytest.mark.parametrize("trouble", [(500, "InternalError"), (503, "SlowDown"), "drop", "drop answer", "cut"])
def test_reads_and_writes_outlast_a_server_that_fails_for_a_while(bucket, line, trouble):
    failing = {"left": 4}

    def sometimes(request):
        failing["left"] -= 1
        return trouble if failing["left"] >= 0 else None

    line.fault = sometimes
    it = open_bucket(bucket)
    it.write("a", b"content" * 1000)
    failing["left"] = 3
    assert it.read("a") == b"content" * 1000
    failing["left"] = 3
    assert [item.key for item in it.objects()] == ["a"]


@pytest.mark.slow
def test_a_large_file_goes_up_in_parts_over_a_line_that_drops_and_arrives_whole(bucket, line, tmp_path):
    source = tmp_path / "model.safetensors"
    source.write_bytes(os.urandom(LARGE))
    dropped = {"left": 3}

    def drop_some(request):
        if "partNumber" in request.path and dropped["left"]:
            dropped["left"] -= 1
            return "drop answer"
        return None

    line.fault = drop_some
    it = open_bucket(bucket)
    assert it.upload(source, "model.safetensors") == hashlib.sha256(source.read_bytes()).hexdigest()
    assert sum("partNumber" in request.path for request in line.requests) == 3 + 3

    cut = {"left": 2}

    def cut_some(request):
        cut["left"] -= 1
        return "cut" if cut["left"] >= 0 else None

    line.fault, line.requests[:] = cut_some, []
    it.download("model.safetensors", tmp_path / "back" / "model.safetensors")
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == source.read_bytes()
    ranges = [request.headers.get("Range") for request in line.requests]
    assert ranges[0] is None, "it goes on where it broke, and does not begin anew"
    assert len(set(ranges)) == 3
    assert [path.name for path in (tmp_path / "back").iterdir()] == ["model.safetensors"]


def test_completing_parts_twice_because_the_answer_was_lost_is_no_error(bucket, line, tmp_path):
    source = tmp_path / "big"
    source.write_bytes(os.urandom(LARGE))
    failures = {"left": 1}

    def lose_the_last_answer(request):
        if request.method == "POST" and "uploadId" in request.path and failures["left"]:
            failures["left"] -= 1
            return "drop answer"
        return None

    line.fault = lose_the_last_answer
    it = open_bucket(bucket)
    it.upload(source, "big")
    assert it.read("big") == source.read_bytes()


def test_damage_on_the_way_is_noticed_and_read_again_and_lasting_damage_is_said(bucket, line, tmp_path):
    it = open_bucket(bucket)
    it.write("part-00000.parquet", b"rows")
    damaged = {"left": 1}

    def damage(request):
        damaged["left"] -= 1
        return "damage" if damaged["left"] >= 0 else None

    line.fault = damage
    assert it.read("part-00000.parquet") == b"rows"
    damaged["left"] = 10_000
    with pytest.raises(UserError, match=r"part-00000.parquet is damaged: its (sha256|MD5)"):
        it.download("part-00000.parquet", tmp_path / "here")
    assert list(tmp_path.iterdir()) == []


def test_an_object_that_is_stored_gzip_encoded_is_read_as_it_is_stored(bucket, line, store, tmp_path):
    stored = gzip.compress(b"rows " * 100_000)
    name = bucket.removeprefix("s3://")
    theirs = Minio(store.removeprefix("http://"), ACCESS, SECRET, secure=False, region="us-east-1")
    theirs.put_object(name, "rows.jsonl", io.BytesIO(stored), len(stored))
    ours = open_bucket(bucket)
    ours.write("ours", stored)
    line.fault = lambda request: "gzip" if request.method == "GET" else None
    assert {ours.read(key) == stored for key in ("rows.jsonl", "ours")} == {True}
    ours.download("rows.jsonl", tmp_path / "rows")
    assert (tmp_path / "rows").read_bytes() == stored
    assert ours.read_end("rows.jsonl", 0, 100) == (stored[-100:], len(stored) - 100)


def test_a_full_store_is_said_at_once_and_takes_the_same_again_when_there_is_room(bucket, line):
    line.fault = lambda request: (403, "QuotaExceeded") if request.method == "PUT" else None
    it = open_bucket(bucket)
    with pytest.raises(StoreFull, match=r"the store is full .*make room .*what was committed is kept"):
        it.write("a", b"x")
    assert len(line.requests) == 1, "nobody waits for room"
    line.fault = lambda request: None
    it.write("a", b"x")
    assert it.read("a") == b"x"


def test_a_server_that_never_answers_is_named_after_the_patience(bucket, line):
    line.fault = lambda request: "drop"
    with pytest.raises(UserError, match=rf"{bucket}/a cannot be read: {line.url} did not answer for 60 s"):
        open_bucket(bucket).read("a")


def test_a_check_says_what_is_wrong_before_anything_runs(bucket, line, monkeypatch, tmp_path):
    assert "can be written" in check_storage(f"{bucket}/runs")
    assert list(open_bucket(bucket).objects()) == []
    assert "can be written" in check_storage(f"file://{tmp_path}/runs")
    assert list((tmp_path / "runs").iterdir()) == []
    with pytest.raises(UserError, match="there is no bucket 'nowhere'"):
        check_storage("s3://nowhere/runs")
    line.fault = lambda request: (403, "ExpiredToken")
    with pytest.raises(UserError, match=r"credentials have expired \(ExpiredToken\); renew them"):
        check_storage(bucket)
    line.fault = lambda request: (403, "AccessDenied") if request.method == "PUT" else None
    with pytest.raises(UserError, match="may not be written with these S3 credentials"):
        check_storage(bucket)
    line.fault = lambda request: None
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another secret")
    with pytest.raises(UserError, match=r"credentials are not valid .*SignatureDoesNotMatch") as caught:
        check_storage(bucket)
    assert "another secret" not in str(caught.value)


def test_nothing_that_is_local_is_taken_for_a_bucket():
    for wrong in ("s3://", "s3:///runs", "s3://Bucket/x", "s3://b/x", "s3://bucket/../x"):
        with pytest.raises(UserError, match=r"write s3://bucket/folder"):
            open_bucket(wrong)


def test_a_kept_key_encrypts_every_request_and_is_in_no_repr(bucket, line, monkeypatch):
    key = base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
    monkeypatch.setenv("RUBRICWORKS_S3_SSE", "c")
    monkeypatch.setenv("RUBRICWORKS_S3_SSE_KEY", key)
    assert "0123456789" not in repr(settings_from_environment())
    it = open_bucket(bucket)
    it.write("a", b"x")
    it.read("a")
    keys = [request.headers.get("X-Amz-Server-Side-Encryption-Customer-Key") for request in line.requests]
    assert keys == [key] * len(keys)


def test_a_download_with_no_room_says_so(bucket, disk):
    it = open_bucket(bucket)
    it.write("big", os.urandom(2 << 20))
    disk.fill(leaving=1 << 16)
    with pytest.raises(UserError, match=r"cannot be written: No space left on device; make room in the workspace"):
        it.download("big", disk.path / "big")
