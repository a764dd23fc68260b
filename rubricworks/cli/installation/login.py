"""`rubricworks login`: the token of an installation, stored for its user alone."""

import sys

import click

from rubricworks.tracking.installation import VARIABLE, ApiClient, store_token


@click.command()
@click.argument("url")
@click.option("--forget", is_flag=True, help="Forget the token of this installation.")
def login(url: str, forget: bool) -> None:
    """Store the token of the installation at URL, which is asked for or read from standard input.

    \b
    rubricworks login https://rubricworks.example.org
    rubricworks tokens create ci --scope runner | rubricworks login http://127.0.0.1:8080
    """
    address = ApiClient(url, None).url
    if forget:
        click.echo(f"no token of {address} is left in {store_token(address, None)}")
        return
    token: str = click.prompt("Token", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    caller = ApiClient(address, token.strip()).get("caller")
    path = store_token(address, token.strip())
    click.echo(
        f"{caller['name']} ({caller['scope']}) is logged in; the token is in {path}\nexport {VARIABLE}={address}"
    )
