"""`rubricworks recipes`: the built-in recipes and their schema."""

import json
import shutil
from pathlib import Path

import click

from rubricworks.errors import UserError
from rubricworks.recipe.files import built_in_recipes, load_recipe, recipe_path
from rubricworks.recipe.schema import recipe_schema
from rubricworks.terminal import echo


@click.group()
def recipes() -> None:
    """List, show and copy recipes, and print their schema."""


@recipes.command("list")
def list_() -> None:
    """List the built-in recipes."""
    for path in built_in_recipes():
        recipe = load_recipe(path)
        echo(f"{path.stem:<18} {recipe.description.strip()}")
    echo("\nRun one: rubricworks run NAME   Make it yours: rubricworks recipes copy NAME my.yaml")


@recipes.command()
@click.argument("name")
@click.argument("target", type=click.Path(path_type=Path))
def copy(name: str, target: Path) -> None:
    """Copy recipe NAME to the file TARGET, with its comments."""
    if target.is_dir():
        target = target / f"{name}.yaml"
    if target.exists():
        raise UserError(f"{target} is there already; choose another name or remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(recipe_path(name), target)
    echo(f"{target}: edit it, check it with `rubricworks doctor {target}`, run it with `rubricworks run {target}`")


@recipes.command()
@click.argument("name")
def show(name: str) -> None:
    """Print recipe NAME, with its comments."""
    echo(recipe_path(name).read_text(encoding="utf-8"), nl=False)


@recipes.command()
def schema() -> None:
    """Print the JSON schema of recipes, for editors that complete and check YAML."""
    echo(json.dumps(recipe_schema(), indent=2))
