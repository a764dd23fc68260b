"""Model registry: versions are plain Hugging Face folders with MLflow's description beside them, marked by aliases.

`champion` is the promoted version, `previous` the champion before, and `challenger` the version that was last measured
against the champion.

MLflow has no conditional write of an alias, so a promotion reads the champion, writes the alias and reads it again. Two
promotions whose reads both come before the other's write can pass the first check: a window of one request. The later
write stands, and the earlier promotion is told so if its second read sees it.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.errors import UserError
from rubricworks.storage import files_digest
from rubricworks.tracking.artifacts import fetch_artifacts
from rubricworks.tracking.connection import Connection, report_mlflow_errors
from rubricworks.tracking.model_flavour import MODEL_FOLDER, write_flavour
from rubricworks.tracking.signatures import SIGNATURE_FILE, sign, verify
from rubricworks.tracking.transfers import long_transfers
from rubricworks.training.model_card import CARD

CHAMPION = "champion"
CHALLENGER = "challenger"
PREVIOUS = "previous"
DIGEST_TAG = "model_digest"
REWARD_MODEL_TAG = "reward_model"
"""Tag of a policy's version: name and version of the reward model that trained it, `answerer-reward-model/3`."""
BASE_TAG = "base_model"
"""Tag of an adapter: name of the pipeline that it was trained on."""
BASE_DIGEST_TAG = "base_digest"
"""Tag of an adapter: digest of that pipeline's files."""
OPPONENT_TAG = "challenged"
"""Tag of a challenger: the version that was champion when it was measured."""
APPROVAL_TAG = "approval"
"""Tag of a challenger: state of its approval, `waiting` while a person has to decide."""
WAITING = "waiting"
NO_DIGEST = f"it has no digest of its files (tag `{DIGEST_TAG}`), so nothing tells that they are those that were judged"
"""Refusal of a version that no stage registered; `register` gives each one its digest."""
_TAG_LENGTH = _DESCRIPTION_LENGTH = 5_000
_PAGE = 1_000
"""Models of one search, as many as MLflow gives; it gives 100 if it is not asked for more."""


class UnknownVersion(UserError):
    """The registry has no such version of a model."""


class ChampionMoved(UserError):
    """A promotion came too late: another version is the champion now than the one that the decision was about."""


class ModelVersion(BaseModel):
    """A registered model."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    name: str
    version: int
    source: str
    """URI of its artifacts; `model_files` finds its folder in them."""
    run: str
    """Id of the MLflow run that registered it."""
    tags: dict[str, str]


class RegisteredModel(BaseModel):
    """A model with what one search tells of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    aliases: dict[str, int]
    latest: tuple[ModelVersion, ...] = ()
    """Its newest version, and the newest of each stage where an installation uses MLflow's stages."""


def register(
    connection: Connection,
    model_dir: Path,
    name: str,
    *,
    run: str,
    tags: Mapping[str, Any],
    prompt: str = "Describe the image.",
    card: str = "",
    summary: str = "",
) -> ModelVersion:
    """Store a model's folder with an MLflow run and register it; a model registered before keeps its version.

    With a signing key in the environment, the version has a signature of the folder.

    Args:
        run: id of the MLflow run.
        tags: tags of the version, such as data digest, recipe digest, figures of the evaluation.
        prompt: prompt of the model's example.
        card: model card beside the folder, whose own is that of its training.
        summary: description of the version, in Markdown.
    """
    if not any(model_dir.glob("*")):
        raise UserError(f"{model_dir}: no model here; run the stage that trains it")
    digest = files_digest(model_dir.rglob("*"), model_dir)
    client = connection.client
    with report_mlflow_errors(connection.uri):
        _ensure_name(connection, name)
        for version in client.search_model_versions(f"name = '{name}' and run_id = '{run}'"):
            if version.tags.get(DIGEST_TAG) == digest:
                return _to_model_version(version)
        logged = _logged_model(connection, run, name, digest)
        if logged.status != "READY":
            with tempfile.TemporaryDirectory() as description, long_transfers():
                write_flavour(Path(description), model_dir, model_id=logged.model_id, run=run, prompt=prompt)
                if card:
                    (Path(description) / CARD).write_text(card, encoding="utf-8")
                sign(model_dir, Path(description) / SIGNATURE_FILE)
                client.log_model_artifacts(logged.model_id, str(model_dir), MODEL_FOLDER)
                client.log_model_artifacts(logged.model_id, description)
            client.finalize_logged_model(logged.model_id, "READY")
        texts = {key: str(value)[:_TAG_LENGTH] for key, value in tags.items()}
        version = client.create_model_version(
            name,
            source=logged.artifact_location,
            run_id=run,
            tags={**texts, DIGEST_TAG: digest},
            model_id=logged.model_id,
            description=summary[:_DESCRIPTION_LENGTH] or None,
        )
        return _to_model_version(version)


