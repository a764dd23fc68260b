"""`rubricworks promote`: a person's decision on a challenger in the model registry."""

import getpass
import time
from typing import TYPE_CHECKING

import click

from rubricworks.errors import UserError
from rubricworks.runs.working_copy import local_runs_folder

if TYPE_CHECKING:
    from rubricworks.tracking import Connection, ModelVersion


@click.command()
@click.argument("model", required=False)
@click.option("--version", type=click.IntRange(1), help="Promote this version instead of the challenger.")
@click.option("--reject", is_flag=True, help="Mark the challenger as rejected; the champion stays.")
@click.option("--force", is_flag=True, help="Promote a version that did not pass, or passed against an older champion.")
@click.option("--by", help="Name of the person who decides; by default the user of this machine.")
@click.option("--tracking", "uri", default="", help="MLflow's URI; by default as for `run`.")
@click.option("--runs", default="runs", show_default=True, metavar="FOLDER", help="Folder of all runs, as for `run`.")
def promote(
    model: str | None, version: int | None, reject: bool, force: bool, by: str | None, uri: str, runs: str
) -> None:
    """Make MODEL's challenger its champion. Without MODEL, list champions and waiting challengers.

    \b
    rubricworks promote
    rubricworks promote captioner
    rubricworks promote captioner --reject
    """
    from rubricworks.tracking import TrackingConfig, connect, missing_database, registry

    tracking, folder = TrackingConfig(uri=uri), local_runs_folder(runs)
    if missing := missing_database(tracking, folder):
        raise UserError(
            f"{missing}: no such file, so no model is registered; name the folder of all runs with --runs, or the "
            "registry with --tracking"
        )
    connection = connect(tracking, folder)
    if connection is None:
        raise UserError("the model registry needs MLflow; run: pip install 'rubricworks[tracking]'")
    if model is None:
        _print_models(connection)
        return
    candidate = registry.get_version(connection, model, version) if version else registry.challenger(connection, model)
    if candidate is None:
        names = ", ".join(registry.model_names(connection)) or "none"
        raise UserError(f"{model} has no challenger in the registry at {connection.safe_uri} (models there: {names})")
    decision = {"decided_by": by or getpass.getuser(), "decided_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    if reject:
        registry.tag(connection, candidate, {registry.APPROVAL_TAG: "rejected", **decision})
        click.echo(f"{model} version {candidate.version} is rejected; the champion stays")
        return
    champion = registry.champion(connection, model)
    if not force:
        _check(candidate, champion)
    registry.promote(connection, model, candidate.version, expected=champion.version if champion else None)
    registry.tag(connection, candidate, {registry.APPROVAL_TAG: "promoted", **decision})
    click.echo(f"{model} version {candidate.version} is the champion")


def _check(candidate: "ModelVersion", champion: "ModelVersion | None") -> None:
    """Raise a UserError unless the version passed its gate against the champion of today and waits for approval."""
    from rubricworks.tracking import registry

    label = f"{candidate.name} version {candidate.version}"
    standing, against = candidate.tags.get(registry.APPROVAL_TAG), candidate.tags.get(registry.OPPONENT_TAG)
    if standing != registry.WAITING:
        reason = candidate.tags.get("gate") or "it was never held against a gate"
        raise UserError(
            f"{label} does not wait for approval ({standing or 'no challenger'}: {reason}); --force promotes it"
        )
    if champion and str(champion.version) != against:
        raise UserError(
            f"{label} passed against version {against}, and the champion is version {champion.version} now: retrain, "
            "or promote it with --force"
        )


def _print_models(connection: "Connection") -> None:
    from rubricworks.tracking import registry

    names = registry.model_names(connection)
    for name in names:
        champion, challenger = registry.champion(connection, name), registry.challenger(connection, name)
        before = registry.previous(connection, name)
        click.echo(
            f"{name}: champion {f'version {champion.version}' if champion else '-'}"
            f"{f', previously version {before.version}' if before else ''}"
        )
        if challenger:
            standing, reason = challenger.tags.get(registry.APPROVAL_TAG, ""), challenger.tags.get("gate", "")
            click.echo(f"  challenger version {challenger.version}: {standing} ({reason})")
    if not names:
        click.echo(f"no models are registered at {connection.safe_uri}")
