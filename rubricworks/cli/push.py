"""`rubricworks push`: the trained model of a run as a model of the Hugging Face Hub, with its card."""

import tempfile
from pathlib import Path
from typing import get_args

import click

from rubricworks.data.hub import benchmark_tasks, upload_folder
from rubricworks.errors import UserError
from rubricworks.evaluation.hub_results import Scale, parse_hub_benchmark
from rubricworks.runs.published_model import published_card, published_files, published_results, write_published
from rubricworks.runs.run_name import check_run_name
from rubricworks.runs.trained_model import TrainedModel, trained_model
from rubricworks.runs.working_copy import local_runs_folder
from rubricworks.runtime.store.downloads import fetch_input
from rubricworks.runtime.store.workspace import fetch_records
from rubricworks.storage import is_remote, join
from rubricworks.terminal import echo
from rubricworks.training.model_card import CARD


@click.command()
@click.argument("run")
@click.argument("name", metavar="ORG/NAME")
@click.option("--stage", metavar="STAGE", help="Stage whose model to upload; by default the evaluated policy.")
@click.option(
    "--benchmark",
    "benchmarks",
    multiple=True,
    metavar="TASK=ORG/DATASET:ID",
    help="Add the result of a benchmark's TASK, which is task ID of that data set on the Hub; may repeat.",
)
@click.option(
    "--scale",
    type=click.Choice(get_args(Scale)),
    default="percent",
    show_default=True,
    help="Of the benchmarks' leaderboards: 0 to 100, or 0 to 1.",
)
@click.option("--public", is_flag=True, help="Make the model public; by default a new one is private.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the files into this new folder, and upload nothing."
)
@click.option(
    "--runs", default="runs", show_default=True, metavar="FOLDER", help="All runs: a folder or s3://bucket/folder."
)
def push(
    run: str,
    name: str,
    stage: str | None,
    benchmarks: tuple[str, ...],
    scale: Scale,
    public: bool,
    out: Path | None,
    runs: str,
) -> None:
    """Upload RUN's trained model to the Hub as the model ORG/NAME, with its card. HF_TOKEN must hold a token.

    RUN is a run's name, or its folder. Weights (safetensors), configuration, tokenizer and card go up, nothing else.

    \b
    rubricworks push quickstart-20260101-120000 my-org/captioner --out look     # look first
    rubricworks push quickstart-20260101-120000 my-org/captioner
    rubricworks push rlr3-20260101-120000 my-org/reasoner --benchmark chartqa=org/chartqa:test
    """
    on_the_hub = [parse_hub_benchmark(text) for text in benchmarks]
    model = _find(runs, run, stage)
    files = published_files(model)
    if out is not None and out.exists():
        raise UserError(f"--out {out} is there already; name a new folder")
    for left_out in files.left_out:
        echo(f"note: {left_out} stays here: no safetensors, configuration or tokenizer", err=True)
    results = published_results(model, on_the_hub, scale)
    texts = {CARD: published_card(model, [benchmark.task for benchmark in on_the_hub]), **results}
    label = f"the model of {model.run.name}, stage {model.stage}"
    if out is not None:
        write_published(model, files.chosen, out, texts=texts, copy=True)
        echo(f"{out}: {label}, {len(files.chosen) + len(texts)} files, not uploaded")
        return
    for benchmark in on_the_hub:
        if benchmark.task_id not in (tasks := benchmark_tasks(benchmark.dataset, benchmark.revision)):
            raise UserError(
                f"{benchmark.dataset}: no task {benchmark.task_id!r} in its eval.yaml; its tasks: {', '.join(tasks)}"
            )
    with tempfile.TemporaryDirectory() as folder:
        write_published(model, files.chosen, Path(folder), texts=texts, copy=False)
        message = f"Add {label}"
        commit = upload_folder(Path(folder), name, kind="model", private=not public, message=message)
    echo(f"{name}@{commit}: {label}, {len(files.chosen) + len(texts)} files")


def _find(runs: str, run: str, stage: str | None) -> TrainedModel:
    """Find the model on this machine, where that of a run in a store is fetched."""
    if not is_remote(runs):
        folder = Path(run)
        return trained_model(
            folder.absolute() if (folder / "recipe.yaml").is_file() else local_runs_folder(runs) / run, stage
        )
    check_run_name(run, "RUN")
    model = trained_model(fetch_records(join(runs, run)), stage)
    fetch_input(join(runs, run, model.stage), model.run / model.stage)
    return model
