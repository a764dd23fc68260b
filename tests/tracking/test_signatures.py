"""Signed models: registered on a real MLflow, fetched by command, and verified by OpenSSF's own command line."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from rubricworks.cli import main
from rubricworks.errors import UserError
from rubricworks.storage import files_digest
from rubricworks.tracking import TrackingConfig, connect, registry, stage_connection
from rubricworks.tracking.signatures import KEY_VARIABLE, SIGNATURE_FILE, sign, verify

pytest.importorskip("mlflow")
pytest.importorskip("model_signing", reason="not installed: model-signing; install constraints.txt anew (make)")
pytestmark = pytest.mark.slow
FILES = {"config.json": '{"model_type": "x"}', "processor/vocab.txt": "red blue"}


class Key:
    """A key pair in PEM, as text and as files."""

    def __init__(self, folder: Path, curve: ec.EllipticCurve) -> None:
        key = ec.generate_private_key(curve)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self.private, self.public = folder / f"{curve.name}.pem", folder / f"{curve.name}.pub"
        self.private.write_bytes(pem)
        self.public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Key:
    return Key(tmp_path_factory.mktemp("ours"), ec.SECP256R1())


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> Key:
    return Key(tmp_path_factory.mktemp("theirs"), ec.SECP384R1())


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "model"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory, model, ours, theirs) -> Path:
    """A folder of runs whose registry has a champion that our key signed, one of another key, and one of none."""
    folder = tmp_path_factory.mktemp("installation") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
            patch.delenv(name, raising=False)
        connection, run = stage_connection(folder / "demo", "promote")
        for name, key in {"captioner": ours.private, "foreign": theirs.private, "unsigned": ""}.items():
            patch.setenv(KEY_VARIABLE, str(key))
            (model / "config.json").write_text(json.dumps({"model_type": name}))
            version = registry.register(connection, model, name, run=run, tags={})
            registry.promote(connection, name, version.version, expected=None)
    return folder


@pytest.fixture
def version(runs, monkeypatch):
    """Connection and champion of a model."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def version(name: str):
        connection = connect(TrackingConfig(), runs)
        return connection, registry.champion(connection, name)

    return version


@pytest.fixture
def stored(version):
    """Folder of a champion's artifacts; what a test changes there is put back."""
    before = {}

    def stored(name: str) -> Path:
        folder = Path(urlsplit(version(name)[1].source).path)
        before.update({path: path.read_bytes() for path in folder.rglob("*") if path.is_file()})
        return folder

    yield stored
    for folder in {path.parent for path in before}:
        for path in folder.iterdir():
            if path.is_file() and path not in before:
                path.unlink()
    for path, content in before.items():
        path.write_bytes(content)


