"""`rubricworks runs`: listing, showing, following, stopping, retrying and pruning runs, here, in a store, on Kubeflow.

Where RUBRICWORKS_API names an installation, its runs are listed, shown, followed, submitted, asked again and stopped,
unless --runs, --on or --cluster names another place.
"""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rubricworks.cli.options import cluster_option
from rubricworks.errors import UserError
from rubricworks.kubeflow.recipe_runs import connect_by_recipe
from rubricworks.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubricworks.kubeflow.remote_runs import RemoteRun
    from rubricworks.runs.records import RunRecord
    from rubricworks.tracking.installation import ApiClient

runs_option = click.option(
    "--runs",
    "place",
    default="runs",
    show_default=True,
    metavar="FOLDER",
    help="All runs: a folder or s3://bucket/folder.",
)
on_option = click.option("--on", type=click.Choice(["kubeflow"]), help="Ask Kubeflow instead.")

_PAUSE = 1.0
"""Seconds between two looks at a log that is followed."""


@click.group()
def runs() -> None:
    """List, show, follow, submit, stop, retry and prune runs, and repeat failed calls."""


@runs.command("list")
@runs_option
@on_option
@cluster_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Runs at most.")
def list_(place: str, on: str | None, recipe: str | None, limit: int) -> None:
    """List runs, the newest first."""
    if on:
        from rubricworks.kubeflow.remote_runs import list_runs

        rows = [_remote_row(run) for run in list_runs(connect_by_recipe(recipe), limit=limit)]
    elif api := _api():
        from rubricworks.cli.installation.api_runs import run_rows

        rows = run_rows(api, limit)
    else:
        from rubricworks.runs.records import run_records
        from rubricworks.runs.store import open_run_store

        rows = [_row(run) for run in list(run_records(open_run_store(place)))[:limit]]
    if not rows:
        echo("no runs", err=True)
        return
    _print_table(["run", "state", "pipeline", "began", "last change"], rows)


@runs.command()
@click.argument("run")
@runs_option
@on_option
@cluster_option
def show(run: str, place: str, on: str | None, recipe: str | None) -> None:
    """Show RUN's place, its stages, and its result or the reason of its failure."""
    if on:
        from rubricworks.kubeflow.remote_runs import show_run

        _print_remote_run(show_run(connect_by_recipe(recipe), run))
        return
    if api := _api():
        from rubricworks.cli.installation.api_runs import print_run

        return print_run(api, run)
    from rubricworks.runs.records import run_record
    from rubricworks.runs.store import open_run_store

    record = run_record(open_run_store(place), run)
    if record is None:
        raise UserError(f"no run {run!r} in {place}; `rubricworks runs list --runs {place}` shows them")
    echo(f"{record.name}: {record.state}\n{record.uri}, {_size(record.bytes)}")
    for stage in record.stages:
        echo(f"  {stage.stage:<20}  {'done' if stage.done else 'not done'}  {_time(stage.changed)}")
    for at_work in record.progress:
        if at_work.waiting:
            echo(f"{at_work.stage}: {at_work.waiting}")
    if record.message:
        echo(f"failed in {record.message}" if record.state == "failed" else record.message)
    if record.fault:
        echo(f"cannot be read in full: {record.fault}")


@runs.command()
@click.argument("run")
@click.argument("stage", required=False)
@runs_option
@click.option("--follow", "-f", is_flag=True, help="Print lines as they come, until the run ends.")
def logs(run: str, stage: str | None, place: str, follow: bool) -> None:
    """Print the end of the log of RUN's STAGE, by default of the one that is at work or was the last.

    \b
    rubricworks runs logs my-20261123-020900 --follow
    rubricworks runs logs my-20261123-020900 train_policy
    """
    if api := _api():
        from rubricworks.cli.installation import api_runs

        return api_runs.print_log(api, run, stage or api_runs.last_stage(api, run), follow=follow)
    _print_log(place, run, stage, follow=follow)


@runs.command("ask-again")
@click.argument("run")
@click.argument("stage")
@runs_option
def ask_again(run: str, stage: str, place: str) -> None:
    """Reopen RUN's finished STAGE for its dead letters, the calls without a usable answer.

    A run that was submitted to an installation goes on there by itself; any other one is resumed by you, asks those
    calls alone, and runs the stages after them again.

    \b
    rubricworks runs ask-again my-20261123-020900 caption_committee
    rubricworks run --resume my-20261123-020900
    """
    if api := _api():
        from rubricworks.cli.installation import api_runs

        return api_runs.ask_again(api, run, stage)
    from rubricworks.runs.dead_letters import reopen_dead_letters
    from rubricworks.storage import is_remote

    if is_remote(place):
        raise UserError(
            f"{place} is a bucket, where no stage is reopened: delete {run}/{stage} there, then resume the run"
        )
    folder = Path(place) / run
    if not folder.is_dir():
        raise UserError(f"no run {run!r} in {place}; `rubricworks runs list --runs {place}` shows them")
    if not (count := reopen_dead_letters(folder, stage)):
        raise UserError(f"{stage} of {run} has no dead letters")
    elsewhere = "" if place == "runs" else f" --runs {place}"
    command = f"rubricworks run --resume {run}{elsewhere}"
    echo(f"{stage} of {run} is reopened for {count} dead letters; resume it: {command}")


