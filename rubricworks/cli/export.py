"""`rubricworks export`: the training set of a run, for another trainer or for reading."""

from pathlib import Path
from typing import get_args

import click

from rubricworks.errors import UserError
from rubricworks.runs.input_tables import is_run
from rubricworks.runs.training_set import Format, write_training_set
from rubricworks.terminal import echo


@click.command()
@click.argument("run")
@click.argument("form", metavar="FORMAT", type=click.Choice(get_args(Format)))
@click.option("--out", type=click.Path(path_type=Path), help="New folder; by default RUN-FORMAT.")
@click.option("--runs", default=Path("runs"), type=click.Path(path_type=Path), show_default=True, metavar="FOLDER")
def export(run: str, form: Format, out: Path | None, runs: Path) -> None:
    """Write the samples of RUN that have a rubric as a training set: image, prompt, rubric.

    FORMAT is trl, verl, hf (a data set of Hugging Face), csv or jsonl (both with images beside them). RUN is a run's
    name, or its folder. The held-out samples become the split `test`.

    \b
    rubricworks export first trl        # first-trl/train.parquet, first-trl/test.parquet
    rubricworks export runs/first csv --out captions
    """
    folder = Path(run) if is_run(Path(run)) else runs / run
    if not is_run(folder):
        raise UserError(f"no run {run!r} in {runs}; `rubricworks runs list --runs {runs}` shows them")
    target = out or Path(f"{folder.name}-{form}")
    counts = write_training_set(folder, form, target)
    echo(f"{target}: {', '.join(f'{count} rows in {split}' for split, count in counts.items())}, as {form}")
