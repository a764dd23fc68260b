"""`rubricworks rubrics push`: a rubric set as a data set of the Hugging Face Hub, with its card."""

import tempfile
from collections import Counter
from pathlib import Path

import click

from rubricworks.cli.rubrics.convert import chosen, sample_option
from rubricworks.data.hub import upload_folder
from rubricworks.data.rubric_sets import FORMATS, read_rubric_set, write_rubric_set
from rubricworks.data.rubric_sets.card import DATA_FILE, rubric_set_card
from rubricworks.errors import UserError
from rubricworks.terminal import echo


@click.command()
@click.argument("source", metavar="RUBRICS")
@click.argument("name", metavar="ORG/NAME")
@click.option("--format", "format_name", type=click.Choice(FORMATS), help="Format of RUBRICS; detected by default.")
@sample_option
@click.option("--public", is_flag=True, help="Make the data set public; by default a new one is private.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the files into this new folder, and upload nothing."
)
def push(
    source: str, name: str, format_name: str | None, samples: tuple[str, ...], public: bool, out: Path | None
) -> None:
    """Upload RUBRICS to the Hub as the data set ORG/NAME: a table and a dataset card. HF_TOKEN must hold a token.

    \b
    rubricworks rubrics push rubrics.parquet my-org/caption-rubrics
    rubricworks rubrics push rubrics.parquet my-org/caption-rubrics --out card     # look first
    """
    notes: Counter[str] = Counter()
    entries = list(chosen(read_rubric_set(source, format_name, note=lambda text: notes.update([text])), samples))
    if not entries:
        raise UserError(f"{source}: there is no rubric to upload")
    if out is not None and out.exists():
        raise UserError(f"--out {out} is there already; name a new folder")
    with tempfile.TemporaryDirectory() as temporary:
        folder = out or Path(temporary)
        (folder / DATA_FILE).parent.mkdir(parents=True)
        write_rubric_set(entries, folder / DATA_FILE, "rubricworks", note=lambda text: notes.update([text]))
        (folder / "README.md").write_text(rubric_set_card(entries, name), encoding="utf-8")
        for text, times in notes.items():
            echo(f"note: {text} ({times} rubric{'s' if times > 1 else ''})", err=True)
        if out is not None:
            echo(f"{out}: {len(entries)} rubrics and their card, not uploaded")
            return
        message = f"Add {len(entries)} rubrics"
        commit = upload_folder(folder, name, kind="dataset", private=not public, message=message)
    echo(f"{name}@{commit}: {len(entries)} rubrics")
