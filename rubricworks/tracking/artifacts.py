"""Artifacts of MLflow's runs and models, as folders of this machine."""

from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.tracking.connection import Connection, report_mlflow_errors
from rubricworks.tracking.transfers import long_transfers


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
