"""What a run left at MLflow: its tracked runs with their artifacts, and the versions of models that it registered."""

from typing import NamedTuple

from rubricworks.tracking.connection import Connection, report_mlflow_errors
from rubricworks.tracking.identity import KEY_TAG

_PARENT_TAG = "mlflow.parentRunId"
_PAGE = 200


class VersionTrace(NamedTuple):
    """A version of a registered model."""

    model: str
    version: str
    aliases: tuple[str, ...]
    """Such as `champion`; empty for one that was rejected, or that another one took the place of."""


class Traces(NamedTuple):
    """What a run left at MLflow."""

    runs: tuple[str, ...] = ()
    """Ids of its tracked runs, the pipeline's last: an interrupted deletion is found again by it."""
    versions: tuple[VersionTrace, ...] = ()


def find_traces(connection: Connection, run: str, key: str) -> Traces:
    """Find what a run left at MLflow.

    Args:
        key: key of its tracking settings, by which its MLflow runs are found.
    Raises:
        UserError: MLflow does not answer or refuses.
    """
    client = connection.client
    with report_mlflow_errors(connection.uri):
        pipelines = _search(connection, f"tags.`{KEY_TAG}` = {_quoted(key)}")
        stages = [
            stage for pipeline in pipelines for stage in _search(connection, f"tags.`{_PARENT_TAG}` = '{pipeline}'")
        ]
        versions = client.search_model_versions(f"tags.`run` = {_quoted(run)}")
        left = []
        for version in versions:
            aliases = client.get_registered_model(version.name).aliases
            of_this = tuple(alias for alias, number in aliases.items() if str(number) == str(version.version))
            left.append(VersionTrace(version.name, str(version.version), of_this))
    return Traces((*stages, *pipelines), tuple(left))


def delete_traces(connection: Connection, traces: Traces) -> None:
    """Delete artifacts, runs and versions; MLflow keeps a deleted run's parameters until `mlflow gc`.

    Raises:
        UserError: MLflow does not answer or refuses.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    with report_mlflow_errors(connection.uri):
        for version in traces.versions:
            connection.client.delete_model_version(version.model, version.version)
        for run in traces.runs:
            uri = connection.client.get_run(run).info.artifact_uri
            get_artifact_repository(uri, tracking_uri=connection.uri).delete_artifacts()
            connection.client.delete_run(run)


def _search(connection: Connection, query: str) -> list[str]:
    runs: list[str] = []
    token: str | None = None
    while True:
        page = connection.client.search_runs([connection.experiment_id], query, max_results=_PAGE, page_token=token)
        runs += [run.info.run_id for run in page]
        token = page.token
        if not token:
            return runs


def _quoted(text: str) -> str:
    """A text of a query; MLflow has no way to write both kinds of quotes, and no run has one in its name."""
    return "'" + text.replace("'", "") + "'"
