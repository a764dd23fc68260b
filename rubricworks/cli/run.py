"""`rubricworks run`: checks, then the recipe's pipeline on this machine or on Kubeflow.

The command by which a user calls this program again.
"""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from rubricworks.cli.options import report_line
from rubricworks.cli.world import serve_world
from rubricworks.errors import UserError
from rubricworks.kubeflow.recipe_runs import cluster_of, connect_to_cluster, follow_run, start_recipe
from rubricworks.kubernetes.work import sigterm_as_exit
from rubricworks.llm import write_budget
from rubricworks.recipe import Recipe
from rubricworks.recipe.benchmark_plan import measured_speeds
from rubricworks.recipe.cluster_configs import recipe_yaml
from rubricworks.recipe.estimate import budget_warning, plan_text, promise_warnings
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.recipe.sizes import colocate_warning
from rubricworks.runs.bottlenecks import bottleneck_lines
from rubricworks.runs.earlier_runs import spent_lines
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.runs.recipe_checks import check_machine, check_models, check_recipe, check_sources
from rubricworks.runs.records import OUTCOME
from rubricworks.runs.run_name import check_run_name
from rubricworks.runs.working_copy import fetch_run, local_runs_folder, push_run, write_stop, write_success
from rubricworks.runtime.job import refuse_other_records
from rubricworks.runtime.preflight_checks import Check
from rubricworks.storage import is_remote, write_atomic
from rubricworks.terminal import echo


