"""`rubricworks promote`: a person's decision on a challenger in the model registry.

Where RUBRICWORKS_API names an installation, it alone writes the aliases: a promotion is requested there, and another
person approves it.
"""

import getpass
import time
from typing import TYPE_CHECKING

import click

from rubricworks.errors import UserError
from rubricworks.runs.working_copy import local_runs_folder
from rubricworks.terminal import echo

if TYPE_CHECKING:
    from rubricworks.tracking import Connection, ModelVersion
    from rubricworks.tracking.installation import ApiClient


@click.command()
@click.argument("model", required=False)
@click.option(
    "--version",
    type=click.IntRange(1),
    help="Version to promote, by default the challenger; to roll back: the champion.",
)
@click.option("--reject", is_flag=True, help="Mark the challenger as rejected; the champion stays.")
@click.option("--approve", is_flag=True, help="Approve the request that is open at the installation.")
@click.option("--roll-back", is_flag=True, help="Make the champion before --version the champion again.")
@click.option("--reason", default="", help="Reason of the request or the decision.")
@click.option("--force", is_flag=True, help="Promote a version that did not pass, or passed against an older champion.")
@click.option("--by", help="Name of the person who decides; by default the user of this machine.")
@click.option("--tracking", "uri", default="", help="MLflow's URI; by default as for `run`.")
@click.option("--runs", default="runs", show_default=True, metavar="FOLDER", help="Folder of all runs, as for `run`.")
def promote(
    model: str | None,
    version: int | None,
    reject: bool,
    approve: bool,
    roll_back: bool,
    reason: str,
    force: bool,
    by: str | None,
    uri: str,
    runs: str,
) -> None:
    """Make MODEL's challenger its champion. Without MODEL, list champions and waiting challengers.

    \b
    rubricworks promote
    rubricworks promote captioner
    rubricworks promote captioner --reject
    rubricworks promote captioner --roll-back --version 4 --reason "it stutters"

    Where RUBRICWORKS_API names an installation, MODEL is requested there, and --approve approves it.
    """
    from rubricworks.tracking.installation import named_api

    if reject + approve + roll_back > 1:
        raise UserError("give one of --approve, --reject and --roll-back")
    if api := named_api():
        if force or by or uri:
            raise UserError(f"{api.url} decides by its rules and knows who asks: leave out --force, --by, --tracking")
        return _at_installation(api, model, version, reject=reject, approve=approve, roll_back=roll_back, reason=reason)
    if approve:
        raise UserError("--approve is for an installation, named by RUBRICWORKS_API; without one nothing is requested")
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
    if roll_back:
        return _roll_back(connection, model, version, by)
    candidate = registry.get_version(connection, model, version) if version else registry.challenger(connection, model)
    champion = registry.champion(connection, model)
    if champion and not reject and (candidate is None or candidate.version == champion.version):
        waiting = "" if candidate else ", and no challenger waits"
        echo(f"{model} version {champion.version} is the champion already{waiting}")
        return
    if candidate is None:
        names = ", ".join(registry.model_names(connection)) or "none"
        raise UserError(f"{model} has no challenger in the registry at {connection.safe_uri} (models there: {names})")
    decision = _decision(by)
    if reject:
        registry.tag(connection, candidate, {registry.APPROVAL_TAG: "rejected", **decision})
        echo(f"{model} version {candidate.version} is rejected; the champion stays")
        return
    if not force:
        _check(candidate, champion)
    registry.promote(connection, model, candidate.version, expected=champion.version if champion else None)
    registry.tag(connection, candidate, {registry.APPROVAL_TAG: "promoted", **decision})
    echo(f"{model} version {candidate.version} is the champion")


def _at_installation(
    api: "ApiClient",
    model: str | None,
    version: int | None,
    *,
    reject: bool,
    approve: bool,
    roll_back: bool,
    reason: str,
) -> None:
    from rubricworks.cli.installation import api_promotions

    if model is None:
        api_promotions.print_models(api)
    elif roll_back:
        api_promotions.roll_back(api, model, version, reason)
    elif approve or reject:
        api_promotions.decide(api, model, "approve" if approve else "reject", reason)
    else:
        api_promotions.request(api, model, version, reason)


def _roll_back(connection: "Connection", model: str, version: int | None, by: str | None) -> None:
    from rubricworks.cli.installation.api_promotions import unnamed_champion
    from rubricworks.tracking import registry

    champion, previous = registry.champion(connection, model), registry.previous(connection, model)
    if champion and champion.version != version:
        if version is None:
            raise UserError(unnamed_champion(model, champion.version))
        raise UserError(f"{model} version {version} is not rolled back: version {champion.version} is the champion now")
    if previous is None or champion is None or previous.version == champion.version:
        raise UserError(f"{model} has no champion before this one to go back to")
    registry.promote(connection, model, previous.version, expected=champion.version)
    registry.tag(connection, previous, {registry.APPROVAL_TAG: "promoted", **_decision(by)})
    echo(f"{model} version {previous.version} is the champion again")


def _decision(by: str | None) -> dict[str, str]:
    return {"decided_by": by or getpass.getuser(), "decided_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def _check(candidate: "ModelVersion", champion: "ModelVersion | None") -> None:
    """Raise a UserError unless the version has a digest, passed its gate against the champion of today, and waits."""
    from rubricworks.tracking import registry

    label = f"{candidate.name} version {candidate.version}"
    standing, against = candidate.tags.get(registry.APPROVAL_TAG), candidate.tags.get(registry.OPPONENT_TAG)
    if standing != registry.WAITING:
        reason = candidate.tags.get("gate") or "it was never held against a gate"
        raise UserError(
            f"{label} does not wait for approval ({standing or 'no challenger'}: {reason}); --force promotes it"
        )
    if not candidate.tags.get(registry.DIGEST_TAG):
        raise UserError(f"{label}: {registry.NO_DIGEST}; register it by a stage, or promote it with --force")
    if champion and str(champion.version) != against:
        raise UserError(
            f"{label} passed against version {against}, and the champion is version {champion.version} now: retrain, "
            "or promote it with --force"
        )


def _print_models(connection: "Connection") -> None:
    from rubricworks.tracking import registry

    models = list(registry.all_models(connection))
    for model in models:
        champion, before = model.aliases.get(registry.CHAMPION), model.aliases.get(registry.PREVIOUS)
        echo(
            f"{model.name}: champion {f'version {champion}' if champion else '-'}"
            f"{f', previously version {before}' if before else ''}"
        )
        if challenger := registry.aliased_version(connection, model, registry.CHALLENGER):
            standing, reason = challenger.tags.get(registry.APPROVAL_TAG, ""), challenger.tags.get("gate", "")
            echo(f"  challenger version {challenger.version}: {standing} ({reason})")
    if not models:
        echo(f"no models are registered at {connection.safe_uri}")
