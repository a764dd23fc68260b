"""Lineage of a registered model: the recipe as its stages see it, and the keys of its samples.

It is all that a retraining on more data needs, even if the run's folder is gone. The two files are an artifact of the
MLflow run that registered the version; the version's tag `made_from` holds its URI.
"""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from rubricworks.errors import UserError
from rubricworks.storage import files_digest
from rubricworks.tracking.connection import Connection, report_mlflow_errors
from rubricworks.tracking.registry import ModelVersion
from rubricworks.tracking.transfers import long_transfers

LINEAGE_TAG = "made_from"
_RECIPE, _SAMPLES = "recipe.json", "samples.parquet"


class StagedRecipe(BaseModel):
    """A recipe as its stages see it: the pipeline and each stage's configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """Name of the recipe."""
    pipeline: str
    stages: dict[str, dict[str, Any]]
    """Stage → its configuration, without the stages that only report."""


class SampleKey(NamedTuple):
    """Identity of a sample, without its content."""

    sample_id: str
    split: str
    source: str
    """Path or URL of the sample, with the recipe's variables unresolved."""


class Lineage(NamedTuple):
    """Recipe and sample keys of a model version."""

    recipe: StagedRecipe
    samples: tuple[SampleKey, ...]


def store_lineage(connection: Connection, run: str, recipe: StagedRecipe, samples: Iterable[SampleKey]) -> str:
    """Store a lineage with an MLflow run; storing the same again changes nothing.

    Args:
        run: id of the MLflow run.
    Returns:
        The artifact's URI, for the version's tag.
    """
    with tempfile.TemporaryDirectory() as temporary, report_mlflow_errors(connection.uri):
        folder = Path(temporary)
        (folder / _RECIPE).write_text(recipe.model_dump_json(indent=1))
        names = SampleKey._fields
        rows = [key._asdict() for key in samples]
        pq.write_table(
            pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in names])), folder / _SAMPLES
        )
        name = f"made-from-{files_digest(folder.iterdir(), folder)[:12]}"
        connection.client.log_artifacts(run, str(folder), name)
        return f"{connection.client.get_run(run).info.artifact_uri}/{name}"


def read_lineage(connection: Connection, version: ModelVersion) -> Lineage:
    """Read the lineage of a version.

    Raises:
        UserError: the version was registered without a lineage, or its files are gone.
    """
    label = f"{version.name} version {version.version}"
    uri = version.tags.get(LINEAGE_TAG)
    if not uri:
        raise UserError(
            f"{label} was registered without its recipe and samples, so it cannot be retrained; run its recipe again: "
            "models that this version of rubricworks registers keep both"
        )
    with tempfile.TemporaryDirectory() as temporary:
        folder = fetch_artifacts(connection, uri, Path(temporary), f"what {label} was made from")
        try:
            recipe = StagedRecipe.model_validate_json((folder / _RECIPE).read_bytes())
            rows = pq.read_table(folder / _SAMPLES).to_pylist()
            return Lineage(recipe, tuple(SampleKey(**row) for row in rows))
        except (OSError, ValidationError, pa.ArrowException, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"{uri}: what {label} was made from cannot be read ({reason}); run its recipe again"
            ) from error


def fetch_artifacts(connection: Connection, uri: str, folder: Path, description: str) -> Path:
    """Download a folder of artifacts and return its local path.

    Args:
        description: noun phrase for the error message.
    Raises:
        UserError: the artifacts are missing, or MLflow cannot be reached.
    """
    with report_mlflow_errors(connection.uri):
        from mlflow.artifacts import download_artifacts

        try:
            with long_transfers():
                path = download_artifacts(artifact_uri=uri, dst_path=str(folder), tracking_uri=connection.uri)
        except OSError as error:
            raise UserError(
                f"{uri}: {description} is not there ({error.strerror or error}); was its store emptied?"
            ) from error
    return Path(path)


def lineage_tags(recipe: StagedRecipe, uri: str) -> Mapping[str, str]:
    """Return the tags that record a version's lineage in the registry."""
    return {LINEAGE_TAG: uri, "recipe": recipe.name, "pipeline": recipe.pipeline}
