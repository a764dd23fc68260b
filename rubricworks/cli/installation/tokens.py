"""`rubricworks tokens`: API tokens, made and revoked on the server's machine or through an installation's API.

If RUBRICWORKS_API names an installation, the commands act on its tokens, unless --runs names a folder.
"""

import asyncio
from typing import TYPE_CHECKING

import click

from rubricworks.cli.installation.server import load_serving
from rubricworks.terminal import echo
from rubricworks.tracking.installation import named_api, path_of

if TYPE_CHECKING:
    from rubricworks.tracking.installation import ApiClient

runs_option = click.option(
    "--runs", default="runs", show_default=True, metavar="FOLDER", help="All runs, as for `server`."
)


@click.group()
def tokens() -> None:
    """Create, list and revoke tokens: of the installation that RUBRICWORKS_API names, or of this machine's server.

    A viewer reads; a runner also starts and stops runs; an approver also decides promotions; an admin does all.

    \b
    rubricworks tokens create ci --scope runner
    rubricworks tokens list
    rubricworks tokens revoke ci
    """


@tokens.command()
@click.argument("name")
@click.option("--scope", required=True, type=click.Choice(["viewer", "runner", "approver", "admin"]))
@click.option("--days", default=90, show_default=True, type=click.IntRange(1, 366), help="Days until it expires.")
@runs_option
def create(name: str, scope: str, days: int, runs: str) -> None:
    """Create token NAME and print its secret, which is stored nowhere."""
    if api := _api():
        return echo(api.post("tokens", {"name": name, "scope": scope, "days": days})["secret"])
    load_serving()
    from rubricworks.platform_api.administration import create_token

    echo(asyncio.run(create_token(runs, name, scope, days)))


@tokens.command("list")
@runs_option
def list_(runs: str) -> None:
    """List tokens, the newest first."""
    if api := _api():
        for token in api.items("tokens"):
            ends = (
                f"revoked {token['revoked_at'][:10]}" if token["revoked_at"] else f"expires {token['expires_at'][:10]}"
            )
            echo(f"{token['name']:<24} {token['scope']:<9} {ends}, created by {token['created_by']}")
        return
    load_serving()
    from rubricworks.platform_api.administration import list_tokens

    for token in asyncio.run(list_tokens(runs)):
        end = f"revoked {token.revoked_at:%Y-%m-%d}" if token.revoked_at else f"expires {token.expires_at:%Y-%m-%d}"
        echo(f"{token.name:<24} {token.scope:<9} {end}, created by {token.created_by}")


@tokens.command()
@click.argument("name")
@runs_option
def revoke(name: str, runs: str) -> None:
    """Revoke token NAME and end its sessions."""
    if api := _api():
        api.delete(path_of("tokens", name))
    else:
        load_serving()
        from rubricworks.platform_api.administration import revoke_token

        asyncio.run(revoke_token(runs, name))
    echo(f"{name} is revoked")


def _api() -> "ApiClient | None":
    """The installation that the environment names, unless --runs names a folder."""
    source = click.get_current_context().get_parameter_source("runs")
    return None if source is click.core.ParameterSource.COMMANDLINE else named_api()