@runs.command()
@click.argument("recipe")
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a field: policy.algorithm.steps=50.")
@click.option("--arm", metavar="NAME", help="Run one of the recipe's arms.")
@click.option("--run", "run_id", metavar="ID", help="Name of the run; by default recipe, date and time.")
@click.option(
    "--place",
    "where",
    type=click.Choice(["here", "kubeflow"]),
    help="Run it on the service's own machine (here) or on Kubeflow; by default where the installation runs recipes.",
)
def submit(recipe: str, overrides: tuple[str, ...], arm: str | None, run_id: str | None, where: str | None) -> None:
    """Submit RECIPE to the installation that RUBRICWORKS_API names, which runs it."""
    from rubricworks.cli.installation.api_runs import submit_run

    api = _api()
    if api is None:
        raise UserError("name the installation by RUBRICWORKS_API, or run it yourself: rubricworks run")
    submit_run(api, recipe, overrides, arm, run_id, where)


@runs.command()
@click.argument("run")
@cluster_option
def stop(run: str, recipe: str | None) -> None:
    """Stop RUN on Kubeflow, or at the installation; what its stages committed is kept."""
    if api := _api():
        from rubricworks.cli.installation import api_runs

        return api_runs.stop_run(api, run)
    from rubricworks.kubeflow.remote_runs import stop_run

    stopped = stop_run(connect_by_recipe(recipe), run)
    echo(f"run {stopped.name} is {stopped.state.lower()}; go on with it: rubricworks runs retry {stopped.name}")


@runs.command()
@click.argument("run")
@cluster_option
def retry(run: str, recipe: str | None) -> None:
    """Start the failed stages of RUN on Kubeflow again; each goes on from what it committed."""
    from rubricworks.kubeflow.remote_runs import retry_run

    retried = retry_run(connect_by_recipe(recipe), run)
    echo(f"run {retried.name} is {retried.state.lower()}\n{retried.page}")


@runs.command()
@click.option("--older-than", required=True, metavar="AGE", help="Age of a run's last change: 12h, 90d, 8w.")
@runs_option
@click.option("--dry-run", is_flag=True, help="List the runs; delete nothing.")
def prune(older_than: str, place: str, dry_run: bool) -> None:
    """Delete old runs, finished or not, unless a model in use came from them or a run that stays reuses them.

    A run that has not ended must have been quiet for three days, whatever AGE says: it may be running, or waiting.

    \b
    rubricworks runs prune --older-than 90d --dry-run
    rubricworks runs prune --older-than 90d --runs s3://rubricworks/runs
    """
    from rubricworks.runs.pruning import parse_age, prune_runs
    from rubricworks.runs.store import open_run_store

    limit = parse_age(older_than)
    count, freed = 0, 0
    for run, keep_reason, traces in prune_runs(open_run_store(place), limit, dry_run=dry_run):
        if keep_reason:
            echo(f"kept {run.name}: {keep_reason}")
            continue
        details = f"{run.state}, last changed {_time(run.changed)}, {_size(run.bytes)}"
        versions = [f"{version.model} version {version.version}" for version in traces.versions]
        if traces.runs or versions:
            details += f", with {', '.join([f'{len(traces.runs)} runs at MLflow', *versions])}"
        echo(f"{'would delete' if dry_run else 'deleted'} {run.name}: {details}")
        count, freed = count + 1, freed + run.bytes
    echo(f"{'would delete' if dry_run else 'deleted'} {count} runs, {_size(freed)}")


def _api() -> "ApiClient | None":
    """The installation that the environment names, unless an option names another place."""
    from rubricworks.tracking.installation import named_api

    context = click.get_current_context()
    sources = (context.get_parameter_source(name) for name in ("place", "on", "recipe"))
    is_elsewhere = context.command.name != "submit" and click.core.ParameterSource.COMMANDLINE in sources
    return None if is_elsewhere else named_api()


def _print_log(place: str, run: str, stage: str | None, *, follow: bool) -> None:
    from rubricworks.redaction import redact
    from rubricworks.runs.records import run_record
    from rubricworks.runs.store import open_run_store

    store, known = open_run_store(place), 0
    while True:
        record = run_record(store, run)
        if record is None:
            raise UserError(f"no run {run!r} in {place}; `rubricworks runs list --runs {place}` shows them")
        if stage is None and record.stages:
            stage = max(record.stages, key=lambda begun: (not begun.done, begun.changed)).stage
        content = store.read(run, f"logs/{stage}.log") if stage else None
        if content is None and not follow:
            names = ", ".join(begun.stage for begun in record.stages) or "none has begun"
            raise UserError(f"{stage or 'a stage'} of {run} has no log; its stages: {names}")
        echo(redact((content or b"")[known:].decode(errors="replace")), nl=False)
        known = len(content or b"")
        if not follow or record.state != "going":
            return
        time.sleep(_PAUSE)


def _row(run: "RunRecord") -> list[str]:
    return [run.name, run.state, run.pipeline, _time(run.started), _time(run.changed)]


def _remote_row(run: "RemoteRun") -> list[str]:
    return [run.name, run.state.lower(), run.pipeline, _time(run.created), _time(run.ended)]


def _print_remote_run(run: "RemoteRun") -> None:
    echo(f"{run.name}: {run.state.lower()}\n{run.uri}\n{run.page}")
    for stage in run.stages:
        echo(f"  {stage.stage:<20}  {stage.state.lower():<10}  {_time(stage.ended or stage.started)}  {stage.error}")
    if run.error:
        echo(run.error)


def _print_table(titles: list[str], rows: "Iterable[list[str]]") -> None:
    lines = [titles, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    for line in lines:
        echo("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def _time(when: datetime | None) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if when else "-"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
