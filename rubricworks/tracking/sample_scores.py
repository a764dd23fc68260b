"""Scores of a registered model on each held-out sample, so that a later model can be compared with it on the same ones.

They are an artifact of the MLflow run that registered the version; the version's tag `measured_by` holds its URI.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.errors import UserError
from rubricworks.storage import files_digest
from rubricworks.tracking.artifacts import fetch_artifacts
from rubricworks.tracking.connection import Connection, report_mlflow_errors
from rubricworks.tracking.registry import ModelVersion

SCORES_TAG = "measured_by"
_FILE = "scores.parquet"
_SCHEMA = pa.schema([("figure", pa.string()), ("sample_id", pa.string()), ("value", pa.float64())])

SampleScores = Mapping[str, Mapping[str, float | None]]
"""Figure → sample → value, None if it was not judged."""


def store_sample_scores(connection: Connection, run: str, scores: SampleScores) -> str:
    """Store scores with an MLflow run; storing the same again changes nothing.

    Args:
        run: id of the MLflow run.
    Returns:
        The artifact's URI, for the version's tag.
    """
    rows = [
        {"figure": figure, "sample_id": sample, "value": value}
        for figure, values in scores.items()
        for sample, value in values.items()
    ]
    with tempfile.TemporaryDirectory() as temporary, report_mlflow_errors(connection.uri):
        folder = Path(temporary)
        pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), folder / _FILE)
        name = f"measured-by-{files_digest(folder.iterdir(), folder)[:12]}"
        connection.client.log_artifacts(run, str(folder), name)
        return f"{connection.client.get_run(run).info.artifact_uri}/{name}"


def read_sample_scores(connection: Connection, version: ModelVersion) -> SampleScores:
    """Read the scores of a version; empty for one that was registered without.

    Raises:
        UserError: its file is gone or damaged.
    """
    uri = version.tags.get(SCORES_TAG)
    if not uri:
        return {}
    scores: dict[str, dict[str, float | None]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = fetch_artifacts(
            connection, uri, Path(temporary), f"what {version.name} version {version.version} scored"
        )
        try:
            for row in pq.read_table(folder / _FILE, schema=_SCHEMA).to_pylist():
                scores.setdefault(row["figure"], {})[row["sample_id"]] = row["value"]
        except (OSError, pa.ArrowException) as error:
            raise UserError(f"{uri}: scores cannot be read ({str(error).splitlines()[0]})") from error
    return scores
