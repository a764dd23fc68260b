"""`rubricworks tokens`: API tokens, made and revoked on the server's machine."""

import asyncio

import click

from rubricworks.cli.server import load_serving

runs_option = click.option(
    "--runs", default="runs", show_default=True, metavar="FOLDER", help="All runs, as for `server`."
)


@click.group()
def tokens() -> None:
    """Create, list and revoke tokens of the server's database.

    A viewer reads; a runner also starts and stops runs; an approver also decides promotions; an admin does all.
    """


@tokens.command()
@click.argument("name")
@click.option("--scope", required=True, type=click.Choice(["viewer", "runner", "approver", "admin"]))
@click.option("--days", default=90, show_default=True, type=click.IntRange(1, 366), help="Days until it expires.")
@runs_option
def create(name: str, scope: str, days: int, runs: str) -> None:
    """Create token NAME and print its secret, which is stored nowhere."""
    load_serving()
    from rubricworks.platform_api.administration import create_token

    click.echo(asyncio.run(create_token(runs, name, scope, days)))


@tokens.command("list")
@runs_option
def list_(runs: str) -> None:
    """List tokens, the newest first."""
    load_serving()
    from rubricworks.platform_api.administration import list_tokens

    for token in asyncio.run(list_tokens(runs)):
        end = f"revoked {token.revoked_at:%Y-%m-%d}" if token.revoked_at else f"expires {token.expires_at:%Y-%m-%d}"
        click.echo(f"{token.name:<24} {token.scope:<9} {end}, created by {token.created_by}")


@tokens.command()
@click.argument("name")
@runs_option
def revoke(name: str, runs: str) -> None:
    """Revoke token NAME and end its sessions."""
    load_serving()
    from rubricworks.platform_api.administration import revoke_token

    asyncio.run(revoke_token(runs, name))
    click.echo(f"{name} is revoked")
