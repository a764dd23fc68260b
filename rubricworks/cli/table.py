"""`rubricworks table`: a paper's table from the scores of any runs, with the paper's figures beside ours."""

from pathlib import Path

import click

from rubricworks.errors import UserError
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo


@click.command()
@click.argument("paper")
@click.argument("number")
@click.argument("sources", nargs=-1, metavar="[[NAME=]FOLDER[:MODEL]]...")
@click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs"),
    show_default=True,
    help="Without FOLDERs: the newest run of each arm in this folder.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the table as page, .md and .json."
)
def table(paper: str, number: str, sources: tuple[str, ...], runs: Path, out: Path | None) -> None:
    """Print Table NUMBER of PAPER from the scores of FOLDERs: runs, or what `rubricworks evaluate` wrote.

    A cell holds our figure with its 95 % interval, or a letter for what is missing; below it stands the paper's. A run
    fills the rows of its arm and of the base model, an evaluation those that have its models' names. NAME is a row, a
    section of the table, or SECTION.ROW, for what has another name.

    PAPER is rubicap, balcaprl, rlr3 or rubricrl. NUMBER may be a figure's that shows results as bars: fig4.

    \b
    rubricworks table rubicap 2
    rubricworks table rubicap fig4
    rubricworks table rubicap 2 runs/own runs/rouge runs/scored-against-experts densefusion=runs/other
    rubricworks table balcaprl 1 runs/mine caprl=scored/:caprl-3b --out tables/
    """
    from rubricworks.claims.paper_table_forms import markdown, page, text
    from rubricworks.claims.paper_tables import fill_table, newest_runs

    named = [_named(source) for source in sources] or [("", run, "") for run in newest_runs(runs, paper, number)]
    filled = fill_table(paper, number, named)
    echo(text(filled))
    if out:
        stem = out / filled.name.lower().replace(", ", "-").replace(" ", "-")
        write_atomic(stem.with_suffix(".json"), filled.model_dump_json(indent=2).encode() + b"\n")
        write_atomic(stem.with_suffix(".md"), markdown(filled).encode())
        write_atomic(stem.with_suffix(".html"), page(filled).encode())
        echo(f"{stem.with_suffix('.html')}: the page; .md and .json beside it")


def _named(text: str) -> tuple[str, Path, str]:
    """Name, folder and model of an argument.

    Raises:
        UserError: there is no such folder.
    """
    name, equals, place = ("", "", text) if Path(text).is_dir() else text.partition("=")
    folder, _, model = (place, "", "") if Path(place).is_dir() else place.rpartition(":")
    if not folder or not Path(folder).is_dir():
        raise UserError(f"{text}: there is no folder {place}; write FOLDER, NAME=FOLDER or NAME=FOLDER:MODEL")
    return name if equals else "", Path(folder), model
