"""`rubricworks claims`: verdicts on the papers' pre-registered claims in the scene world."""

import os
import resource
import shutil
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rubricworks import __version__
from rubricworks.claims.registration import methods_with_claims
from rubricworks.cli.options import report_line
from rubricworks.errors import UserError
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo

if TYPE_CHECKING:
    from rubricworks.claims.registration import Registration
    from rubricworks.claims.run_results import ResultFolder, RunResult
    from rubricworks.recipe import Recipe

_NICE = 10
_BEHAVIOURAL = "behavioural"
"""In the place of the settings of a run that has no recipe."""


@click.command()
@click.argument("paper", type=click.Choice(methods_with_claims()), required=False)
@click.option("--all", "all_papers", is_flag=True, help="All papers, one after another.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    help="Run the first N seeds: a pilot if more are registered, without verdicts.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/claims"),
    show_default=True,
    help="Folder of the results; a folder in it for each paper.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and its cost; run nothing.")
@click.option("--only-report", is_flag=True, help="Run nothing; report on the results that are stored.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def claims(
    paper: str | None,
    all_papers: bool,
    seeds: int | None,
    results: Path,
    dry_run: bool,
    only_report: bool,
    as_json: bool,
) -> None:
    """Train the arms that PAPER's claims compare, for every registered seed, and say which claims hold.

    Claims, margins and seeds were registered before the first run (rubricworks/methods/PAPER/claims.yaml). Judges,
    teachers and attacks are scripted with programmed faults, so a claim that holds shows that the mechanism works, not
    that the paper's number is reproduced. Everything runs in this process, at a low priority, on one thread. A finished
    run is stored: after a kill, give the same command again. Writes claims.html, claims.csv and claims.json into the
    folder of the paper's results. Exit code 0 whatever the verdicts.

    \b
    rubricworks claims balcaprl --dry-run
    rubricworks claims rlr3
    rubricworks claims rubicap --seeds 5
    rubricworks claims --all --only-report
    """
    if (paper is None) != all_papers:
        raise UserError(f"give one of {', '.join(methods_with_claims())}, or --all")
    failures = []
    for method in methods_with_claims() if paper is None else [paper]:
        try:
            _check(method, seeds, results.absolute() / method, dry_run, only_report, as_json)
        except UserError as error:
            if paper:
                raise
            failures.append(f"{method}: {error}")
    if failures:
        raise UserError("; ".join(failures))


def _check(method: str, seeds: int | None, folder: Path, dry_run: bool, only_report: bool, as_json: bool) -> None:
    from rubricworks.claims.behavioural_policy import CLAIMED
    from rubricworks.claims.inference import planned_seeds
    from rubricworks.claims.measure import cost_text, measure, missing_runs
    from rubricworks.claims.registration import load_registration, registration_path
    from rubricworks.claims.run_results import ResultFolder, scores_by_seed
    from rubricworks.claims.settings import settings_digest
    from rubricworks.kubernetes.work import sigterm_as_exit
    from rubricworks.runs.folder_lock import lock_folder

    registration = load_registration(registration_path(method))
    store = ResultFolder(folder, registration)

    @cache
    def digest(run: str) -> str:
        return _BEHAVIOURAL if run in CLAIMED else settings_digest(_recipe(registration, run, 0))

    stored = store.results()
    number = seeds or planned_seeds(registration, scores_by_seed(stored))
    if not only_report:
        waiting = missing_runs(registration, store, range(1, number + 1), digest)
        say = report_line
        say(
            f"{registration.paper}: registration {registration.digest}, {number} seeds of {len(registration.runs)} runs"
        )
        say(f"{registration.paper}: {cost_text(registration, waiting, stored)}")
        if dry_run:
            for run in registration.runs:
                missing = ", ".join(str(planned.seed) for planned in waiting if planned.run == run)
                say(f"  {run}: {f'seeds {missing}' if missing else 'finished'}")
            return
        # Before torch is imported: threads that wait for each other would take the other cores.
        os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        os.nice(max(0, _NICE - os.nice(0)))
        work = folder / "work"
        with lock_folder(folder), sigterm_as_exit():
            try:
                measure(
                    registration,
                    store,
                    seeds,
                    digest=digest,
                    execute=lambda planned, on_stage: _execute(method, registration, *planned, work, on_stage),
                    say=say,
                    seed_is_done=lambda seed: shutil.rmtree(work / f"seed-{seed}", ignore_errors=True),
                )
            except (KeyboardInterrupt, SystemExit):
                say("stopped; give the same command again to go on")
                raise
    _report(method, store, seeds, as_json)