def _logged_model(connection: Connection, run: str, name: str, digest: str) -> Any:
    """Return the run's logged model of this digest, which an earlier attempt may have begun; create it if needed."""
    from mlflow.entities import LoggedModelOutput

    client = connection.client
    experiment = client.get_run(run).info.experiment_id
    query = f"source_run_id = '{run}' AND tags.`{DIGEST_TAG}` = '{digest}'"
    if begun := client.search_logged_models([experiment], query, max_results=1):
        return begun[0]
    logged = client.create_logged_model(experiment, name, run, tags={DIGEST_TAG: digest}, model_type="captioner")
    client.log_outputs(run, [LoggedModelOutput(logged.model_id, step=0)])
    return logged


def model_files(download: Path) -> Path:
    """Return the Hugging Face folder in a version's downloaded artifacts."""
    return download / MODEL_FOLDER


def fetch_model(connection: Connection, version: ModelVersion, target: Path, *, scratch: Path) -> None:
    """Download a version's Hugging Face folder, if it is the one that was registered, and signed.

    Args:
        target: folder to be created.
        scratch: empty folder on the same disk, for the download.
    Raises:
        UserError: files are missing or others, or this environment's key did not sign them.
    """
    label = f"the model of {version.name} version {version.version}"
    download = fetch_artifacts(connection, version.source, scratch, label)
    model = model_files(download)
    if (digest := version.tags.get(DIGEST_TAG)) and files_digest(model.rglob("*"), model) != digest:
        raise UserError(
            f"{version.source}: {label} is not the one that was registered; put it back, or make another version the "
            "champion"
        )
    verify(model, download / SIGNATURE_FILE, f"{version.source}: {label}")
    model.rename(target)


def champion(connection: Connection, name: str) -> ModelVersion | None:
    """Return the promoted version of a model; None if there is none yet."""
    return _aliased(connection, name, CHAMPION)


def challenger(connection: Connection, name: str) -> ModelVersion | None:
    """Return the version that was last measured against the champion and not promoted; None if there is none."""
    return _aliased(connection, name, CHALLENGER)


def previous(connection: Connection, name: str) -> ModelVersion | None:
    """Return the version that was champion before; None if there was none."""
    return _aliased(connection, name, PREVIOUS)


def aliases(connection: Connection, name: str) -> dict[str, int]:
    """Return the versions that a model's aliases name, in one request; empty if there is no such model."""
    with report_mlflow_errors(connection.uri):
        model = _registered(connection, name)
        return {alias: int(version) for alias, version in model.aliases.items()} if model else {}


def get_version(connection: Connection, name: str, version: int) -> ModelVersion:
    """Return one version of a model.

    Raises:
        UnknownVersion: there is no such version.
    """
    from mlflow.exceptions import MlflowException

    with report_mlflow_errors(connection.uri):
        try:
            return _to_model_version(connection.client.get_model_version(name, str(version)))
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise UnknownVersion(f"the registry at {connection.safe_uri} has no {name} version {version}") from error