@click.command()
@click.argument("recipe", required=False)
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a field: policy.algorithm.steps=50.")
@click.option("--arm", metavar="NAME", help="Run one of the recipe's arms, which is compared, not promoted.")
@click.option("--run", "run_id", metavar="ID", help="Name of the run's folder; by default recipe, date and time.")
@click.option("--resume", metavar="ID", help="Resume a run where it stopped; finished stages are not run again.")
@click.option(
    "--reuse",
    multiple=True,
    metavar="RUN",
    help="Reuse stages of another run that have the same settings and inputs; an id or a folder. May be repeated.",
)
@click.option(
    "--runs", default="runs", show_default=True, metavar="FOLDER", help="Folder of all runs, or s3://bucket/folder."
)
@click.option("--on", type=click.Choice(["kubeflow"]), help="Run it where the recipe's cluster: section says.")
@click.option("--wait", is_flag=True, help="With --on: block until the run finishes.")
@click.option("--dry-run", is_flag=True, help="Print stages, calls, tokens, dollars and what is missing; run nothing.")
@click.option("--gpu-hour", type=click.FloatRange(min=0), help="With --dry-run: dollars of one GPU for an hour.")
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
    gpu_hour: float | None,
) -> None:
    """Run RECIPE, a built-in name or a YAML file, as a pipeline on this machine or on Kubeflow.

    \b
    rubricworks run quickstart
    rubricworks run quickstart --set seed=2 --set policy.algorithm.steps=50
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
    if gpu_hour is not None and not dry_run:
        raise UserError("--gpu-hour prices the plan of a run: give it with --dry-run")
    if arm is not None and resume:
        raise UserError("--arm is for a new run; a run that is continued stays the arm that it is")
    for option, name in (("--run", run_id), ("--resume", resume)):
        if name is not None:
            check_run_name(name, option)
    if on is not None and not dry_run:
        _refuse_local_runs(resume, reuse)
        assert recipe is not None
        _run_on_kubeflow(load_recipe(recipe_path(recipe), overrides, arm=arm), recipe, run_id, wait=wait)
        return
    folder_of_runs = local_runs_folder(runs)
    if reuse and is_remote(runs):
        raise UserError("--reuse takes from runs in folders; leave it out, or give a folder with --runs")
    if resume is not None:
        fetch_run(runs, resume, new=False)
        folder = _existing_run(folder_of_runs, resume)
        parsed = load_recipe(folder / "recipe.yaml", overrides)
    else:
        assert recipe is not None
        parsed = load_recipe(recipe_path(recipe), overrides, arm=arm)
        folder = folder_of_runs / (_default_name(parsed) if run_id is None else run_id)
        if not dry_run:
            fetch_run(runs, folder.name, new=True)
        if (folder / "recipe.yaml").exists():
            raise UserError(
                f"{folder} is there already; continue it with --resume {folder.name} or choose another --run"
            )
    sources = [_source_run(folder_of_runs, name, folder) for name in reuse]
    if dry_run:
        _dry_run(parsed, folder_of_runs, gpu_hour)
        return
    # Only part of the plan is still to be paid for if a run is resumed, or takes from another.
    if resume is None and not reuse and (warning := budget_warning(parsed)):
        report_line(f"warning: {warning}")
    for warning in promise_warnings(parsed) if resume is None else ():
        report_line(f"warning: {warning}")
    if warning := colocate_warning(parsed):
        report_line(f"warning: {warning}")
    if resume is None:  # the finished stages of an older run have loaded theirs
        _require([check_models(parsed)])
    with lock_folder(folder):
        _run_here(parsed, folder, runs, sources)


def _run_here(recipe: Recipe, folder: Path, runs: str, sources: Sequence[Path]) -> None:
    from rubricworks.kubeflow.arguments import pipeline_arguments
    from rubricworks.kubeflow.compile import load_pipeline
    from rubricworks.runs.local import resume_command, run_local
    from rubricworks.runtime.reuse import write_reuse
    from rubricworks.runtime.stage_table import NOT_REUSABLE
    from rubricworks.tracking import pipeline_run

    start = time.monotonic()
    report_line(f"run {folder.name}")
    _require(check_machine(recipe, folder.parent))
    with ExitStack() as stack:
        if recipe.world:
            stack.enter_context(serve_world(recipe.world, folder / "world", [source / "world" for source in sources]))
        _require(check_sources(recipe))
        write_atomic(folder / "recipe.yaml", recipe_yaml(recipe).encode())
        write_budget(folder, recipe.budget)
        (folder / OUTCOME).unlink(missing_ok=True)
        if sources:
            write_reuse(folder, sources)
        # One thread pool that spins while a server answers would take the server's core.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        os.environ.setdefault("GOMP_SPINCOUNT", "0")
        stack.enter_context(pipeline_run(recipe.tracking, folder.parent, folder.name, recipe.model_dump(mode="json")))
        stack.enter_context(sigterm_as_exit())
        try:
            arguments = pipeline_arguments(push_run(runs, folder), recipe.stage_json())
            without = () if recipe.arm is None else NOT_REUSABLE
            pipeline, served = load_pipeline(recipe.pipeline), recipe.served_callers()
            run_local(pipeline, arguments, run=folder, without=without, served=served)
            write_success(runs, folder)
        except (KeyboardInterrupt, SystemExit) as stop:
            way_on = f"continue with: {resume_command(folder)}"
            write_stop(runs, folder, way_on)
            report_line(f"stopped; {way_on}")
            raise SystemExit(stop.code if isinstance(stop, SystemExit) else 130) from None
    _print_result(recipe, folder, time.monotonic() - start)


def _require(checks: Iterable[Check]) -> None:
    """Raise a UserError for the first check that failed."""
    for check in checks:
        if check.problem:
            raise UserError(f"{check.name}: {check.problem}")


def _print_result(recipe: Recipe, folder: Path, seconds: float) -> None:
    if recipe.arm is not None:
        echo(f"done in {seconds:.0f} s\nan arm is compared, not promoted: {folder}")
        return
    lines = [f"done in {seconds:.0f} s", *recipe.success_lines(folder)]
    if (report := folder / "report.html").is_file():
        lines.append(f"report: {report}")
    if report.is_file() and not _is_submitted(folder):
        server = f"{shlex.quote(own_command())} server --runs {shlex.quote(os.path.relpath(folder.parent))}"
        lines.append(f"each rollout with its verdicts: {server}")
    echo("\n".join(lines))


def _is_submitted(folder: Path) -> bool:
    """Return True for a run that a server over the same folder of runs has started."""
    from rubricworks.platform_api.services.submission.local_runs import FOLDER

    return (folder.parent / FOLDER / folder.name).is_dir()


def _dry_run(recipe: Recipe, runs: Path, gpu_hour: float | None) -> None:
    plan = plan_text(recipe, measured_speeds(runs, recipe), gpu_hour=gpu_hour)
    echo("\n".join([plan, *spent_lines(recipe, runs), *bottleneck_lines(recipe, runs)]))
    if recipe.world:
        echo("endpoints and images: the scene world, simulated, started with the run")
        return
    missing = [check for check in check_recipe(recipe, runs) if check.problem]
    echo("\n".join(f"missing: {check.name}: {check.problem}" for check in missing) or "nothing is missing")


def _existing_run(runs: Path, run_id: str) -> Path:
    folder = runs / run_id
    if not (folder / "recipe.yaml").is_file():
        names = sorted(path.parent.name for path in runs.glob("*/recipe.yaml"))
        hint = f"there are {', '.join(names[-5:])}" if names else "there are none"
        raise UserError(f"no run {run_id!r} in {runs}: {hint}")
    refuse_other_records(folder)
    return folder


def _source_run(runs: Path, run: str, folder: Path) -> Path:
    """Folder of a run to reuse, which is given as an id or a folder."""
    source = _existing_run(Path(run).absolute().parent, Path(run).name) if os.sep in run else _existing_run(runs, run)
    if source.resolve() == folder.resolve():
        raise UserError(f"--reuse {run}: that is this run itself; a run goes on with --resume")
    return source


def _refuse_local_runs(resume: str | None, reuse: Sequence[str]) -> None:
    if resume is not None:
        raise UserError(
            f"--resume goes on with runs on this machine; with one on Kubeflow: rubricworks runs retry {resume}"
        )
    if reuse:
        raise UserError(
            "--reuse copies from a run's folder on this machine, which pods do not see; leave it out, and the run "
            "makes all of it itself, or run it on this machine"
        )


def _run_on_kubeflow(recipe: Recipe, source: str, run_id: str | None, *, wait: bool) -> None:
    """Start a run of the recipe on its cluster and print where it is.

    Args:
        source: the recipe's name or file.
        wait: return when the run has ended, with exit code 1 if it did not succeed.
    """
    cluster = cluster_of(recipe, source)
    kubeflow = connect_to_cluster(cluster, report_line)
    run = start_recipe(kubeflow, recipe, source, run_id or _default_name(recipe), report_line)
    echo(f"run {run.name} of {cluster.run_uri(run.name)}\n{run.page}")
    if recipe.arm is not None:
        report_line("an arm is compared, not promoted: it has no stage that registers or reports")
    if wait:
        run = follow_run(kubeflow, run.id, report_line)
        echo(f"{run.name}: {run.state.lower()}{f': {run.error}' if run.error else ''}")
        if run.state != "SUCCEEDED":
            raise SystemExit(1)


def _default_name(recipe: Recipe) -> str:
    return f"{recipe.run_prefix}-{time.strftime('%Y%m%d-%H%M%S')}"


def own_command() -> str:
    """Return `rubricworks` where the shell finds it, else the path of the one beside this Python."""
    beside = Path(sys.executable).parent / "rubricworks"
    if shutil.which("rubricworks") is None and beside.is_file():
        return min(os.path.relpath(beside), str(beside), key=len)
    return "rubricworks"
