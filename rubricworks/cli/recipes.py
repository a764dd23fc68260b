"""`rubricworks recipes` and `init`: the built-in recipes, their schema, and a recipe for images of one's own."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any, Union

import click
from pydantic import TypeAdapter

from rubricworks.errors import UserError
from rubricworks.recipe import METHODS, recipe_class
from rubricworks.recipe.files import built_in_recipes, load_recipe, recipe_path


@click.group()
def recipes() -> None:
    """List, show, copy and describe recipes."""


@recipes.command("list")
def list_() -> None:
    """List the built-in recipes."""
    for path in built_in_recipes():
        recipe = load_recipe(path)
        click.echo(f"{path.stem:<18} {recipe.description.strip()}")
    click.echo("\nRun one: rubricworks run NAME   Make it yours: rubricworks recipes copy NAME my.yaml")


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
    click.echo(
        f"{target}: edit it, check it with `rubricworks doctor {target}`, run it with `rubricworks run {target}`"
    )


@recipes.command()
@click.argument("name")
def show(name: str) -> None:
    """Print recipe NAME, with its comments."""
    click.echo(recipe_path(name).read_text(encoding="utf-8"), nl=False)


@recipes.command()
def schema() -> None:
    """Print the JSON schema of recipes, for editors that complete and check YAML."""
    kinds: Any = Union[tuple(recipe_class(method) for method in METHODS)]  # noqa: UP007 - of a tuple that is not known here
    click.echo(json.dumps(TypeAdapter(kinds).json_schema(), indent=2))


@click.command()
@click.option("--images", required=True, help="Folder, Parquet, Hugging Face dataset or WebDataset tar.")
@click.option("--endpoint", required=True, help="URL of an OpenAI-compatible server, such as http://localhost:8000/v1.")
@click.option("--model", help="Model there; may be left out if the server has only one.")
@click.option("--api-key-env", help="Environment variable that holds the API key.")
@click.option("--student", default="Qwen/Qwen2.5-VL-3B-Instruct", show_default=True, help="The model to train.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("my-recipe.yaml"), show_default=True)
def init(images: str, endpoint: str, model: str | None, api_key_env: str | None, student: str, out: Path) -> None:
    """Write a recipe that uses one endpoint as committee, rubric writer and judge."""
    from rubricworks.data.sources import image_entries

    if out.exists():
        raise UserError(f"{out} is there already; choose another name with --out or remove it")
    count = sum(1 for _ in image_entries(images))
    if count < 4:
        raise UserError(f"{images}: {count} images; a run needs at least 4, some to train on and some held out")
    model = model or _only_model(endpoint, api_key_env)
    template = recipe_path("one-endpoint").read_text(encoding="utf-8")
    text = (
        template.replace("${RUBRICWORKS_IMAGES}", _absolute_source(images))
        .replace("${RUBRICWORKS_ENDPOINT}", endpoint)
        .replace("Qwen/Qwen2.5-VL-72B-Instruct", model)
        .replace("Qwen/Qwen2.5-VL-3B-Instruct", student)
        .replace("held_out: 500", f"held_out: {min(500, max(2, count // 5))}")
    )
    if api_key_env:
        text = text.replace("api_key_env: null", f"api_key_env: {api_key_env}")
    out.write_text(text, encoding="utf-8")
    load_recipe(out)
    click.echo(f"{out}: {count} images, {model} as committee, writer and judge\nnext: rubricworks doctor {out}")


def _absolute_source(images: str) -> str:
    """The source with an absolute path, so that the recipe runs in any folder."""
    from rubricworks.data.sources import KINDS

    kind, colon, path = images.partition(":")
    if "://" in images:
        return images
    return f"{kind}:{Path(path).absolute()}" if colon and kind in KINDS else str(Path(images).absolute())


def _only_model(endpoint: str, api_key_env: str | None) -> str:
    from rubricworks.llm import Endpoint, list_models

    served = asyncio.run(list_models(Endpoint(url=endpoint, model="?", api_key_env=api_key_env)))
    if len(served) != 1:
        raise UserError(f"{endpoint} serves {', '.join(served) or 'no models that it lists'}; choose one with --model")
    return served[0]
