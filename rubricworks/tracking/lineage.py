"""Lineage of a registered model: the recipe as its stages see it, and the keys of its samples.

It is all that a retraining on more data needs, even if the run's folder is gone. The two files are an artifact of the
MLflow run that registered the version. The version's tag `made_from` holds its URI, and `made_from_digest` pins its
content. Whoever may write tags can pin other content: with RUBRICWORKS_LINEAGE_KEY set, `made_from_signature` is an
HMAC of the model's name and the digest, and a lineage without the right one is refused.
"""

import hmac
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from rubricworks.errors import UserError
from rubricworks.storage import files_digest
from rubricworks.tracking.artifacts import fetch_artifacts
from rubricworks.tracking.connection import Connection, report_mlflow_errors
from rubricworks.tracking.registry import ModelVersion

LINEAGE_TAG = "made_from"
DIGEST_TAG = "made_from_digest"
SIGNATURE_TAG = "made_from_signature"
KEY_VARIABLE = "RUBRICWORKS_LINEAGE_KEY"
_RECIPE, _SAMPLES = "recipe.json", "samples.parquet"


class StagedRecipe(BaseModel):
    """A recipe as its stages see it: the pipeline and each stage's configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """Name of the recipe."""
    pipeline: str
    """Method of the recipe."""
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
    signed: bool
    """True if a holder of this environment's key stored it."""


def store_lineage(
    connection: Connection, run: str, name: str, recipe: StagedRecipe, samples: Iterable[SampleKey]
) -> Mapping[str, str]:
    """Store a lineage with an MLflow run; storing the same again changes nothing.

    Args:
        run: id of the MLflow run.
        name: name of the model.
    Returns:
        Tags of the version.
    """
    with tempfile.TemporaryDirectory() as temporary, report_mlflow_errors(connection.uri):
        folder = Path(temporary)
        (folder / _RECIPE).write_text(recipe.model_dump_json(indent=1))
        names = SampleKey._fields
        rows = [key._asdict() for key in samples]
        pq.write_table(
            pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in names])), folder / _SAMPLES
        )
        digest = files_digest(folder.iterdir(), folder)
        place = f"made-from-{digest[:12]}"
        connection.client.log_artifacts(run, str(folder), place)
        uri = f"{connection.client.get_run(run).info.artifact_uri}/{place}"
    signature = _sign(name, digest)
    return {
        LINEAGE_TAG: uri,
        DIGEST_TAG: digest,
        **({SIGNATURE_TAG: signature} if signature else {}),
        "recipe": recipe.name,
        "pipeline": recipe.pipeline,
    }


def read_lineage(connection: Connection, version: ModelVersion) -> Lineage:
    """Read the lineage of a version.

    Raises:
        UserError: the version was registered without a lineage, its files are gone, or they are not those of its tags.
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
        signed = _check_origin(version, files_digest(folder.rglob("*"), folder), uri)
        try:
            recipe = StagedRecipe.model_validate_json((folder / _RECIPE).read_bytes())
            rows = pq.read_table(folder / _SAMPLES).to_pylist()
            return Lineage(recipe, tuple(SampleKey(**row) for row in rows), signed)
        except (OSError, ValidationError, pa.ArrowException, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"{uri}: what {label} was made from cannot be read ({reason}); run its recipe again"
            ) from error


def _check_origin(version: ModelVersion, digest: str, uri: str) -> bool:
    """Check a lineage's content against the version's tags; return True if it is signed with this environment's key."""
    label = f"{version.name} version {version.version}"
    pinned = version.tags.get(DIGEST_TAG)
    if pinned is not None and pinned != digest:
        raise UserError(
            f"{uri}: what {label} was made from is not what was registered; put it back, or make another version the "
            "champion"
        )
    signature = _sign(version.name, digest)
    if signature is None:
        return False
    if not hmac.compare_digest(signature, version.tags.get(SIGNATURE_TAG, "")):
        raise UserError(
            f"{label}: its recipe and samples are not signed with the key of {KEY_VARIABLE}; run its recipe again "
            "where the key is set, or unset the key here and admit what the recipe reaches"
        )
    return True


def _sign(name: str, digest: str) -> str | None:
    """HMAC of a model's lineage; None without a key."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    return hmac.new(key.encode(), f"{name}\n{digest}".encode(), "sha256").hexdigest() if key else None
