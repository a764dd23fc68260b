import subprocess

import pytest
from kubeflow_api import FakeKubeflow
from kubeflow_stand_in import compiled_pipeline

import rubricworks
from rubricworks.errors import UserError
from rubricworks.kubeflow.connection import connect
from rubricworks.kubeflow.versions import push, revision_of
from rubricworks.recipe.kubeflow import KubeflowConfig


@pytest.fixture
def fake():
    with FakeKubeflow() as fake:
        yield fake


@pytest.fixture
def kubeflow(fake):
    return connect(KubeflowConfig(url=fake.url))


def test_a_version_is_named_by_its_content_and_revision(kubeflow, fake, tmp_path):
    version = push(kubeflow, compiled_pipeline(tmp_path), revision="g0123abc")
    record = fake.only("versions")
    digest = record["description"].split("sha256:")[1][:64]
    assert version.name == record["name"] == f"small-{digest[:12]}-g0123abc"
    assert version.uploaded
    assert (version.version_id, version.pipeline_id) == (
        record["pipeline_version_id"],
        fake.only("pipelines")["pipeline_id"],
    )
    platform = record["pipeline_spec"]["platform_spec"]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert platform["exec-first"]["nodeSelector"]["labels"] == {"pool": "gpu"}


def test_the_same_content_is_uploaded_once(kubeflow, fake, tmp_path):
    first = push(kubeflow, compiled_pipeline(tmp_path), revision="g0123abc")
    again = push(kubeflow, compiled_pipeline(tmp_path), revision="g0123abc")
    assert not again.uploaded
    assert again.version_id == first.version_id
    other = push(kubeflow, compiled_pipeline(tmp_path, cpu="4"), revision="g0123abc")
    assert other.uploaded
    assert other.pipeline_id == first.pipeline_id
    assert len(fake.kept["versions"]) == 2
    assert len(fake.kept["pipelines"]) == 1


def test_a_version_is_found_on_a_later_page(kubeflow, fake, tmp_path):
    for number in range(fake.page_size + 2):
        push(kubeflow, compiled_pipeline(tmp_path, cpu=str(number + 1)), revision="g0123abc")
    last = list(fake.kept["versions"])[-1]
    again = push(kubeflow, compiled_pipeline(tmp_path, cpu=str(fake.page_size + 2)), revision="g0123abc")
    assert again.version_id == last


def test_a_name_that_other_content_has_is_refused(kubeflow, fake, tmp_path):
    push(kubeflow, compiled_pipeline(tmp_path), revision="g0123abc", name="release-1")
    assert not push(kubeflow, compiled_pipeline(tmp_path), revision="gfffffff", name="release-1").uploaded
    with pytest.raises(
        UserError, match=r"version release-1 of pipeline small is at .* with other content; give this one"
    ):
        push(kubeflow, compiled_pipeline(tmp_path, cpu="4"), revision="g0123abc", name="release-1")
    fake.only("versions")["pipeline_spec"] = {"not": "a pipeline"}
    with pytest.raises(UserError, match="with other content"):
        push(kubeflow, compiled_pipeline(tmp_path), revision="g0123abc", name="release-1")


def test_a_name_that_kubernetes_would_not_take_is_refused(kubeflow, fake, tmp_path):
    with pytest.raises(UserError, match="version 'Release 1': a name is small letters"):
        push(kubeflow, compiled_pipeline(tmp_path), revision="g0123abc", name="Release 1")
    assert fake.kept["pipelines"] == {}


def git(folder, *command):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *identity, *command], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_revision_is_that_of_the_recipes_repository(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q")
    (tmp_path / "ours.yaml").write_text("name: ours\n")
    git(tmp_path, "add", "ours.yaml")
    git(tmp_path, "commit", "-qm", "ours")
    commit = git(tmp_path, "rev-parse", "--short=7", "HEAD")
    assert revision_of(tmp_path / "ours.yaml") == f"g{commit}"
    (tmp_path / "ours.yaml").write_text("name: theirs\n")
    assert revision_of(tmp_path / "ours.yaml") == f"g{commit}.dirty"


def test_without_a_repository_the_revision_is_the_images_or_the_version(tmp_path, monkeypatch):
    monkeypatch.setattr(rubricworks, "__file__", str(tmp_path / "site-packages" / "__init__.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert revision_of(tmp_path / "ours.yaml") == f"v{rubricworks.__version__}"
    monkeypatch.setenv("RUBRICWORKS_REVISION", "04949E6123456789")
    assert revision_of(tmp_path / "ours.yaml") == "g04949e6"
    monkeypatch.setenv("PATH", str(tmp_path))  # no git at all
    assert revision_of(tmp_path / "ours.yaml") == "g04949e6"
