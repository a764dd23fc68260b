"""`rubricworks init`: a recipe for images and an endpoint of one's own.

The recipe is a built-in one, filled in: `one-endpoint` for a student that needs a GPU, `one-endpoint-laptop` for the
tiny student and for a small model directory. The command prints what such a run would lack, before anything is paid
for.
"""

import asyncio
import json
import re
from difflib import get_close_matches
from pathlib import Path

import click
from pydantic import ValidationError

from rubricworks.errors import UserError
from rubricworks.llm import Endpoint
from rubricworks.recipe.estimate import unreachable_promises
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.recipe.models import require_pinned
from rubricworks.recipe.sizes import CPU_PARAMETERS, count_parameters
from rubricworks.terminal import echo
from rubricworks.tracking.gate import Gate

_MIN_IMAGES = 4
_MAX_HELD_OUT = 500
_FEWEST_JUDGED = 20
"""Judged images from which on the win rate's interval keeps its promise (`tracking.gate`)."""
_SPARE_TOKENS = 4
_MAX_CAPTION_TOKENS = 256
_PLAIN_SCALAR = re.compile(r"[\w/][\w./-]*")
_WARM_UP = re.compile(r"^# 0\.7 M.*?(?=^student:)", re.MULTILINE | re.DOTALL)
_STUDENT = "Qwen/Qwen2.5-VL-3B-Instruct@66285546d2b821cf421d4f5eb2576359d3770cd3"
"""Student of the built-in recipe `one-endpoint`."""
_PROMPT = re.compile(r"^  # The tiny student reads.*?\n  prompt: .*?\n", re.MULTILINE | re.DOTALL)


