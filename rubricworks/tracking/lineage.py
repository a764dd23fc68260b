"""What a registered model was made from, kept beside it: the recipe as its stages see it, and which samples it knew.

Whoever wants to make the model again, on more data, finds everything in the registry: the run's folder may be gone.
The two files are an artifact of the MLflow run that registered the version; its tag `made_from` leads there.
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
from rubricworks.tracking.connection import Connection, explained
from rubricworks.tracking.registry import ModelVersion

TAG = "made_from"
_RECIPE, _SAMPLES = "recipe.json", "samples.parquet"


class StagedRecipe(BaseModel):
    """A recipe as its stages see it: which pipeline, and what each stage is configured with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """The recipe's."""
    pipeline: str
    stages: dict[str, dict[str, Any]]
    """Stage → its own configuration, without those that only report."""


class SampleKey(NamedTuple):
    """Names a sample without holding it."""

    sample_id: str
    split: str
    source: str
    """Where it lay, with the recipe's variables in it."""


class Lineage(NamedTuple):
    """What a version was made from."""

    recipe: StagedRecipe
    samples: tuple[SampleKey, ...]


def store_lineage(connection: Connection, run: str, recipe: StagedRecipe, samples: Iterable[SampleKey]) -> str:
    """Keep a lineage with an MLflow run; storing the same again changes nothing.

    Args:
        run: the MLflow run's id.
    Returns:
        Where it lies, for the version's tag.
    """
    with tempfile.TemporaryDirectory() as place, explained(connection.uri):
        folder = Path(place)
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
    """What was stored of a version.

    Raises:
        UserError: the version was registered without a lineage, or it is no longer there.
    """
    label = f"{version.name} version {version.version}"
    uri = version.tags.get(TAG)
    if not uri:
        raise UserError(
            f"{label} was registered without its recipe and samples, so it cannot be retrained; run its recipe again: "
            "models that this version of rubricworks registers keep both"
        )
    with tempfile.TemporaryDirectory() as place:
        folder = fetch_artifacts(connection, uri, Path(place), f"what {label} was made from")
        try:
            recipe = StagedRecipe.model_validate_json((folder / _RECIPE).read_bytes())
            rows = pq.read_table(folder / _SAMPLES).to_pylist()
            return Lineage(recipe, tuple(SampleKey(**row) for row in rows))
        except (OSError, ValidationError, pa.ArrowException, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"{uri}: what {label} was made from cannot be read ({reason}); run its recipe again"
            ) from error


def fetch_artifacts(connection: Connection, uri: str, folder: Path, what: str) -> Path:
    """Download a folder of artifacts; returns where it lies.

    Args:
        what: it is, for the message.
    Raises:
        UserError: it is not there, or cannot be reached.
    """
    with explained(connection.uri):
        from mlflow.artifacts import download_artifacts

        try:
            found = download_artifacts(artifact_uri=uri, dst_path=str(folder), tracking_uri=connection.uri)
        except OSError as error:
            raise UserError(
                f"{uri}: {what} is not there ({error.strerror or error}); was its store emptied?"
            ) from error
    return Path(found)


def tags_of(recipe: StagedRecipe, uri: str) -> Mapping[str, str]:
    """What tells a version's lineage, for the registry's pages."""
    return {TAG: uri, "recipe": recipe.name, "pipeline": recipe.pipeline}
