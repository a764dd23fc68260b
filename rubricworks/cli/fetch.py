"""`rubricworks fetch`: a registered model as a folder, for vLLM, Transformers or a cluster's claim."""

import tempfile
from pathlib import Path

import click

from rubricworks.errors import UserError
from rubricworks.runs.working_copy import local_runs_folder
from rubricworks.terminal import echo


@click.command()
@click.argument("model")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--version", type=click.IntRange(1), help="Version to fetch; by default the champion.")
@click.option("--tracking", "uri", default="", help="MLflow's URI; by default as for `run`.")
@click.option("--runs", default="runs", show_default=True, metavar="FOLDER", help="Folder of all runs, as for `run`.")
def fetch(model: str, folder: Path, version: int | None, uri: str, runs: str) -> None:
    """Fetch MODEL's champion from the registry into the new FOLDER, a plain Hugging Face directory.

    \b
    rubricworks fetch captioner models/captioner && vllm serve models/captioner

    Its files must be those that were registered. With RUBRICWORKS_SIGNING_KEY set, that key must have signed them.
    """
    from rubricworks.tracking import TrackingConfig, connect, missing_database, registry

    tracking, runs_folder = TrackingConfig(uri=uri), local_runs_folder(runs)
    if folder.exists():
        raise UserError(f"{folder}: is there already; name a new folder")
    if missing := missing_database(tracking, runs_folder):
        raise UserError(
            f"{missing}: no such file, so no model is registered; name the folder of all runs with --runs, or the "
            "registry with --tracking"
        )
    if (connection := connect(tracking, runs_folder)) is None:
        raise UserError("the model registry is MLflow's; run: pip install 'rubricworks[tracking]'")
    wanted = registry.get_version(connection, model, version) if version else registry.champion(connection, model)
    if wanted is None:
        raise UserError(f"{model} has no champion in the registry at {connection.safe_uri}; name a --version")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        registry.fetch_model(connection, wanted, folder, scratch=Path(scratch))
    echo(f"{folder}: {model} version {wanted.version}")
