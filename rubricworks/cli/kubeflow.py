"""What the commands share that speak to Kubeflow: which installation, and a recipe's pipeline as a version there."""

import importlib
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rubricworks.errors import UserError
from rubricworks.recipe import ClusterConfig, Recipe
from rubricworks.recipe.cluster_configs import cluster_json
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.recipe.kubeflow import KubeflowConfig

if TYPE_CHECKING:
    from rubricworks.kubeflow.connection import Kubeflow
    from rubricworks.kubeflow.remote_runs import RemoteRun
    from rubricworks.kubeflow.versions import PipelineVersion

_LOOK_EVERY_S = 10.0

cluster_option = click.option(
    "--cluster",
    "recipe",
    metavar="RECIPE",
    help="Recipe whose cluster: section says where Kubeflow is; by default RUBRICWORKS_KUBEFLOW and its like do.",
)


def connected(recipe: str | None = None) -> "Kubeflow":
    """The installation that a recipe names, or else the environment."""
    from rubricworks.kubeflow.connection import connect

    if recipe is None:
        return connect(KubeflowConfig())
    cluster = cluster_of(load_recipe(recipe_path(recipe)), recipe)
    return connect(cluster.kubeflow, cluster.namespace)


def cluster_of(recipe: Recipe, where: str) -> ClusterConfig:
    """The recipe's `cluster:` section.

    Raises:
        UserError: there is none, or what the recipe uses is on this machine alone.
    """
    if recipe.cluster is None:
        raise UserError(
            f"{where}: the recipe has no cluster: section, which says where its stages run; add one "
            "(docs/cluster.md; the end of `rubricworks recipes show rubicap` has one to begin with)"
        )
    if recipe.world is not None:
        raise UserError(
            f"{where}: world: is a simulation on this machine, which a cluster's pods do not reach; "
            "name a data source and endpoints instead, or run it here"
        )
    return recipe.cluster


def pushed(kubeflow: "Kubeflow", recipe: Recipe, where: str, name: str | None = None) -> "PipelineVersion":
    """The recipe's pipeline as a version, uploaded if it is new.

    Args:
        where: the recipe was read from.
        name: of the version; by default its content and revision.
    """
    from rubricworks.cli.plan import warn_of_budget
    from rubricworks.kubeflow.compile import compile_pipeline
    from rubricworks.kubeflow.versions import push, revision_of
    from rubricworks.runtime.stage_table import NOT_REUSABLE

    warn_of_budget(recipe)
    warn_of_cpu(recipe)
    pipeline = getattr(importlib.import_module(f"rubricworks.pipelines.{recipe.pipeline}"), recipe.pipeline)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / f"{recipe.pipeline}.yaml"
        without = () if recipe.arm is None else NOT_REUSABLE
        compile_pipeline(pipeline, package, cluster_of(recipe, where), without=without)
        version = push(kubeflow, package, revision=revision_of(recipe_path(where)), name=name)
    click.echo(f"version {version.name}: {'uploaded' if version.uploaded else 'there already'}", err=True)
    return version


def warn_of_cpu(recipe: Recipe) -> None:
    """Say so where stages would load their model on a CPU, and the cluster has accelerators."""
    from rubricworks.kubeflow.accelerator_warnings import accelerator_warnings

    if recipe.cluster is None or not (stages := accelerator_warnings(recipe)):
        return
    fields = ", ".join(f"cluster.stages.{stage}.accelerators" for stage in stages)
    pools = ", ".join(name for name, pool in recipe.cluster.pools.items() if pool.accelerator)
    whose = " (only those of the champion's pipeline will run)" if recipe.base_model is None else ""
    click.echo(
        f"warning: stages that load a model ask for no accelerators and would run on a CPU: set {fields}{whose}, and "
        f"their pool to one that has accelerators: {pools}",
        err=True,
    )


