"""Runs of an installation, through its API: what `rubricworks runs` prints where one is named."""

from datetime import datetime
from typing import Any

from rubricworks.errors import UserError
from rubricworks.recipe.files import recipe_path, recipe_text
from rubricworks.terminal import echo
from rubricworks.tracking.installation import VARIABLE, ApiClient, named_api, path_of


def require_api() -> ApiClient:
    """The installation that the environment names.

    Raises:
        UserError: it names none.
    """
    api = named_api()
    if api is None:
        raise UserError(f"name the installation by {VARIABLE}=https://host, and log in: rubricworks login https://host")
    return api


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
    record = api.get(path_of("runs", run))
    echo(f"{record['name']}: {record['state']}\n{api.url}/runs/{record['name']}")
    for stage in record["stages"]:
        echo(f"  {stage['stage']:<20}  {'done' if stage['done'] else 'not done'}  {_time(stage['changed'])}")
    for at_work in record["progress"]:
        if at_work["waiting"]:
            echo(f"{at_work['stage']}: {at_work['waiting']}")
    if record["message"]:
        echo(f"failed in {record['message']}" if record["state"] == "failed" else record["message"])


def submit_run(
    api: ApiClient, recipe: str, overrides: tuple[str, ...], arm: str | None, run: str | None, place: str | None
) -> None:
    """Submit a recipe and print where its run is."""
    path = recipe_path(recipe)
    if not (text := recipe_text(path)).strip():
        raise UserError(f"{path} is empty; a recipe is a mapping such as `name: quickstart`")
    body = {"recipe": text, "overrides": list(overrides), "arm": arm, "run": run, "place": place}
    submission = api.post("submissions", body)
    page = submission["page"] or f"{api.url}/submissions/{submission['run']}"
    echo(f"run {submission['run']} {'on Kubeflow' if submission['place'] == 'kubeflow' else 'there'}\n{page}")


def stop_run(api: ApiClient, run: str) -> None:
    """Stop a run."""
    api.post(path_of("runs", run, "stop"), {})
    echo(f"run {run} is being stopped; what its stages committed stays")


def print_log(api: ApiClient, run: str, stage: str, *, follow: bool) -> None:
    """Print the end of a stage's log and, if asked, each line that comes until the run ends."""
    place, begin = path_of("runs", run, "stages", stage, "log"), "0"
    if not follow:
        return echo(api.get(place)["text"], nl=False)
    while True:  # the service ends a stream after some minutes
        for event in api.events(f"{place}/events?after={begin}"):
            if event.name == "end":
                return
            echo(event.data, nl=False)
            begin = event.id


def last_stage(api: ApiClient, run: str) -> str:
    """The stage of a run that changed last.

    Raises:
        UserError: no stage has begun.
    """
    stages = api.get(path_of("runs", run))["stages"]
    if not stages:
        raise UserError(f"no stage of {run} has begun; look again in a moment")
    return str(max(stages, key=lambda stage: (not stage["done"], stage["changed"]))["stage"])


def ask_again(api: ApiClient, run: str, stage: str) -> None:
    """Reopen a stage for its dead letters; say whether the run goes on there, or how to resume it."""
    answer = api.post(path_of("runs", run, "dead-letters", stage, "ask-again"), {})
    done = f"{stage} of {run} is reopened for {answer['letters']} dead letters"
    echo(f"{done}; the run goes on" if answer["resumed"] else f"{done}; resume it: {answer['command']}")


def _time(text: str) -> str:
    return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M")
