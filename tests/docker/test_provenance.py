"""Provenance of images: the statement, by in-toto's own reader, and its signature."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from locks import ROOT

IMAGE_DIGEST, WHEEL_DIGEST, BASE_DIGEST, COMMIT = "1a" * 32, "2b" * 32, "3c" * 32, "4d" * 20


@pytest.fixture
def write(tmp_path):
    """Writes the statement as docker/build.sh does, and returns it with the program's end."""

    def write(**settings: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "api.cdx.json").write_text("{}")
        (tmp_path / "api.wheel.sha256").write_text(f"{WHEEL_DIGEST}  /wheel/rubricworks-0.2.0-py3-none-any.whl\n")
        environment = {
            "BASE": f"docker.io/library/python:3.11@sha256:{BASE_DIGEST}",
            "COMMAND": "docker/build.sh api",
            "ENGINE": "podman",
            "REVISION": COMMIT,
            "VERSION": "0.2.0",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            **settings,
        }
        arguments = [tmp_path, "api", "registry.example/team/api", f"sha256:{IMAGE_DIGEST}"]
        program = [sys.executable, ROOT / "docker" / "provenance.py", *arguments]
        return subprocess.run(program, capture_output=True, text=True, check=False, env=environment)

    return write


def test_statement_names_commit_base_locks_command_and_digests_of_image_and_wheel(write, tmp_path):
    assert write().returncode == 0
    statement = json.loads((tmp_path / "api.provenance.json").read_text())
    assert {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]} == {
        "registry.example/team/api": IMAGE_DIGEST,
        "rubricworks-0.2.0-py3-none-any.whl": WHEEL_DIGEST,
    }
    definition = statement["predicate"]["buildDefinition"]
    digests = {source.get("uri") or source["name"]: source["digest"] for source in definition["resolvedDependencies"]}
    assert digests.pop("git+https://github.com/rubricworks/rubricworks") == {"gitCommit": COMMIT}
    assert digests.pop("docker://docker.io/library/python:3.11") == {"sha256": BASE_DIGEST}
    names = ("Dockerfile", "build.sh", "requirements-api.txt", "requirements-tools.txt")
    assert digests == {
        f"docker/{name}": {"sha256": hashlib.sha256((ROOT / "docker" / name).read_bytes()).hexdigest()}
        for name in names
    }
    assert definition["externalParameters"]["command"] == "docker/build.sh api"
    assert definition["internalParameters"] == {"filesDifferFromCommit": False}


def test_image_of_changed_files_says_that_its_commit_is_not_all(write, tmp_path):
    assert write(REVISION=f"{COMMIT}-changed").returncode == 0
    definition = json.loads((tmp_path / "api.provenance.json").read_text())["predicate"]["buildDefinition"]
    assert definition["internalParameters"] == {"filesDifferFromCommit": True}
    assert definition["resolvedDependencies"][0]["digest"] == {"gitCommit": COMMIT}


def test_statement_is_one_that_in_toto_and_slsa_read(write, tmp_path):
    pytest.importorskip(
        "in_toto_attestation", reason="not installed: model-signing; install constraints.txt anew (make)"
    )
    from google.protobuf import json_format
    from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
    from in_toto_attestation.v1.statement import Statement
    from in_toto_attestation.v1.statement_pb2 import Statement as Message

    assert write().returncode == 0
    content = json.loads((tmp_path / "api.provenance.json").read_text())
    message = json_format.ParseDict(content, Message())
    Statement.copy_from_pb(message).validate()
    read = json_format.ParseDict(content["predicate"], Provenance())
    assert read.build_definition.build_type.endswith("/docker/build.sh")
    assert read.run_details.builder.id.endswith("#podman")


def test_statement_and_list_of_packages_are_signed_with_a_key_only(write, tmp_path):
    pytest.importorskip("model_signing", reason="not installed: model-signing; install constraints.txt anew (make)")
    assert write().returncode == 0
    assert [*tmp_path.glob("*.sig")] == []
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    (tmp_path / "key.pub").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    done = write(RUBRICWORKS_SIGNING_KEY=pem)
    assert done.returncode == 0, done.stderr

    def verified(name: str) -> int:
        command = [sys.executable, "-m", "model_signing", "verify", "key", tmp_path / name]
        options = ["--signature", tmp_path / f"{name}.sig", "--public_key", tmp_path / "key.pub"]
        return subprocess.run([*command, *options], capture_output=True, check=False).returncode

    assert {name: verified(name) for name in ("api.cdx.json", "api.provenance.json")} == {
        "api.cdx.json": 0,
        "api.provenance.json": 0,
    }
    (tmp_path / "api.cdx.json").write_text('{"components": []}')
    assert verified("api.cdx.json") == 1


def test_key_that_does_not_sign_ends_the_build_in_one_line(write):
    pytest.importorskip("model_signing", reason="not installed: model-signing; install constraints.txt anew (make)")
    done = write(RUBRICWORKS_SIGNING_KEY="/not/there.pem")
    reason = "/not/there.pem: No such file or directory; name a PEM file, or give its content"
    assert (done.returncode, done.stderr) == (1, f"error: RUBRICWORKS_SIGNING_KEY: {reason}\n")
