"""Address and credentials of the store: from the environment, files, and exchanged tokens."""

import http.server
import threading
import urllib.parse
from collections.abc import Iterator

import pytest

from rubricworks.errors import UserError
from rubricworks.storage import join, open_bucket
from rubricworks.storage.s3_settings import settings_from_environment
from rubricworks.storage.uris import s3_place

TOKEN = "a-token-of-the-service-account"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch, tmp_path):
    import os

    for name in list(os.environ):
        if name.startswith(("AWS_", "MINIO_", "RUBRICWORKS_S3_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


class Exchange:
    """A token service that gives what it is told to."""

    def __init__(self, access: str, secret: str) -> None:
        self.asked: list[dict[str, str]] = []
        self.status = 200
        exchange = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                exchange.asked.append(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query)))
                self.send_response(exchange.status)
                self.end_headers()
                self.wfile.write(
                    "<AssumeRoleWithWebIdentityResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'>"
                    "<AssumeRoleWithWebIdentityResult><Credentials>"
                    f"<AccessKeyId>{access}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>"
                    "<SessionToken></SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>"
                    "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>".encode()
                )

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    from object_store import ACCESS, SECRET

    service = Exchange(ACCESS, SECRET)
    yield service
    service.close()


def test_the_nearest_name_of_the_endpoint_counts(monkeypatch):
    assert settings_from_environment({}).endpoint == "https://s3.amazonaws.com"
    values = {"AWS_ENDPOINT_URL": "http://a:1"}
    assert settings_from_environment(values).endpoint == "http://a:1"
    assert settings_from_environment({**values, "AWS_ENDPOINT_URL_S3": "http://b"}).endpoint == "http://b"
    assert settings_from_environment({**values, "RUBRICWORKS_S3_ENDPOINT": "https://c/"}).endpoint == "https://c"
    assert settings_from_environment({**values, "AWS_REGION": "eu-west-1"}).region == "eu-west-1"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"AWS_ENDPOINT_URL": "minio:9000"}, "AWS_ENDPOINT_URL: not the address"),
        ({"AWS_ENDPOINT_URL": "http://key:word@minio"}, "AWS_ENDPOINT_URL: not the address"),
        ({"RUBRICWORKS_S3_CA_FILE": "/nowhere/ca.pem"}, "no such file of certificates"),
        ({"RUBRICWORKS_S3_SSE": "aes"}, "write s3, kms:KEY-ID or c"),
        ({"RUBRICWORKS_S3_SSE": "c", "RUBRICWORKS_S3_SSE_KEY": "c2hvcnQ="}, "needs 32 bytes"),
        ({"RUBRICWORKS_S3_PATIENCE": "long"}, "how many seconds"),
    ],
)
def test_a_setting_that_cannot_be_is_named_and_no_secret_is_repeated(values, message):
    with pytest.raises(UserError, match=message) as error:
        settings_from_environment(values)
    assert "word" not in str(error.value)
    assert "c2hvcnQ" not in str(error.value)


def test_encryption_asks_the_server_for_what_was_set(monkeypatch):
    from rubricworks.storage.s3_client import create_encryption

    assert create_encryption(settings_from_environment({})) is None
    kms = create_encryption(settings_from_environment({"RUBRICWORKS_S3_SSE": "kms:key-7"})).headers()
    assert kms["X-Amz-Server-Side-Encryption"] == "aws:kms"
    assert kms["X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"] == "key-7"
    plain = create_encryption(settings_from_environment({"RUBRICWORKS_S3_SSE": "s3"})).headers()
    assert plain == {"X-Amz-Server-Side-Encryption": "AES256"}


def test_no_credentials_and_half_of_them_are_said_with_what_to_set(monkeypatch):
    with pytest.raises(UserError, match="no credentials for the S3 store; set AWS_ACCESS_KEY_ID"):
        open_bucket("s3://bucket/x")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "only")
    with pytest.raises(UserError, match="only one is set"):
        open_bucket("s3://bucket/x")


def test_credentials_of_a_file_are_read_again_when_they_were_changed(bucket_of_all, monkeypatch, tmp_path):
    from object_store import ACCESS, SECRET

    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "team")
    it = open_bucket(bucket_of_all)
    with pytest.raises(UserError, match=f"{file} holds no access key and secret of the profile 'team'"):
        it.read("a")
    file.write_text(f"[team]\naws_access_key_id = {ACCESS}\naws_secret_access_key = wrong\n")
    with pytest.raises(UserError, match="not valid"):
        it.write("a", b"x")
    file.write_text(f"[team]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n")
    it.write("a", b"x")
    assert it.read("a") == b"x"


def test_a_service_accounts_token_is_exchanged_for_credentials(bucket_of_all, exchange, monkeypatch, tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/trainer")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", exchange.url)
    it = open_bucket(bucket_of_all)
    it.write("a", b"x")
    assert it.read("a") == b"x"
    assert [(request["WebIdentityToken"], request["RoleArn"]) for request in exchange.asked] == [
        (TOKEN, "arn:aws:iam::1:role/trainer")
    ]


def test_a_token_that_is_refused_is_not_repeated_in_the_error(bucket_of_all, exchange, monkeypatch, tmp_path):
    exchange.status = 403
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/trainer")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", exchange.url)
    with pytest.raises(UserError, match=r"could not be exchanged .*HTTP 403") as error:
        open_bucket(bucket_of_all).read("a")
    assert TOKEN not in "".join(map(str, (error.value, error.value.__cause__, error.value.__context__)))


@pytest.fixture
def bucket_of_all(store, monkeypatch) -> str:
    """A bucket that nobody has credentials for yet."""
    from object_store import make_bucket

    monkeypatch.setenv("AWS_ENDPOINT_URL", store)
    return make_bucket(store)


def test_uris_are_put_together_and_taken_apart():
    assert join("s3://bucket/runs/", "one", "samples") == "s3://bucket/runs/one/samples"
    assert join("/data/runs", "one") == "/data/runs/one"
    assert s3_place("s3://bucket//runs/one/") == ("bucket", "runs/one")
