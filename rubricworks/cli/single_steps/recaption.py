"""`rubricworks recaption`: captions of a source of any size, and the plan of a large one.

It starts the stage of the pipelines in a folder of its own, so it resumes like a run.
"""

import warnings
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import click

from rubricworks.cli.options import api_key_option, parse_endpoint
from rubricworks.cli.single_steps.caption import out_option, run_stage
from rubricworks.data.tables import count_rows, read_rows
from rubricworks.errors import UserError
from rubricworks.recipe.recaption_plan import RUBICAP_SOURCES, plan_recaption, read_rate
from rubricworks.reports.formats import dollars, number, whole
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.stages.synthesis.recaption import Captioner, Config
from rubricworks.terminal import echo
from rubricworks.training.config import EngineOptions


@click.command()
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option(
    "--model", help="A model directory, org/name@COMMIT of the Hub, or MODEL@URL of an OpenAI-compatible server."
)
@click.option("--engine", type=click.Choice(["generate", "vllm"]), default="generate", help="Engine of a model here.")
@click.option("--prompt", help="Request to the captioner; by default one for detail.")
@click.option("--max-new-tokens", default=1024, show_default=True, type=click.IntRange(min=1))
@click.option("--concurrency", default=128, show_default=True, type=click.IntRange(min=1), help="Requests in flight.")
@click.option("--batch", is_flag=True, help="Use the endpoint's Batch API: half the price, within a day.")
@click.option("--allow-host", "hosts", multiple=True, help="Host that images may be fetched from, for sources of URLs.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
@click.option("--plan", is_flag=True, help="Print hours, GPUs and dollars at the rate measured in --out; run nothing.")
@click.option("--images", type=click.IntRange(min=1), help="Images to plan for; by default RubiCap's 3.5 million.")
@click.option("--gpus", default=8, show_default=True, type=click.IntRange(min=1), help="GPUs to plan for.")
@click.option("--measured-on", default=1, show_default=True, type=click.IntRange(min=1), help="GPUs behind the rate.")
@click.option("--gpu-hour", default=0.0, type=click.FloatRange(min=0), help="Dollars of one GPU for an hour.")
@api_key_option
@out_option
def recaption(
    sources: tuple[str, ...],
    model: str | None,
    engine: Literal["generate", "vllm"],
    prompt: str | None,
    max_new_tokens: int,
    concurrency: int,
    batch: bool,
    hosts: tuple[str, ...],
    seed: int,
    plan: bool,
    images: int | None,
    gpus: int,
    measured_on: int,
    gpu_hour: float,
    api_key_env: str | None,
    out: Path,
) -> None:
    """Caption every image of SOURCEs (folders, Parquet, datasets, tars) into the table OUT/recaption.

    \b
    rubricworks recaption cc3m/ --model runs/ID/train_policy/model --engine vllm --out captions/
    rubricworks recaption --plan --out captions/ --gpus 32 --gpu-hour 2.5

    Run it again to resume at the first unfinished tar or row group. OUT/recaption/rejected lists the images that
    could not be used, with reasons.
    """
    if plan:
        _print_plan(out, images, gpus, measured_on, gpu_hour)
        return
    if not sources or not model:
        raise UserError("recaption: give SOURCEs and --model, or --plan with the --out of a finished recaptioning")
    with lock_folder(out.absolute()):
        captioner = _captioner(model, engine, api_key_env, max_new_tokens, {"concurrency": concurrency, "batch": batch})
        config = Config(sources=sources, captioners=(captioner,), prompt=prompt, allowed_hosts=hosts, seed=seed)
        table = Path(run_stage(out, "recaption", config))
    rejected, unanswered = count_rows(table / "rejected"), count_rows(table / "dead_letters")
    echo(f"{table}: {whole(count_rows(table))} captions")
    if rejected:
        reasons = "; ".join(f"{row['source']}: {row['reason']}" for row in islice(read_rows(table / "rejected"), 3))
        more = "; …" if rejected > 3 else ""
        warnings.warn(f"{rejected} rejected: {reasons}{more}; all are in {table / 'rejected'}", stacklevel=1)
    if unanswered:
        warnings.warn(f"{unanswered} images got no caption; see {table / 'dead_letters'}", stacklevel=1)


def _captioner(
    model: str, engine: Literal["generate", "vllm"], api_key_env: str | None, max_tokens: int, calls: dict[str, object]
) -> Captioner:
    if "@http" in model:
        endpoint = parse_endpoint(model, api_key_env, max_tokens=max_tokens)
        return Captioner(endpoint=endpoint.model_copy(update=calls))
    place = str(Path(model).absolute()) if Path(model).is_dir() else model
    return Captioner(model=place, engine=EngineOptions(kind=engine), max_new_tokens=max_tokens)


def _print_plan(out: Path, images: int | None, gpus: int, measured_on: int, gpu_hour: float) -> None:
    rate = read_rate(out)
    echo(
        f"measured on {whole(rate.images)} images: {number(rate.images_per_second, 1)} a second, "
        f"{number(rate.tokens_per_caption, 0)} tokens a caption, {dollars(1_000 * rate.dollars_per_image)} in calls "
        "per thousand"
    )
    sources = {"images": images} if images else RUBICAP_SOURCES
    rows: list[tuple[Any, ...]] = [("source", "images", "GPU hours", f"hours on {gpus}", "dollars")]
    for plan in plan_recaption(rate, sources, gpus=gpus, measured_on=measured_on, dollars_per_gpu_hour=gpu_hour):
        rows.append(
            (plan.name, whole(plan.images), number(plan.gpu_hours, 1), number(plan.hours, 1), dollars(plan.dollars))
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        echo("  ".join(cells))