def arguments_of(recipe: Recipe, cluster: ClusterConfig, run_id: str) -> dict[str, str]:
    """What the recipe's pipeline is started with on its cluster."""
    from rubricworks.kubeflow.arguments import pipeline_arguments

    return pipeline_arguments(cluster.run_uri(run_id), cluster_json(recipe))


def run_on_kubeflow(
    where: str | None,
    overrides: Sequence[str],
    run_id: str | None,
    *,
    arm: str | None,
    resume: str | None,
    reuse: Sequence[str],
    wait: bool,
) -> None:
    """Push a recipe's pipeline, start a run of it and say where it is.

    Args:
        where: the recipe: a built-in name or a file.
        run_id: of the run; by default recipe, arm, date and time.
        arm: one of the recipe's, which is compared, not promoted.
        resume: a run of this machine to go on with; refused.
        reuse: runs of this machine to take from; refused.
        wait: until it has ended; one that did not end well ends the command with code 1.
    """
    from rubricworks.kubeflow.remote_runs import GOING, list_runs, start_run

    if resume is not None:
        raise UserError(
            f"--resume goes on with runs on this machine; with one on Kubeflow: rubricworks runs retry {resume}"
        )
    if reuse:
        raise UserError(
            "--reuse copies from a run's folder on this machine, which pods do not see; leave it out, and the run "
            "makes all of it itself, or run it on this machine"
        )
    assert where is not None
    recipe = load_recipe(recipe_path(where), overrides, arm=arm)
    cluster = cluster_of(recipe, where)
    kubeflow = connected_to(cluster)
    name = run_id or f"{name_of(recipe)}-{time.strftime('%Y%m%d-%H%M%S')}"
    for there in list_runs(kubeflow, limit=1, name=name):
        what = "is going" if there.state in GOING else f"is {there.state}"
        raise UserError(
            f"run {name} {what} at {kubeflow.url}; choose another --run, or go on with one that failed: "
            f"rubricworks runs retry {name}"
        )
    run = start_run(
        kubeflow,
        pushed(kubeflow, recipe, where),
        name,
        arguments_of(recipe, cluster, name),
        experiment=recipe.tracking.experiment,
        service_account=cluster.service_account,
        pipeline_root=cluster.pipeline_root,
    )
    click.echo(f"run {run.name} of {cluster.run_uri(name)}\n{run.page}")
    if arm is not None:
        click.echo("an arm is compared, not promoted: it has no stage that registers or reports", err=True)
    if wait:
        ended = _followed(kubeflow, run)
        click.echo(f"{ended.name}: {ended.state.lower()}{f': {ended.error}' if ended.error else ''}")
        if ended.state != "SUCCEEDED":
            raise SystemExit(1)


def name_of(recipe: Recipe) -> str:
    """What a run of it is called, before its date and time."""
    return recipe.name if recipe.arm is None else f"{recipe.name}-{recipe.arm}"


def connected_to(cluster: ClusterConfig) -> "Kubeflow":
    """The installation that a cluster: section names; what it runs is told."""
    from rubricworks.kubeflow.connection import connect

    kubeflow = connect(cluster.kubeflow, cluster.namespace)
    profile = f", namespace {kubeflow.namespace}" if kubeflow.namespace else ""
    click.echo(f"Kubeflow Pipelines {kubeflow.version} at {kubeflow.url}{profile}", err=True)
    return kubeflow


def _followed(kubeflow: "Kubeflow", run: "RemoteRun", pause: Callable[[float], Any] = time.sleep) -> "RemoteRun":
    """The run as it ended; stages are told as they change."""
    from rubricworks.kubeflow.remote_runs import GOING, show_run

    told: dict[str, str] = {}
    while True:
        run = show_run(kubeflow, run.id)
        for stage in run.stages:
            if told.get(stage.stage) != stage.state:
                click.echo(f"{stage.stage} | {stage.state.lower()}", err=True)
                told[stage.stage] = stage.state
        if run.state not in GOING:
            return run
        pause(_LOOK_EVERY_S)