@pytest.fixture
def fetch(runs, tmp_path, monkeypatch, capsys):
    """Fetches a champion by command with a key; returns its configuration, or the line of the refusal."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def fetch(name: str, key: object) -> str:
        monkeypatch.setenv(KEY_VARIABLE, str(key))
        out = tmp_path / "fetched" / "model"
        with pytest.raises(SystemExit) as ended:
            main(["fetch", name, str(out), "--runs", str(runs)])
        if ended.value.code:
            assert [*out.parent.iterdir()] == [], "a refused model leaves nothing"
            return capsys.readouterr().err.removesuffix("\n")
        files = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.is_file()}
        shutil.rmtree(out)
        assert files.keys() == FILES.keys()
        return files["config.json"]

    return fetch


def test_version_that_was_registered_with_a_key_is_fetched_with_either_half_of_it(fetch, ours):
    config = '{"model_type": "captioner"}'
    assert fetch("captioner", ours.public) == config
    assert fetch("captioner", ours.public.read_text()) == config, "the key's text, as a Secret gives it"
    assert fetch("captioner", ours.private) == config
    assert fetch("captioner", "") == config


def test_command_line_of_the_signatures_format_verifies_a_registered_model(stored, ours, theirs):
    artifacts = stored("captioner")

    def verified(key: Key) -> int:
        command = [sys.executable, "-m", "model_signing", "verify", "key", registry.model_files(artifacts)]
        options = ["--signature", artifacts / SIGNATURE_FILE, "--public_key", key.public]
        return subprocess.run([*command, *options], capture_output=True, check=False).returncode

    assert verified(ours) == 0
    assert verified(theirs) == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unsigned", "the model of unsigned version 1 has no signature"),
        ("foreign", f"the model of foreign version 1 is not what the key of {KEY_VARIABLE} signed (Key mismatch"),
    ],
)
def test_model_that_another_key_signed_or_none_is_refused_in_one_line(fetch, ours, name, reason):
    refused = fetch(name, ours.public)
    assert reason in refused
    assert "\n" not in refused


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("model/config.json", "{}", "Hash mismatch for 'config.json'"),
        ("model/modeling.py", "import os", "Extra files found in model 'model': modeling.py"),
        (SIGNATURE_FILE, "{}", "is not what the key"),
        (SIGNATURE_FILE, "", "is not what the key"),
    ],
)
def test_changed_files_and_damaged_signatures_are_refused(fetch, stored, version, ours, path, content, reason):
    artifacts = stored("captioner")
    (artifacts / path).write_text(content)
    # Whoever writes the registry writes the tag of the digest, too.
    connection, champion = version("captioner")
    files = registry.model_files(artifacts)
    registry.tag(connection, champion, {registry.DIGEST_TAG: files_digest(files.rglob("*"), files)})
    try:
        refused = fetch("captioner", ours.public)
    finally:
        registry.tag(connection, champion, {registry.DIGEST_TAG: champion.tags[registry.DIGEST_TAG]})
    assert reason in refused
    assert "\n" not in refused


def test_signature_of_another_version_is_refused(fetch, stored, ours):
    artifacts = stored("unsigned")
    shutil.copy(stored("captioner") / SIGNATURE_FILE, artifacts / SIGNATURE_FILE)
    assert "Hash mismatch for 'config.json'" in fetch("unsigned", ours.public)


def test_loaded_by_mlflow_a_model_without_the_keys_signature_is_refused(stored, ours, monkeypatch):
    pytest.importorskip("torch")
    from rubricworks.training.mlflow_model import _load_pyfunc

    monkeypatch.setenv(KEY_VARIABLE, str(ours.public))
    with pytest.raises(UserError, match=f"not what the key of {KEY_VARIABLE} signed"):
        _load_pyfunc(str(registry.model_files(stored("foreign"))))


def test_a_public_key_signs_nothing(model, tmp_path, ours, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, str(ours.public))
    with pytest.raises(UserError, match="is a public key, which verifies only"):
        sign(model, tmp_path / SIGNATURE_FILE)


def test_keys_that_cannot_be_used_are_one_line_each(model, tmp_path, monkeypatch):
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    cases = {
        "/not/there.pem": f"{KEY_VARIABLE}: /not/there.pem: No such file or directory",
        "-----BEGIN NONSENSE-----": "is no PEM of a key without a password",
        locked.decode(): "is no PEM of a key without a password",
        other.decode(): "is no elliptic-curve key of P-256, P-384 or P-521",
    }
    for value, message in cases.items():
        monkeypatch.setenv(KEY_VARIABLE, value)
        with pytest.raises(UserError) as refused:
            sign(model, tmp_path / SIGNATURE_FILE)
        assert message in str(refused.value)
        assert len(str(refused.value).splitlines()) == 1
        with pytest.raises(UserError):
            verify(model, model, "the model")


def test_where_the_package_of_signatures_is_missing_a_key_is_not_passed_over(model, tmp_path, ours, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, str(ours.private))
    monkeypatch.setitem(sys.modules, "model_signing", None)
    for work in (sign, lambda path, signature: verify(path, signature, "the model")):
        with pytest.raises(UserError, match=r"signatures need: pip install 'rubricworks\[signing\]'"):
            work(model, tmp_path / SIGNATURE_FILE)
