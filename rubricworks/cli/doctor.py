"""`rubricworks doctor`: checks of what a recipe needs, each with what to do if it fails."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from rubricworks.cli.world import serve_world
from rubricworks.recipe.estimate import promise_warnings
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runs.recipe_checks import check_recipe
from rubricworks.terminal import echo


@click.command()
@click.argument("recipe")
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a field, as for `run`.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.pass_context
def doctor(context: click.Context, recipe: str, overrides: tuple[str, ...], runs: Path) -> None:
    """Check what RECIPE needs: packages, disk, memory, GPU, images, endpoints, tracking.

    The exit code is 2 if anything is missing.
    """
    parsed = load_recipe(recipe_path(recipe), overrides)
    problems = 0
    with ExitStack() as stack:
        if parsed.world:
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(serve_world(parsed.world, Path(scratch)))
        for check in check_recipe(parsed, runs.absolute()):
            problems += check.problem is not None
            click.secho("fix" if check.problem else "ok ", nl=False, fg="red" if check.problem else "green")
            echo(f"  {check.name:<32} {check.problem or check.detail}")
        for warning in promise_warnings(parsed):
            click.secho("note", nl=False, fg="yellow")
            echo(f" {'result':<32} {warning}")
    echo(f"{problems} to fix" if problems else f"ready: rubricworks run {recipe}")
    context.exit(2 if problems else 0)