def aliased_version(connection: Connection, model: RegisteredModel, alias: str) -> ModelVersion | None:
    """Return the version that an alias names, asked for only if it is none of the newest; None without the alias."""
    version = model.aliases.get(alias)
    if version is None:
        return None
    newest = next((latest for latest in model.latest if latest.version == version), None)
    return newest or get_version(connection, model.name, version)


def model_page(
    connection: Connection, limit: int = _PAGE, token: str | None = None
) -> tuple[list[RegisteredModel], str | None]:
    """Return registered models by name, in one request, and the token of the next page; None after the last one.

    Raises:
        UserError: the token is not one of this registry.
    """
    with report_mlflow_errors(connection.uri):
        try:
            page = connection.client.search_registered_models(max_results=limit, page_token=token)
        except (AttributeError, TypeError, ValueError) as error:
            # MLflow's own reading of a token that it did not make.
            raise UserError(f"MLflow at {connection.safe_uri}: {token!r} is no token of a page of models") from error
        return [_to_registered_model(model) for model in page], page.token or None


def all_models(connection: Connection) -> Iterator[RegisteredModel]:
    """Every registered model by name, page after page."""
    token: str | None = None
    while True:
        models, token = model_page(connection, _PAGE, token)
        yield from models
        if token is None:
            return


def model_names(connection: Connection) -> list[str]:
    """List the names of all registered models."""
    return sorted(model.name for model in all_models(connection))


def promote(connection: Connection, name: str, version: int, *, expected: int | None) -> None:
    """Make a version the champion in place of the expected one, which becomes `previous`.

    Args:
        expected: version that is the champion by the caller's knowledge; None for a model without one.
    Raises:
        ChampionMoved: another version is the champion; the aliases stay as they are.
    """
    with report_mlflow_errors(connection.uri):
        client = connection.client
        now = _alias_version(connection, name, CHAMPION)
        if now != version:
            _require_champion(name, version, expected, now)
            if now is not None:
                client.set_registered_model_alias(name, PREVIOUS, str(now))
            client.set_registered_model_alias(name, CHAMPION, str(version))
            _require_champion(name, version, version, _alias_version(connection, name, CHAMPION))
        if _alias_version(connection, name, CHALLENGER) == version:
            client.delete_registered_model_alias(name, CHALLENGER)


def _require_champion(name: str, version: int, expected: int | None, now: int | None) -> None:
    if now != expected:
        state = "has no champion now" if now is None else f"version {now} is the champion now"
        before = "there was none" if expected is None else f"it was version {expected}"
        raise ChampionMoved(f"{name} version {version} is not promoted: {state}, and {before} when this was decided")


def nominate(connection: Connection, name: str, version: int) -> None:
    """Make a version the challenger; the previous challenger stays registered."""
    with report_mlflow_errors(connection.uri):
        connection.client.set_registered_model_alias(name, CHALLENGER, str(version))


def tag(connection: Connection, version: ModelVersion, tags: Mapping[str, Any]) -> None:
    """Set tags of a version."""
    with report_mlflow_errors(connection.uri):
        for key, value in tags.items():
            connection.client.set_model_version_tag(version.name, str(version.version), key, str(value)[:_TAG_LENGTH])


def _alias_version(connection: Connection, name: str, alias: str) -> int | None:
    model = _registered(connection, name)
    version = model and model.aliases.get(alias)
    return int(version) if version else None


def _aliased(connection: Connection, name: str, alias: str) -> ModelVersion | None:
    with report_mlflow_errors(connection.uri):
        version = _alias_version(connection, name, alias)
        return _to_model_version(connection.client.get_model_version(name, str(version))) if version else None


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


def _to_registered_model(model: Any) -> RegisteredModel:
    return RegisteredModel(
        name=model.name,
        aliases={alias: int(version) for alias, version in model.aliases.items()},
        latest=tuple(_to_model_version(version) for version in model.latest_versions or ()),
    )


def _to_model_version(version: Any) -> ModelVersion:
    return ModelVersion(
        name=version.name,
        version=int(version.version),
        source=version.source,
        run=version.run_id or "",
        tags=dict(version.tags),
    )
