"""`rubricworks caption`: captions of images by a model or an endpoint, without a recipe.

It starts the same stages as a run, in a folder of its own, so it resumes like a run.
"""

from pathlib import Path

import click
from pydantic import BaseModel

from rubricworks.cli.options import api_key_option, parse_endpoint
from rubricworks.cli.single_steps.row_file import write_rows
from rubricworks.data.tables import read_rows
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.runtime.config import canonical_json
from rubricworks.runtime.launch import launch
from rubricworks.stages.data import prepare
from rubricworks.stages.synthesis import caption_committee, caption_student
from rubricworks.stages.training import warm_up
from rubricworks.synthesis.prompts import CAPTION_PROMPT
from rubricworks.training.model_card import read_usage

out_option = click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the tables.")
prompt_option = click.option("--prompt", default=CAPTION_PROMPT, help="Prompt of the captioner.", show_default=False)


@click.command()
@click.argument("images")
@click.option(
    "--model",
    required=True,
    help="A model directory, org/name@COMMIT of the Hub, or MODEL@URL of an OpenAI-compatible server.",
)
@click.option("--max-new-tokens", type=int, help="By default the model directory's own, or 1024.")
@click.option("--prompt", help="Prompt of the captioner. By default the model directory's own, or one for detail.")
@api_key_option
@out_option
def caption(
    images: str, model: str, max_new_tokens: int | None, prompt: str | None, api_key_env: str | None, out: Path
) -> None:
    """Caption IMAGES (a folder, Parquet, dataset or tar) and write OUT/captions.parquet.

    \b
    rubricworks caption photos/ --model runs/ID/train_policy/model --out captions/
    rubricworks caption photos/ --model Qwen2.5-VL-7B@http://localhost:8000/v1 --out captions/

    A model that was trained here gets the prompt of its training, which its model card holds.
    """
    own = read_usage(Path(model))
    prompt = prompt or own.prompt or CAPTION_PROMPT
    max_new_tokens = max_new_tokens or own.max_new_tokens or 1024
    with lock_folder(out.absolute()):
        samples = run_stage(out, "prepare", prepare.Config(source=images, prompt=prompt, train_only=True))
        if "@http" in model:
            teacher = parse_endpoint(model, api_key_env, max_tokens=max_new_tokens)
            config = caption_committee.Config(teachers=(teacher,))
            captions = run_stage(out, "caption_committee", config, samples=samples)
        else:
            captions = caption_by_model(out, model, max_new_tokens, samples)
        sources = {row["sample_id"]: row["source"] for row in read_rows(samples, columns=["sample_id", "source"])}
        rows = [
            {"sample_id": row["sample_id"], "source": sources[row["sample_id"]], "caption": row["caption"]}
            for row in read_rows(captions, columns=["sample_id", "caption"])
        ]
    write_rows(rows, out / "captions.parquet")


def run_stage(out: Path, stage: str, config: BaseModel, **inputs: str) -> str:
    """Run one stage of a run whose folder is `out`; returns the URI of its table."""
    return launch(stage, canonical_json(config), str(out), inputs)


def caption_by_model(out: Path, model: str, max_new_tokens: int, samples: str) -> str:
    """Caption the samples with a model directory; returns the URI of the captions."""
    student = run_stage(out, "warm_up", warm_up.Config(student=model), samples=samples)
    config = caption_student.Config(max_new_tokens=max_new_tokens)
    return run_stage(out, "caption_student", config, samples=samples, model=student)
