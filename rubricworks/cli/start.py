"""The first hour: `init` writes a recipe for one image folder and one endpoint, `doctor` checks what it needs."""

import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from rubricworks.cli.checks import check_recipe
from rubricworks.cli.world import running_world
from rubricworks.errors import UserError
from rubricworks.recipe.files import load_recipe, recipe_path


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
    named = model or _only_model(endpoint, api_key_env)
    template = recipe_path("one-endpoint").read_text(encoding="utf-8")
    text = (
        template.replace("${RUBRICWORKS_IMAGES}", _from_anywhere(images))
        .replace("${RUBRICWORKS_ENDPOINT}", endpoint)
        .replace("Qwen/Qwen2.5-VL-72B-Instruct", named)
        .replace("Qwen/Qwen2.5-VL-3B-Instruct", student)
        .replace("held_out: 500", f"held_out: {min(500, max(2, count // 5))}")
    )
    if api_key_env:
        text = text.replace("api_key_env: null", f"api_key_env: {api_key_env}")
    out.write_text(text, encoding="utf-8")
    load_recipe(out)
    click.echo(f"{out}: {count} images, {named} as committee, writer and judge\nnext: rubricworks doctor {out}")


def _from_anywhere(images: str) -> str:
    """The same source, whatever folder the recipe is run in."""
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
            stack.enter_context(running_world(parsed.world, Path(scratch)))
        for check in check_recipe(parsed, runs.absolute()):
            problems += check.problem is not None
            mark = click.style("fix", fg="red") if check.problem else click.style("ok ", fg="green")
            click.echo(f"{mark}  {check.name:<32} {check.problem or check.detail}")
    click.echo(f"{problems} to fix" if problems else f"ready: rubricworks run {recipe}")
    context.exit(2 if problems else 0)