@click.command()
@click.option("--images", required=True, help="Folder, Parquet, Hugging Face dataset or WebDataset tar.")
@click.option("--endpoint", required=True, help="URL of an OpenAI-compatible server, such as http://localhost:8000/v1.")
@click.option("--model", help="Model there; may be left out if the server has only one.")
@click.option("--api-key-env", help="Environment variable that holds the API key.")
@click.option(
    "--student",
    default=_STUDENT,
    show_default=True,
    help="The model to train: org/name@COMMIT of the Hub, a model directory, or `tiny`, which needs no GPU.",
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("my-recipe.yaml"), show_default=True)
def init(images: str, endpoint: str, model: str | None, api_key_env: str | None, student: str, out: Path) -> None:
    """Write a recipe that uses one endpoint as committee, rubric writer and judge."""
    from rubricworks.data.source_entries import ImageEntry
    from rubricworks.data.sources import image_entries

    if out.exists():
        raise UserError(f"{out} is there already; choose another name with --out or remove it")
    entries = [entry for entry in image_entries(images) if isinstance(entry, ImageEntry)]
    if len(entries) < _MIN_IMAGES:
        raise UserError(
            f"{images}: {len(entries)} images; a run needs at least {_MIN_IMAGES}, some to train on and some held out"
        )
    captions = [caption for entry in entries for caption in entry.references]
    captioned = sum(bool(entry.references) for entry in entries)
    if student == "tiny" and not captions:
        raise UserError(
            f"{images}: none of the {len(entries)} images has a caption, and the tiny student learns to write from "
            'captions; put a metadata.jsonl beside the images, a line such as {"file_name": "a.jpg", "text": "a red '
            'barn"} for each, or take a --student that can caption'
        )
    asked = _endpoint(endpoint, model or "?", api_key_env)
    model = _served_model(asked, model) if model else _only_model(asked)
    text = _recipe_for(student, captions)
    held_out = min(_MAX_HELD_OUT, max(2, len(entries) // 5, min(Gate().samples_at_least, len(entries) // 2)))
    text = (
        text.replace("${RUBRICWORKS_IMAGES}", _scalar(_absolute_source(images)))
        .replace('"${RUBRICWORKS_ENDPOINT}"', json.dumps(endpoint))
        .replace("Qwen/Qwen2.5-VL-72B-Instruct", _scalar(model))
        .replace("held_out: 500", f"held_out: {held_out}")
    )
    if _FEWEST_JUDGED <= held_out < Gate().samples_at_least:
        text += (
            f"  # Of the usual {Gate().samples_at_least} judged images, as many as are held out.\n"
            f"  gate: {{samples_at_least: {held_out}}}\n"
        )
    if api_key_env:
        text = text.replace("api_key_env: null", f"api_key_env: {_scalar(api_key_env)}")
    out.write_text(text, encoding="utf-8")
    try:
        recipe = load_recipe(out)
        require_pinned(recipe)
    except UserError:
        out.unlink()
        raise
    echo(
        f"{out}: {len(entries)} images, {captioned} with captions, {held_out} held out; {model} as committee, writer "
        "and judge"
    )
    for promise in unreachable_promises(recipe, len(entries)):
        echo(f"note: {promise}")
    echo(f"next: rubricworks doctor {out}")


def _recipe_for(student: str, captions: list[str]) -> str:
    """Text of the built-in recipe for a student, with the student filled in."""
    is_folder = Path(student).is_dir()
    parameters = count_parameters(student)
    name = str(Path(student).absolute()) if is_folder else student
    if student != "tiny" and not (is_folder and parameters is not None and parameters <= CPU_PARAMETERS):
        template = recipe_path("one-endpoint").read_text(encoding="utf-8")
        return template.replace(_STUDENT, _scalar(name))
    text = recipe_path("one-endpoint-laptop").read_text(encoding="utf-8")
    # A word is one token of the tiny student, and two of most others.
    longest = max((len(caption.split()) for caption in captions), default=40)
    tokens = min(_MAX_CAPTION_TOKENS, longest * (1 if student == "tiny" else 2) + _SPARE_TOKENS)
    text = text.replace("max_new_tokens: 44", f"max_new_tokens: {tokens}")
    if student != "tiny":
        text = _WARM_UP.sub(
            "# Your model as it is; with an `sft` section as in `rubricworks recipes show quickstart` it first learns "
            f"from the\n# captions of your images.\nwarm_up:\n  student: {_scalar(name)}\n\n",
            text,
        )
        text = _PROMPT.sub("", text)
    return text


def _scalar(text: str) -> str:
    """A text as YAML, quoted unless it is plain."""
    return text if _PLAIN_SCALAR.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _absolute_source(images: str) -> str:
    """The source with an absolute path, so that the recipe runs in any folder."""
    from rubricworks.data.sources import KINDS

    kind, colon, path = images.partition(":")
    if "://" in images:
        return images
    return f"{kind}:{Path(path).absolute()}" if colon and kind in KINDS else str(Path(images).absolute())


def _endpoint(url: str, model: str, api_key_env: str | None) -> Endpoint:
    try:
        return Endpoint(url=url, model=model, api_key_env=api_key_env)
    except ValidationError as error:  # its own text would repeat a password in the URL
        raise UserError(f"--endpoint {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def _served_model(endpoint: Endpoint, model: str) -> str:
    """The model, if the endpoint lists it or tells nothing; `doctor` asks it.

    Raises:
        UserError: the endpoint lists others.
    """
    from rubricworks.llm import list_models

    try:
        served = asyncio.run(list_models(endpoint))
    except UserError:
        return model
    if served and model not in served:
        near = get_close_matches(model, served, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UserError(f"{endpoint.urls[0]} does not serve {model}, but {', '.join(served[:8])}{hint}")
    return model


def _only_model(endpoint: Endpoint) -> str:
    from rubricworks.llm import list_models

    served = asyncio.run(list_models(endpoint))
    if len(served) != 1:
        raise UserError(
            f"{endpoint.urls[0]} serves {', '.join(served) or 'no models that it lists'}; choose one with --model"
        )
    return served[0]
