"""`rubricworks server`: the pages and the API of an installation, or of this machine's runs."""

import asyncio
from types import ModuleType

import click

from rubricworks.errors import UserError
from rubricworks.listening import url_of
from rubricworks.terminal import echo


@click.group(invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help=":: for every address; needs a token.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65_535), help="0 takes a free one.")
@click.option(
    "--runs", default="runs", show_default=True, metavar="FOLDER", help="All runs: a folder or s3://bucket/folder."
)
@click.pass_context
def server(context: click.Context, host: str, port: int, runs: str) -> None:
    """Serve pages and API until stopped; the first line printed is the URL.

    \b
    RUBRICWORKS_API_TOKEN      an admin's token: `Authorization: Bearer …`; without it only this machine is served
    RUBRICWORKS_DATABASE_URL   postgresql+psycopg://user:password@host/name; by default a file in the folder of runs
    RUBRICWORKS_STORAGE        s3://bucket/prefix or a folder, instead of --runs
    """
    if context.invoked_subcommand is not None:
        return
    serving = load_serving()
    listening = serving.listening_socket(host, port, runs)
    echo(url_of(listening))
    serving.serve(listening, runs)


@server.command()
@click.option("--runs", default="runs", show_default=True, metavar="FOLDER", help="All runs, as for `server`.")
def migrate(runs: str) -> None:
    """Bring the database to this version's revision; a server on SQLite does so itself.

    The version before works on beside it.
    """
    load_serving()
    from rubricworks.platform_api.administration import migrate_database

    echo(f"the database is at revision {asyncio.run(migrate_database(runs))}")


@server.command()
@click.option("--older-than", metavar="AGE", required=True, help="Hours, days or weeks: 12h, 90d, 8w.")
@click.option("--runs", default="runs", show_default=True, metavar="FOLDER", help="All runs, as for `server`.")
@click.option("--dry-run", is_flag=True, help="Only report what would go.")
def prune(older_than: str, runs: str, dry_run: bool) -> None:
    """Delete old rows that nothing needs: submissions and tokens of runs that are gone, sessions, delivered messages.

    Labels, preferences, rubric versions, promotions and the audit log stay. `rubricworks runs prune` deletes runs.
    """
    load_serving()
    from rubricworks.platform_api.administration import prune_tables
    from rubricworks.runs.pruning import parse_age

    rows = asyncio.run(prune_tables(runs, parse_age(older_than), dry_run=dry_run))
    for table, count in sorted(rows.items()):
        echo(f"{'would delete' if dry_run else 'deleted'} {count} rows of the table {table}")
    echo(f"{'would delete' if dry_run else 'deleted'} {sum(rows.values())} rows")


@server.command()
@click.argument("source")
@click.option("--runs", default="runs", show_default=True, metavar="FOLDER", help="All runs, as for `server`.")
@click.option("--dry-run", is_flag=True, help="Only report what would go.")
def forget(source: str, runs: str, dry_run: bool) -> None:
    """Delete the data of SOURCE everywhere: the runs that hold it, their models, and their rows.

    SOURCE is the beginning of its pictures' places, such as a folder. Start the server's processes anew afterwards:
    each keeps copies of recent files.

    \b
    rubricworks server forget s3://datasets/customer-7 --runs s3://rubricworks/captions/runs --dry-run
    """
    load_serving()
    from rubricworks.platform_api.administration import forget_source

    async def report() -> None:
        async for line in forget_source(runs, source, dry_run=dry_run):
            echo(line)

    asyncio.run(report())


def load_serving() -> ModuleType:
    """Import the service.

    Raises:
        UserError: its packages are not installed.
    """
    try:
        from rubricworks.platform_api import serving
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("rubricworks"):
            raise
        raise UserError(f"{error.name} is not installed; get it with: pip install 'rubricworks[api]'") from error
    return serving
