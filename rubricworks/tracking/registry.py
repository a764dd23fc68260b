"""The model registry: plain Hugging Face folders as versions; the alias `champion` is on the promoted one.

The alias `challenger` is on the version that was last measured against the champion.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.errors import UserError
from rubricworks.storage import files_digest
from rubricworks.tracking.connection import Connection, explained

CHAMPION = "champion"
CHALLENGER = "challenger"
DIGEST_TAG = "model_digest"
CHALLENGED = "challenged"
"""Tag of a challenger: the version that was champion when it was measured."""
APPROVAL = "approval"
"""Tag of a challenger: its standing, `waiting` where a person decides."""
WAITING = "waiting"
_TAG_LENGTH = 5_000


class ModelVersion(BaseModel):
    """A registered model."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    name: str
    version: int
    source: str
    """Where its folder lies."""
    run: str
    """The MLflow run that made it."""
    tags: dict[str, str]


def register(connection: Connection, model_dir: Path, name: str, *, run: str, tags: Mapping[str, Any]) -> ModelVersion:
    """Store a model's folder with an MLflow run and register it; registering the same again gives the version there is.

    Args:
        run: the MLflow run's id.
        tags: what tells versions apart: data digest, recipe digest, figures of the evaluation.
    """
    if not any(model_dir.glob("*")):
        raise UserError(f"{model_dir}: no model here; run the stage that trains it")
    digest = files_digest(model_dir.rglob("*"), model_dir)
    client = connection.client
    with explained(connection.uri):
        _ensure_name(connection, name)
        for found in client.search_model_versions(f"name = '{name}' and run_id = '{run}'"):
            if found.tags.get(DIGEST_TAG) == digest:
                return _value(found)
        folder = f"model-{digest[:12]}"
        client.log_artifacts(run, str(model_dir), folder)
        source = f"{client.get_run(run).info.artifact_uri}/{folder}"
        texts = {key: str(value)[:_TAG_LENGTH] for key, value in tags.items()}
        made = client.create_model_version(name, source=source, run_id=run, tags={**texts, DIGEST_TAG: digest})
        return _value(made)


def champion(connection: Connection, name: str) -> ModelVersion | None:
    """The promoted version of a model; None if there is none yet."""
    return _aliased(connection, name, CHAMPION)


def challenger(connection: Connection, name: str) -> ModelVersion | None:
    """The version that was last measured against the champion and has not become it; None if there is none."""
    return _aliased(connection, name, CHALLENGER)


def version_of(connection: Connection, name: str, version: int) -> ModelVersion:
    """One version.

    Raises:
        UserError: there is no such version.
    """
    with explained(connection.uri):
        return _value(connection.client.get_model_version(name, str(version)))


def model_names(connection: Connection) -> list[str]:
    """Every registered model."""
    with explained(connection.uri):
        return sorted(model.name for model in connection.client.search_registered_models())


def promote(connection: Connection, name: str, version: int) -> None:
    """Make a version the champion; the one before stays registered."""
    with explained(connection.uri):
        connection.client.set_registered_model_alias(name, CHAMPION, str(version))
        model = _registered(connection, name)
        if str(model.aliases.get(CHALLENGER)) == str(version):
            connection.client.delete_registered_model_alias(name, CHALLENGER)


def nominate(connection: Connection, name: str, version: int) -> None:
    """Make a version the challenger; the one before stays registered."""
    with explained(connection.uri):
        connection.client.set_registered_model_alias(name, CHALLENGER, str(version))


def tag(connection: Connection, version: ModelVersion, tags: Mapping[str, Any]) -> None:
    """Add to what is told of a version, or say it anew."""
    with explained(connection.uri):
        for key, value in tags.items():
            connection.client.set_model_version_tag(version.name, str(version.version), key, str(value)[:_TAG_LENGTH])


def _aliased(connection: Connection, name: str, alias: str) -> ModelVersion | None:
    with explained(connection.uri):
        model = _registered(connection, name)
        version = model and model.aliases.get(alias)
        return _value(connection.client.get_model_version(name, str(version))) if version else None


def _ensure_name(connection: Connection, name: str) -> None:
    from mlflow.exceptions import MlflowException

    if "'" in name:
        raise UserError(f"{name!r} has a quote in it, which the registry cannot search for; choose another model name")
    if _registered(connection, name) is None:
        try:
            connection.client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # else another run was first
                raise


def _registered(connection: Connection, name: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        return connection.client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise


def _value(found: Any) -> ModelVersion:
    return ModelVersion(
        name=found.name, version=int(found.version), source=found.source, run=found.run_id or "", tags=dict(found.tags)
    )
