"""MLflow behind TLS: its own variables for certificates hold for our check of the server as for its client."""

import ssl
from pathlib import Path

import pytest
from certificates import tls_contexts
from mlflow_server import mlflow_stand_in

from rubricworks.errors import TransientError, UserError
from rubricworks.tracking import TrackingConfig, check_tracking, connect

pytest.importorskip("mlflow")
pytestmark = pytest.mark.slow


@pytest.fixture
def contexts(tmp_path, monkeypatch) -> tuple[ssl.SSLContext, Path]:
    """A server's context, and the certificate that it shows and that signs those of its clients."""
    for name in ("SERVER_CERT_PATH", "CLIENT_CERT_PATH", "INSECURE_TLS", "USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    context, _ = tls_contexts(tmp_path, "localhost")
    (tmp_path / "client.pem").write_bytes((tmp_path / "cert.pem").read_bytes() + (tmp_path / "key.pem").read_bytes())
    return context, tmp_path


@pytest.mark.parametrize(
    "variables",
    [
        {"MLFLOW_TRACKING_SERVER_CERT_PATH": "cert.pem"},
        {"REQUESTS_CA_BUNDLE": "cert.pem"},
        {"MLFLOW_TRACKING_INSECURE_TLS": "true"},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_a_server_is_trusted_as_mlflow_trusts_it(contexts, tmp_path, monkeypatch, variables):
    context, folder = contexts
    for name, value in variables.items():
        monkeypatch.setenv(name, value if value == "true" else str(folder / value))
    with mlflow_stand_in(context) as port:
        connection = connect(TrackingConfig(uri=f"https://localhost:{port}"), tmp_path)
    assert connection.experiment_id == "7"


def test_a_server_that_asks_for_a_certificate_is_shown_mlflows(contexts, tmp_path, monkeypatch):
    context, folder = contexts
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(folder / "cert.pem")
    monkeypatch.setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", str(folder / "cert.pem"))
    with mlflow_stand_in(context) as port:
        config = TrackingConfig(uri=f"https://localhost:{port}")
        with pytest.raises(UserError, match="MLFLOW_TRACKING_CLIENT_CERT_PATH to the certificate that it asks for"):
            check_tracking(config, tmp_path)
        monkeypatch.setenv("MLFLOW_TRACKING_CLIENT_CERT_PATH", str(folder / "client.pem"))
        assert connect(config, tmp_path).experiment_id == "7"


def test_a_server_that_is_not_trusted_is_one_line_with_what_to_set(contexts, tmp_path):
    with mlflow_stand_in(contexts[0]) as port, pytest.raises(UserError) as refused:
        check_tracking(TrackingConfig(uri=f"https://localhost:{port}"), tmp_path)
    assert "set MLFLOW_TRACKING_SERVER_CERT_PATH (or REQUESTS_CA_BUNDLE)" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not isinstance(refused.value, TransientError)


@pytest.mark.parametrize(
    "answer",
    [
        (401, b"You are not authenticated. Please see the documentation"),
        (403, b'{"error_code": "PERMISSION_DENIED", "message": "Permission denied"}'),
        (403, b"<html><h1>403 Forbidden</h1></html>"),
    ],
)
def test_refused_access_is_no_passing_trouble(tmp_path, answer):
    with mlflow_stand_in(answer=answer) as port, pytest.raises(UserError) as refused:
        connect(TrackingConfig(uri=f"http://localhost:{port}"), tmp_path)
    assert f"(HTTP {answer[0]}): access is refused; grant it, or correct MLFLOW_TRACKING_USERNAME" in str(refused.value)
    assert not isinstance(refused.value, TransientError)
