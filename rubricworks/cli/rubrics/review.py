"""`rubricworks rubrics propose`, `versions`, `approve`, `reject`: review of edited rubrics at an installation."""

import json
from pathlib import Path

import click
from pydantic import ValidationError

from rubricworks.cli.installation.api_runs import require_api
from rubricworks.errors import UserError
from rubricworks.rubrics import Rubric
from rubricworks.terminal import echo
from rubricworks.tracking.installation import path_of

_stage_option = click.option(
    "--stage", default="synthesize_rubrics", show_default=True, help="Stage of the run that wrote the set."
)


@click.command()
@click.argument("run")
@click.argument("sample")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_stage_option
@click.option("--reason", required=True, help="Reason for the change.")
@click.option("--replaces", type=click.IntRange(1), help="Version it was made from; by default the current one.")
def propose(run: str, sample: str, file: Path, stage: str, reason: str, replaces: int | None) -> None:
    """Propose the rubric in FILE, as JSON, for SAMPLE of RUN at the installation; somebody else approves it.

    \b
    rubricworks rubrics propose my-20261123-020900 2b71b300c10aae76 better.json --reason "counts the cups"
    rubricworks rubrics versions --state proposed
    """
    try:
        rubric = Rubric.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{file}: {place}: {first['msg'].removeprefix('Value error, ')}") from None
    api = require_api()
    place = path_of("runs", run, "rubrics", stage, sample)
    before = replaces or api.get(place)["standing"]
    body = {"rubric": json.loads(rubric.model_dump_json()), "replaces": before, "reason": reason}
    version = api.post(f"{place}/versions", body)
    echo(f"proposal {version['id']}: version {version['number']} of {sample}; it waits for another person")


@click.command()
@click.option("--state", type=click.Choice(["proposed", "approved", "rejected"]), help="Only these.")
@click.option("--run", help="Only versions of this run.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="Versions at most.")
def versions(state: str | None, run: str | None, limit: int) -> None:
    """List the edited rubrics of the installation, the newest first, by the number that `approve` takes."""
    for version in require_api().get("rubric-versions", state=state, run=run, limit=limit)["items"]:
        place = f"{version['run']}/{version['stage']}/{version['sample_id']}"
        echo(
            f"{version['id']:<6} {version['state']:<9} {place} version {version['number']}, by {version['proposed_by']}"
        )
        echo(f"       {version['reason']}")


@click.command()
@click.argument("number", type=click.IntRange(1))
@click.option("--reason", default="", help="Reason of the decision.")
def approve(number: int, reason: str) -> None:
    """Approve proposal NUMBER of somebody else; its rubric becomes the current one."""
    _decide(number, "approve", reason)


@click.command()
@click.argument("number", type=click.IntRange(1))
@click.option("--reason", required=True, help="Reason of the decision.")
def reject(number: int, reason: str) -> None:
    """Reject proposal NUMBER; the current rubric stays."""
    _decide(number, "reject", reason)


def _decide(number: int, decision: str, reason: str) -> None:
    version = require_api().post(path_of("rubric-versions", number, decision), {"reason": reason})
    echo(f"version {version['number']} of {version['sample_id']} in {version['run']} is {version['state']}")
