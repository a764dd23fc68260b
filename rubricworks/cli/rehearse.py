"""`rubricworks rehearse`: a recipe end to end, in miniature, before anybody pays for a GPU."""

from pathlib import Path

import click

from rubricworks.cli.options import report_line
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.terminal import echo


@click.command()
@click.argument("recipe")
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a field, as in `rubricworks run`.")
@click.option("--arm", metavar="NAME", help="Rehearse one of the recipe's arms.")
@click.option("--stages", metavar="A,B", help="Stages to end with; the stages that they need are rehearsed too.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder of the rehearsal; by default rehearsals/NAME.",
)
@click.option("--ask-endpoints", is_flag=True, help="Call the recipe's own endpoints; each call is paid for.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def rehearse(
    recipe: str,
    overrides: tuple[str, ...],
    arm: str | None,
    stages: str | None,
    out: Path | None,
    ask_endpoints: bool,
    as_json: bool,
) -> None:
    """Run RECIPE unchanged, in miniature: models of the same classes, a few rows, every training killed and resumed.

    \b
    rubricworks rehearse rubicap
    rubricworks rehearse my.yaml --arm sft_strong
    rubricworks rehearse rlr3 --stages train_genrm
    rubricworks rehearse my.yaml --ask-endpoints

    Models are cut from their own config.json, of a folder or the Hub, or from the package's table of shapes. A scripted
    server answers for every endpoint. Exits with 1 if a stage failed.
    """
    parsed = load_recipe(recipe_path(recipe), overrides, arm=arm)
    from rubricworks.rehearsal.rehearse import MARK
    from rubricworks.rehearsal.rehearse import rehearse as run_rehearsal

    folder = out or Path("rehearsals") / parsed.run_prefix
    wanted = [stage.strip() for stage in stages.split(",") if stage.strip()] if stages else []
    rehearsal = run_rehearsal(parsed, folder, stages=wanted, ask_endpoints=ask_endpoints, say=report_line)
    echo(rehearsal.as_json() if as_json else rehearsal.as_table())
    if not rehearsal.passed:
        report_line(f"logs of the stages: {folder / 'run' / 'logs'}; the verdict as JSON: {folder / MARK}")
        raise SystemExit(1)
