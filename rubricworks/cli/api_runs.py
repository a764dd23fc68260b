"""Runs of an installation, through its API: what `rubricworks runs` prints where one is named."""

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from rubricworks.recipe.files import recipe_path
from rubricworks.tracking.installation import ApiClient, path_of


def run_rows(api: ApiClient, limit: int) -> list[list[str]]:
    """Table of the newest runs."""
    rows: list[dict[str, Any]] = []
    cursor = None
    while len(rows) < limit:
        page = api.get("runs", limit=min(limit - len(rows), 200), cursor=cursor)
        rows += page["items"]
        if (cursor := page["next_cursor"]) is None:
            break
    return [[run["name"], run["state"], run["pipeline"], _time(run["started"]), _time(run["changed"])] for run in rows]


def print_run(api: ApiClient, run: str) -> None:
    """Print a run with its stages."""
    found = api.get(path_of("runs", run))
    click.echo(f"{found['name']}: {found['state']}\n{api.url}/runs/{found['name']}")
    for stage in found["stages"]:
        click.echo(f"  {stage['stage']:<20}  {'done' if stage['done'] else 'not done'}  {_time(stage['changed'])}")
    if found["message"]:
        click.echo(f"failed in {found['message']}" if found["state"] == "failed" else found["message"])


def submit_run(api: ApiClient, recipe: str, overrides: tuple[str, ...], arm: str | None, run: str | None) -> None:
    """Submit a recipe and print where its run is."""
    text = Path(recipe_path(recipe)).read_text(encoding="utf-8")
    body = {"recipe": text, "overrides": list(overrides), "arm": arm, "run": run}
    submission = api.post("submissions", body)
    place = submission["page"] or f"{api.url}/submissions/{submission['run']}"
    click.echo(f"run {submission['run']} {'on Kubeflow' if submission['place'] == 'kubeflow' else 'there'}\n{place}")


def stop_run(api: ApiClient, run: str) -> None:
    """Stop a run."""
    api.post(path_of("runs", run, "stop"), {})
    click.echo(f"run {run} is being stopped; what its stages committed stays")


def _time(text: str) -> str:
    return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M")
