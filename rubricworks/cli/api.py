"""`rubricworks api`: the HTTP service of an installation."""

import click

from rubricworks.errors import UserError


@click.group()
def api() -> None:
    """The HTTP service of an installation: alive, ready, its version (see docs/images.md)."""


@api.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 for every address; needs a token.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65_535), help="0 takes a free one.")
def serve(host: str, port: int) -> None:
    """Serve until stopped; the first line printed is the URL.

    \b
    RUBRICWORKS_API_TOKEN      callers send it as `Authorization: Bearer …`; without it only loopback is served
    RUBRICWORKS_DATABASE_URL   postgresql+psycopg://user:password@host/name, sqlite:///file
    RUBRICWORKS_STORAGE        s3://bucket/prefix or a folder
    """
    try:
        from rubricworks.platform_api import serving
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("rubricworks"):
            raise
        raise UserError(f"{error.name} is not installed; get it with: pip install 'rubricworks[api]'") from error
    listening = serving.listening_socket(host, port)
    click.echo(serving.url_of(listening))
    serving.serve(listening)
