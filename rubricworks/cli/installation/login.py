"""`rubricworks login`: the token of an installation, stored for its user alone."""

import sys

import click

from rubricworks.errors import UserError
from rubricworks.terminal import echo
from rubricworks.tracking.installation import VARIABLE, ApiClient, WrongToken, store_token


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
        echo(f"no token of {address} is left in {store_token(address, None)}")
        return
    token: str = click.prompt("Token", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    try:
        caller = ApiClient(address, token.strip()).get("caller")
    except WrongToken as error:
        raise UserError(_advice(address)) from error
    path = store_token(address, token.strip())
    echo(f"{caller['name']} ({caller['scope']}) is logged in; the token is in {path}\nexport {VARIABLE}={address}")


def _advice(address: str) -> str:
    """What to do instead of logging in with a token that the installation does not know."""
    try:
        ApiClient(address, None).get("caller")
    except WrongToken:
        return f"{address}: the token is unknown or expired; an admin makes another with: rubricworks tokens create"
    return f"{address} knows no such token, and asks programs of this machine for none: export {VARIABLE}={address}"
