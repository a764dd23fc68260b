"""`rubricworks run`: check everything, then run the recipe's pipeline on this machine."""

import fcntl
import importlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click

from rubricworks.cli.checks import check_machine, check_recipe, check_sources, items_of
from rubricworks.cli.kubeflow import name_of, run_on_kubeflow
from rubricworks.cli.plan import plan_text, warn_of_budget
from rubricworks.cli.stored_runs import keep_outcome, keep_stored_run, open_stored_run, runs_folder
from rubricworks.cli.world import running_world
from rubricworks.errors import UserError
from rubricworks.llm import write_budget
from rubricworks.recipe import Recipe
from rubricworks.recipe.cluster_configs import recipe_text
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runtime.preflight_checks import Check
from rubricworks.storage import is_remote, write_atomic


@click.command()
@click.argument("recipe", required=False)
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a field, e.g. policy.steps=50.")
@click.option("--arm", metavar="NAME", help="Run one of the recipe's arms, which is compared, not promoted.")
@click.option("--run", "run_id", metavar="ID", help="Name of the run's folder; by default recipe, date and time.")
@click.option("--resume", metavar="ID", help="Continue a run where it stopped; what is done is not done again.")
@click.option(
    "--reuse",
    multiple=True,
    metavar="RUN",
    help="Take what is made from the same in another run from there; an id or a folder. May be repeated.",
)
@click.option(
    "--runs", default="runs", show_default=True, metavar="FOLDER", help="Folder of all runs, or s3://bucket/folder."
)
@click.option("--on", type=click.Choice(["kubeflow"]), help="Run it where the recipe's cluster: section says.")
@click.option("--wait", is_flag=True, help="With --on: until the run has ended, well or not.")
@click.option("--dry-run", is_flag=True, help="Print stages, calls, tokens, dollars and what is missing; run nothing.")
def run(
    recipe: str | None,
    overrides: tuple[str, ...],
    arm: str | None,
    run_id: str | None,
    resume: str | None,
    reuse: tuple[str, ...],
    runs: str,
    on: str | None,
    wait: bool,
    dry_run: bool,
) -> None:
    """Run RECIPE, a built-in name or a YAML file, as a pipeline on this machine or on Kubeflow.

    \b
    rubricworks run quickstart
    rubricworks run quickstart --set seed=2 --set policy.steps=50
    rubricworks run my.yaml --dry-run
    rubricworks run --resume quickstart-20260101-120000
    rubricworks run balcaprl-laptop --run main
    rubricworks run balcaprl-laptop --arm no_length --reuse main
    rubricworks run my.yaml --on kubeflow
    """
    if (recipe is None) == (resume is None):
        raise UserError("give a recipe (`rubricworks recipes list` shows them) or --resume with a run's id")
    if run_id and resume:
        raise UserError("--run names a new run and --resume an old one: give one of them")
    if arm is not None and resume:
        raise UserError("--arm is for a new run; a run that is continued stays the arm that it is")
    if on is not None and not dry_run:
        run_on_kubeflow(recipe, overrides, run_id, arm=arm, resume=resume, reuse=reuse, wait=wait)
        return
    place, runs = runs, runs_folder(runs)
    if reuse and is_remote(place):
        raise UserError("--reuse takes from runs in folders; leave it out, or give a folder with --runs")
    if resume is not None:
        open_stored_run(place, resume, new=False)
        folder = _existing(runs, resume)
        parsed = load_recipe(folder / "recipe.yaml", overrides)
    else:
        assert recipe is not None
        parsed = load_recipe(recipe_path(recipe), overrides, arm=arm)
        folder = runs / (run_id or f"{name_of(parsed)}-{time.strftime('%Y%m%d-%H%M%S')}")
        if not dry_run:
            open_stored_run(place, folder.name, new=True)
        if (folder / "recipe.yaml").exists():
            raise UserError(
                f"{folder} is there already; continue it with --resume {folder.name} or choose another --run"
            )
    sources = [_source(runs, one, folder) for one in reuse]
    if dry_run:
        _dry_run(parsed, folder, runs)
        return
    # Of a run that goes on, or that takes from another, only part of the plan is still to be paid for.
    if resume is None and not reuse:
        warn_of_budget(parsed)
    with only_run_in(folder):
        _run(parsed, folder, place, sources)


