"""Ways to a store: through proxies, by the bucket's own host, without credentials, in Amazon's regions."""

import pytest
from object_store import ACCESS, SECRET, Line, environment, rclone_server

from rubricworks.errors import UserError
from rubricworks.storage import open_bucket
from rubricworks.storage.s3_settings import settings_from_environment

STORE = "http://s3.example.test"


@pytest.fixture
def through_proxy(line, monkeypatch):
    """The line to the store, as the proxy on the way to a host that only it knows."""
    for name in ("no_proxy", "NO_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", STORE)
    monkeypatch.setenv("http_proxy", line.url.replace("//", "//user:word@"))
    return line


def test_requests_go_through_the_proxy_of_the_environment(bucket, through_proxy):
    here = open_bucket(bucket)
    here.write("rows", b"content")
    assert here.read("rows") == b"content"
    name = bucket.removeprefix("s3://")
    assert {request.path.partition("?")[0] for request in through_proxy.requests} == {f"{STORE}/{name}/rows"}
    assert {request.headers["Proxy-Authorization"] for request in through_proxy.requests} == {"Basic dXNlcjp3b3Jk"}


def test_no_proxy_is_asked_for_an_exception(bucket, through_proxy, store, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", store)
    monkeypatch.setenv("no_proxy", "127.0.0.0/8")
    open_bucket(bucket).write("rows", b"content")
    assert through_proxy.requests == []


def test_the_bucket_is_in_the_name_of_the_host_where_that_is_set(no_waiting, monkeypatch, tmp_path):
    with rclone_server(tmp_path / "buckets", "--auth-key", f"{ACCESS},{SECRET}", "--force-path-style=false") as address:
        line = Line(address)
        (tmp_path / "buckets" / "pictures").mkdir()
        for name, value in environment(STORE).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("http_proxy", line.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setenv("RUBRICWORKS_S3_ADDRESSING", "virtual")
        here = open_bucket("s3://pictures/of/cats")
        here.write("rows", b"content")
        assert here.read("rows") == b"content"
        line.close()
    assert {request.path for request in line.requests} == {"http://pictures.s3.example.test/of/cats/rows"}


def test_a_public_bucket_is_read_without_credentials(no_waiting, monkeypatch, tmp_path):
    with rclone_server(tmp_path / "buckets", "--vfs-cache-mode=off") as address:
        line = Line(address)
        (tmp_path / "buckets" / "public").mkdir()
        (tmp_path / "buckets" / "public" / "rows").write_bytes(b"content")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_ENDPOINT_URL", line.url)
        monkeypatch.setenv("RUBRICWORKS_S3_ANONYMOUS", "true")
        here = open_bucket("s3://public")
        assert ([item.key for item in here.objects()], here.read("rows")) == (["rows"], b"content")
        line.close()
    assert {request.headers.get("Authorization") for request in line.requests} == {None}


@pytest.mark.parametrize(
    ("endpoint", "variable", "region"),
    [
        ("https://s3.eu-west-1.amazonaws.com", None, "eu-west-1"),
        ("https://s3.dualstack.eu-central-1.amazonaws.com", None, "eu-central-1"),
        ("https://s3-fips.us-gov-west-1.amazonaws.com", None, "us-gov-west-1"),
        ("https://s3.cn-north-1.amazonaws.com.cn", None, "cn-north-1"),
        ("https://bucket.vpce-1a2b-3c4d.s3.us-east-2.vpce.amazonaws.com", None, "us-east-2"),
        ("https://s3-ap-southeast-2.amazonaws.com", None, "ap-southeast-2"),
        ("https://s3.eu-west-1.amazonaws.com", "us-east-1", "eu-west-1"),
        ("https://s3.amazonaws.com", None, None),
        ("https://s3.amazonaws.com", "eu-west-3", "eu-west-3"),
        ("https://s3-accelerate.amazonaws.com", None, None),
        ("https://amazonaws.com.example.org", None, "us-east-1"),
        ("http://minio:9000", None, "us-east-1"),
    ],
)
def test_an_address_of_amazon_gives_the_region(endpoint, variable, region):
    values = {"AWS_ENDPOINT_URL_S3": endpoint} | ({"AWS_REGION": variable} if variable else {})
    assert settings_from_environment(values).region == region


def test_requests_to_amazon_go_to_the_region_and_the_bucket_of_the_host(monkeypatch):
    for name, value in environment("https://s3-eu-west-1.amazonaws.com").items():
        monkeypatch.setenv(name, value)
    client = open_bucket("s3://bucket/x")._client
    address = client._base_url.build(method="GET", region="eu-west-1", bucket_name="bucket", object_name="x")
    assert address.geturl() == "https://bucket.s3.eu-west-1.amazonaws.com/x"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"AWS_ENDPOINT_URL": "https://bucket.s3.eu-west-1.amazonaws.com"}, "write https://s3.REGION.amazonaws.com wi"),
        ({"AWS_REGION": "eu west"}, "AWS_REGION is wrong"),
        ({"RUBRICWORKS_S3_ADDRESSING": "host"}, "RUBRICWORKS_S3_ADDRESSING is 'host'; write path or virtual"),
        ({"RUBRICWORKS_S3_ANONYMOUS": "maybe"}, "RUBRICWORKS_S3_ANONYMOUS is 'maybe'; write false or true"),
    ],
)
def test_an_address_that_cannot_be_is_one_line(monkeypatch, values, message):
    for name, value in (environment("https://s3.amazonaws.com") | values).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=message):
        open_bucket("s3://bucket/x")


@pytest.mark.parametrize("code", ["AuthorizationHeaderMalformed", "PermanentRedirect"])
def test_a_bucket_of_another_region_is_told_with_what_to_set(bucket, line, code):
    line.fault = lambda request: (400, code)
    with pytest.raises(UserError, match="the bucket is in another region than us-east-1; set AWS_REGION"):
        open_bucket(bucket).write("rows", b"content")
