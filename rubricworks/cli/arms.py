"""`rubricworks arms`: one table of a recipe and its arms, all from the same start."""

from collections.abc import Sequence
from pathlib import Path

import click

from rubricworks import __version__
from rubricworks.claims.arm_table import OWN, arm_forms
from rubricworks.claims.planned_runs import PlannedRun
from rubricworks.cli.options import at_once_option, overrides_of_runs_option
from rubricworks.errors import UserError
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo


@click.command()
@click.argument("recipe")
@click.option(
    "--table",
    type=click.Choice([name for form in arm_forms().values() for name in form.tables]),
    help="Run the arms of one of the paper's tables.",
)
@click.option("--arm", "arms", multiple=True, metavar="NAME", help="Run one of the recipe's arms; may be repeated.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of every run. [default: the recipe's]")
@click.option(
    "--runs", type=click.Path(path_type=Path, file_okay=False), help="Folder of the runs. [default: runs/arms-RECIPE]"
)
@at_once_option
@overrides_of_runs_option
@click.option("--only-report", is_flag=True, help="Run nothing; show the runs that are there.")
def arms(
    recipe: str,
    table: str | None,
    arms: tuple[str, ...],
    seed: int | None,
    runs: Path | None,
    at_once: int,
    overrides: tuple[str, ...],
    only_report: bool,
) -> None:
    """Run RECIPE and some of its arms, and compare their scores in one table.

    The recipe's own run comes first; every arm reuses the stages of it that have the same settings and inputs. Arms are
    compared, not promoted. A finished run is not run again. Writes the table as Markdown, JSON and a page into the
    folder of the runs.

    \b
    rubricworks arms rubicap-laptop
    rubricworks arms balcaprl-laptop --table components
    rubricworks arms balcaprl-laptop --arm no_recall --arm no_length --seed 2
    rubricworks arms balcaprl-laptop --table length --runs runs/claims-balcaprl --only-report
    """
    from rubricworks.claims.arm_table import ArmTable, arm_form, arm_rows, arms_page, markdown, text
    from rubricworks.claims.planned_runs import plan_runs
    from rubricworks.claims.settings import is_finished, read_scores, shared_changes
    from rubricworks.evaluation.scoreboard import BASE
    from rubricworks.recipe.files import load_recipe, recipe_path

    parsed = load_recipe(recipe_path(recipe))
    form = arm_form(parsed.pipeline)
    if not table and not arms:
        table = form.default
    if table and table not in form.tables:
        raise UserError(
            f"{recipe}: the pipeline {parsed.pipeline} has no table {table}: {', '.join(form.tables) or 'none'}"
        )
    names = list(dict.fromkeys([*(form.rows_of(table, parsed.arms) if table else ()), *arms]))
    selected_arms = [arm for arm in names if arm != OWN]
    if not selected_arms:
        raise UserError(f"choose with --table or --arm; {recipe} has {', '.join(parsed.arms) or 'no arms'}")
    if unknown := [arm for arm in selected_arms if arm not in parsed.arms]:
        load_recipe(recipe_path(recipe), arm=unknown[0])  # its error names the arms that the recipe has
    number = parsed.seed if seed is None else seed
    place = (runs or Path("runs") / f"arms-{parsed.name}").absolute()
    planned = plan_runs(recipe, place, [number], overrides, is_finished=is_finished, arms=selected_arms)
    _complete_runs(planned, at_once=at_once, only_report=only_report, overrides=overrides)
    changed = shared_changes(planned)
    folders = {run.arm or OWN: run.folder for run in planned}
    boards = {arm: read_scores(folder, parsed.pipeline) for arm, folder in folders.items()}
    form = arm_form(parsed.pipeline, boards[OWN])
    rows = arm_rows(boards, folders, form)
    result = ArmTable(
        title=form.tables[table].title if table else "Arms",
        recipe=parsed.name,
        seed=number,
        changed=tuple(changed),
        simulated=parsed.world is not None,
        version=__version__,
        rows=tuple(rows[arm] for arm in (BASE, *([] if OWN in names or table else [OWN]), *names)),
    )
    stem = place / f"seed-{number}-{f'table-{table}' if table else 'table'}"
    write_atomic(stem.with_suffix(".json"), result.model_dump_json(indent=2).encode() + b"\n")
    write_atomic(stem.with_suffix(".md"), markdown(result, form).encode())
    write_atomic(stem.with_suffix(".html"), arms_page(result, form).encode())
    echo(text(result, form))
    echo(f"{stem.with_suffix('.html')}: the page; .md and .json beside it: all numbers")


def _complete_runs(planned: Sequence[PlannedRun], *, at_once: int, only_report: bool, overrides: Sequence[str]) -> None:
    """Make the runs that are not finished, with progress on standard error.

    Args:
        only_report: make none.
        overrides: of the recipe's fields, as the user gave them.
    """
    from rubricworks.claims.child_runs import make_runs
    from rubricworks.claims.settings import check_settings

    if only_report:
        if overrides:
            raise UserError("--set changes runs and --only-report makes none: give one of them")
        return
    check_settings(planned)
    try:
        make_runs(planned, at_once=at_once, say=lambda line: echo(line, err=True))
    except KeyboardInterrupt:
        echo("the runs were stopped; give the same command again to go on", err=True)
        raise