def _run(recipe: Recipe, folder: Path, place: str, sources: Sequence[Path]) -> None:
    from rubricworks.kubeflow.arguments import pipeline_arguments
    from rubricworks.runs.local import resume_command, run_local
    from rubricworks.runs.records import OUTCOME
    from rubricworks.runtime.reuse import write_reuse
    from rubricworks.runtime.stage_table import NOT_REUSABLE
    from rubricworks.tracking import pipeline_run

    start, runs = time.monotonic(), folder.parent
    click.echo(f"run {folder.name}", err=True)
    _see_to(check_machine(recipe, runs))
    with ExitStack() as stack:
        if recipe.world:
            stack.enter_context(running_world(recipe.world, folder / "world", [one / "world" for one in sources]))
        _see_to(check_sources(recipe))
        write_atomic(folder / "recipe.yaml", recipe_text(recipe).encode())
        write_budget(folder, recipe.budget)
        (folder / OUTCOME).unlink(missing_ok=True)
        if sources:
            write_reuse(folder, sources)
        # One thread pool that spins while a server answers would take the server's core.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        os.environ.setdefault("GOMP_SPINCOUNT", "0")
        stack.enter_context(pipeline_run(recipe.tracking, runs, folder.name, recipe.model_dump(mode="json")))
        try:
            pipeline = getattr(importlib.import_module(f"rubricworks.pipelines.{recipe.pipeline}"), recipe.pipeline)
            arguments = pipeline_arguments(keep_stored_run(place, folder), recipe.stage_json())
            run_local(pipeline, arguments, run=folder, without=() if recipe.arm is None else NOT_REUSABLE)
            keep_outcome(place, folder)
        except KeyboardInterrupt:
            click.echo(f"stopped; continue with: {resume_command(folder)}", err=True)
            raise SystemExit(130) from None
    _tell(recipe, folder, time.monotonic() - start)


def _see_to(checks: Iterable[Check]) -> None:
    """Refuse the run at the first thing that is missing."""
    for check in checks:
        if check.problem:
            raise UserError(f"{check.name}: {check.problem}")


def _tell(recipe: Recipe, folder: Path, seconds: float) -> None:
    if recipe.arm is not None:
        click.echo(f"done in {seconds:.0f} s\nan arm is compared, not promoted: {folder}")
        return
    lines = [f"done in {seconds:.0f} s", *recipe.success_lines(folder)]
    if (report := folder / "report.html").is_file():
        lines.append(f"report: {report}")
    click.echo("\n".join(lines))


def _dry_run(recipe: Recipe, folder: Path, runs: Path) -> None:
    click.echo(plan_text(recipe, items_of(recipe)))
    if recipe.world:
        click.echo("endpoints and images: the scene world, simulated, started with the run")
        return
    missing = [check for check in check_recipe(recipe, runs) if check.problem]
    click.echo("\n".join(f"missing: {check.name}: {check.problem}" for check in missing) or "nothing is missing")


def _existing(runs: Path, run_id: str) -> Path:
    folder = runs / run_id
    if not (folder / "recipe.yaml").is_file():
        known = sorted(path.parent.name for path in runs.glob("*/recipe.yaml"))
        there = f"there are {', '.join(known[-5:])}" if known else "there are none"
        raise UserError(f"no run {run_id!r} in {runs}: {there}")
    return folder


def _source(runs: Path, run: str, folder: Path) -> Path:
    """The run to take from, given as an id or a folder."""
    source = _existing(Path(run).absolute().parent, Path(run).name) if os.sep in run else _existing(runs, run)
    if source.resolve() == folder.resolve():
        raise UserError(f"--reuse {run}: that is this run itself; a run goes on with --resume")
    return source


@contextmanager
def only_run_in(folder: Path) -> Iterator[None]:
    """Hold the run's folder; the kernel lets go when the process ends, however it ends. Nothing made, nothing left."""
    new_parent = not folder.parent.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}; give another folder with --runs") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{folder.name} is running already; wait for it, or stop that process first") from None
        try:
            yield
        finally:
            if os.listdir(folder) == ["lock"]:
                (folder / "lock").unlink()
                folder.rmdir()
                if new_parent:
                    with suppress(OSError):  # another run has begun there meanwhile
                        folder.parent.rmdir()
