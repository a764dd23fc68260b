"""`rubricworks claims`: checks of a paper's directional claims as mechanisms in the scene world."""

from collections.abc import Sequence
from pathlib import Path

import click

from rubricworks import __version__
from rubricworks.claims.claim import methods_with_claims
from rubricworks.claims.planned_runs import PlannedRun
from rubricworks.cli.options import at_once_option, overrides_of_runs_option
from rubricworks.errors import UserError
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo

_MOST_SEEDS = 1_000


class Seeds(click.ParamType):
    """Seeds written as `1-5`, `1,3,4` or a single number."""

    name = "seeds"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        seeds: list[int] = []
        for part in str(value).split(","):
            first, dash, last = part.strip().partition("-")
            if not first.isdecimal() or (dash and not last.isdecimal()):
                self.fail(f"{part!r} is no seed; write 1-5, 1,3,4 or one number", param, context)
            numbers = range(int(first), int(last or first) + 1)
            if not numbers:
                self.fail(f"{part!r} ends before it begins", param, context)
            if len(numbers) > _MOST_SEEDS:
                self.fail(f"{part!r} are {len(numbers):,} seeds; give {_MOST_SEEDS} at most", param, context)
            seeds += numbers
        return tuple(seeds)


@click.command()
@click.argument("paper", type=click.Choice(methods_with_claims()))
@click.option(
    "--seeds", multiple=True, type=Seeds(), default=("1-5",), show_default=True, help="1-5 or 1,3; may be repeated."
)
@click.option(
    "--runs", type=click.Path(path_type=Path, file_okay=False), help="Folder of the runs. [default: runs/claims-PAPER]"
)
@at_once_option
@overrides_of_runs_option
@click.option("--only-report", is_flag=True, help="Run nothing; report on the runs that are there.")
def claims(
    paper: str,
    seeds: tuple[tuple[int, ...], ...],
    runs: Path | None,
    at_once: int,
    overrides: tuple[str, ...],
    only_report: bool,
) -> None:
    """Run PAPER's laptop recipe for several seeds, with the arms that it is compared with, and say which claims hold.

    Judges, teachers and attacks are scripted with programmed faults, so a claim that holds shows that the mechanism
    works, not that the paper's number is reproduced. Writes claims.md, claims.json and claims.html into the folder of
    the runs. A finished run is not run again; one that was stopped is resumed. Exit code 0 whatever the verdicts.

    \b
    rubricworks claims rlr3
    rubricworks claims balcaprl --seeds 1-3 --at-once 1
    rubricworks claims balcaprl --seeds 1-3 --only-report
    """
    from rubricworks.claims.claim import load_paper
    from rubricworks.claims.planned_runs import plan_runs
    from rubricworks.claims.report import ClaimsReport, claims_page, markdown, text
    from rubricworks.claims.settings import shared_changes

    definition = load_paper(paper)
    place = (runs or Path("runs") / f"claims-{paper}").absolute()
    numbers = sorted({seed for several in seeds for seed in several})
    planned = plan_runs(
        definition.recipe,
        place,
        numbers,
        overrides,
        is_finished=definition.is_finished,
        arms=definition.arms,
        settings=definition.overrides,
    )
    complete_runs(planned, at_once=at_once, only_report=only_report, overrides=overrides)
    changed = shared_changes(planned)
    report = ClaimsReport(
        paper=definition.title,
        seeds=tuple(numbers),
        changed=tuple(changed),
        version=__version__,
        findings=tuple(definition.findings({run.seed: run.folder for run in planned if run.arm is None})),
        notes=definition.notes,
    )
    write_atomic(place / "claims.json", report.model_dump_json(indent=2).encode() + b"\n")
    write_atomic(place / "claims.md", markdown(report).encode())
    write_atomic(place / "claims.html", claims_page(report).encode())
    echo(text(report))
    echo(f"{place / 'claims.html'}: the page; claims.md and claims.json beside it: all numbers")


def complete_runs(planned: Sequence[PlannedRun], *, at_once: int, only_report: bool, overrides: Sequence[str]) -> None:
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