def _recipe(registration: "Registration", run: str, seed: int) -> "Recipe":
    """The recipe of a run, with the registration's settings but those that the arm sets itself."""
    from rubricworks.claims.planned_runs import overlaps
    from rubricworks.claims.registration import OWN
    from rubricworks.recipe.files import load_recipe, recipe_path

    path = recipe_path(registration.recipe)
    arm = None if run == OWN else run
    fields = load_recipe(path).arms.get(run, {}) if arm else {}
    settings = [setting for setting in registration.settings if not overlaps(setting, fields)]
    return load_recipe(path, [*settings, f"seed={seed}"], arm=arm)


def _execute(
    method: str, registration: "Registration", run: str, seed: int, work: Path, on_stage: Callable[[str], None]
) -> "RunResult":
    """Make one run, and read its scores and gates."""
    from rubricworks.claims.behavioural_policy import CLAIMED, measured_policy
    from rubricworks.claims.gates import measure_gates
    from rubricworks.claims.run_results import RunResult
    from rubricworks.claims.scored_arms import read_arms
    from rubricworks.claims.settings import settings_digest

    start = _cpu_seconds()
    if run in CLAIMED:
        settings, arms, readings = _BEHAVIOURAL, {run: measured_policy(run, seed)}, dict[str, float]()
    else:
        recipe, folder = _recipe(registration, run, seed), work / f"seed-{seed}" / run
        world = folder.with_name("world")
        _train(method, recipe, folder, world, on_stage)
        settings, arms = settings_digest(recipe), read_arms(folder, method, run)
        readings = measure_gates(folder, run, recipe, arms, world)
    return RunResult(
        registration=registration.digest,
        settings=settings,
        version=__version__,
        run=run,
        seed=seed,
        arms=arms,
        readings=readings,
        cpu_seconds=_cpu_seconds() - start,
    )


def _train(method: str, recipe: "Recipe", folder: Path, world: Path, on_stage: Callable[[str], None]) -> None:
    """Make a run of a recipe, which takes from the seed's other runs every stage that they share."""
    from rubricworks.claims.registration import OWN
    from rubricworks.cli.world import serve_world
    from rubricworks.llm.spending import write_budget
    from rubricworks.recipe.cluster_configs import recipe_yaml
    from rubricworks.runs.in_process import run_in_process
    from rubricworks.runtime.reuse import write_reuse
    from rubricworks.runtime.stage_table import NOT_REUSABLE

    if recipe.world is None:
        raise UserError(f"{recipe.name}: has no scene world, and claims are checked in it")
    others = sorted(path.parent for path in folder.parent.glob("*/recipe.yaml") if path.parent != folder)
    with serve_world(recipe.world, world):
        write_atomic(folder / "recipe.yaml", recipe_yaml(recipe).encode())
        write_budget(folder, recipe.budget)
        write_reuse(folder, sorted(others, key=lambda other: other.name != OWN))
        run_in_process(method, recipe.stage_json(), run=folder, without=NOT_REUSABLE, on_stage=on_stage)


def _cpu_seconds() -> float:
    """CPU time of this process and of its ended children, such as the world's servers."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _report(method: str, store: "ResultFolder", seeds: int | None, as_json: bool) -> None:
    from rubricworks.claims.gates import gate_readings
    from rubricworks.claims.inference import judge_claims, planned_seeds
    from rubricworks.claims.registration import registration_path
    from rubricworks.claims.report import ClaimsReport, claims_page, commit_of, csv_table, text
    from rubricworks.claims.run_results import scores_by_seed

    registration, stored = store.registration, store.results()
    scores = scores_by_seed(stored)
    planned = planned_seeds(registration, scores)
    number = seeds or planned
    names = dict.fromkeys((*registration.gates, *(gate for claim in registration.claims for gate in claim.gates)))
    gates = gate_readings(names, stored)
    report = ClaimsReport(
        paper=registration.paper,
        registration=registration.digest,
        commit=commit_of(registration_path(method)),
        seeds=planned,
        pilot=number < planned,
        settings=registration.settings,
        version=__version__,
        cpu_seconds=sum(result.cpu_seconds for result in stored),
        gates=tuple(gates),
        findings=tuple(
            judge_claims(
                registration,
                scores,
                range(1, number + 1),
                failed_gates={gate.gate.id for gate in gates if gate.state == "fails"},
                unmeasured_gates={gate.gate.id for gate in gates if gate.value is None},
                pilot=number < planned,
            )
        ),
        notes=registration.notes,
    )
    content = report.model_dump_json(indent=2)
    store.folder.mkdir(parents=True, exist_ok=True)
    write_atomic(store.folder / "claims.json", content.encode() + b"\n")
    write_atomic(store.folder / "claims.csv", csv_table(report).encode())
    write_atomic(store.folder / "claims.html", claims_page(report).encode())
    echo(content if as_json else text(report))
    report_line(f"{store.folder / 'claims.html'}: the page; claims.csv and claims.json beside it: all numbers")
