"""A recipe on Kubeflow: connect to its cluster, push its pipeline as a version, start a run and follow it.

Imports of kfp are local, as they take a second.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rubricworks.errors import UserError
from rubricworks.kubeflow.planned_cluster import placement_warnings, planned_cluster
from rubricworks.recipe import ClusterConfig, Recipe
from rubricworks.recipe.cluster_configs import cluster_stage_json
from rubricworks.recipe.estimate import budget_warning
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.recipe.kubeflow import KubeflowConfig
from rubricworks.recipe.models import require_pinned
from rubricworks.runs.run_name import check_run_name
from rubricworks.runtime.stage_table import NOT_REUSABLE

if TYPE_CHECKING:
    from rubricworks.kubeflow.connection import Kubeflow
    from rubricworks.kubeflow.remote_runs import RemoteRun
    from rubricworks.kubeflow.versions import PipelineVersion

Say = Callable[[str], None]
"""Callback for a line of progress or a warning."""
_POLL_S = 10.0


def connect_by_recipe(name: str | None = None) -> "Kubeflow":
    """Connect to the installation of a recipe's `cluster:` section, or of the environment.

    Args:
        name: built-in name or file of the recipe.
    """
    from rubricworks.kubeflow.connection import connect

    if name is None:
        return connect(KubeflowConfig())
    cluster = cluster_of(load_recipe(recipe_path(name)), name)
    return connect(cluster.kubeflow, cluster.namespace)


def connect_to_cluster(cluster: ClusterConfig, say: Say) -> "Kubeflow":
    """Connect to the installation of a `cluster:` section and report its address and version."""
    from rubricworks.kubeflow.connection import connect

    kubeflow = connect(cluster.kubeflow, cluster.namespace)
    profile = f", namespace {kubeflow.namespace}" if kubeflow.namespace else ""
    say(f"Kubeflow Pipelines {kubeflow.version} at {kubeflow.url}{profile}")
    return kubeflow


def cluster_of(recipe: Recipe, source: str) -> ClusterConfig:
    """The recipe's `cluster:` section.

    Args:
        source: name or file of the recipe, for errors.
    Raises:
        UserError: the recipe has none, or it uses the scene world, which runs on this machine only.
    """
    if recipe.cluster is None:
        raise UserError(
            f"{source}: the recipe has no cluster: section, which says where its stages run; add one "
            "(docs/cluster.md; the end of `rubricworks recipes show rubicap` has one to begin with)"
        )
    if recipe.world is not None:
        raise UserError(
            f"{source}: world: is a simulation on this machine, which a cluster's pods do not reach; "
            "name a data source and endpoints instead, or run it here"
        )
    return recipe.cluster


def run_arguments(recipe: Recipe, cluster: ClusterConfig, run_id: str) -> dict[str, str]:
    """Arguments of the recipe's pipeline for one run on its cluster."""
    from rubricworks.kubeflow.arguments import pipeline_arguments

    return pipeline_arguments(cluster.run_uri(run_id), cluster_stage_json(recipe))


def push_recipe(
    kubeflow: "Kubeflow", recipe: Recipe, source: str, say: Say, *, version_name: str | None = None
) -> "PipelineVersion":
    """Upload the recipe's pipeline as a version, unless Kubeflow has it, and warn about cost and placement.

    Args:
        source: name or file of the recipe.
        version_name: by default built from the pipeline's content and revision.
    Raises:
        UserError: a model of the recipe may be another one tomorrow.
    """
    from rubricworks.kubeflow.compile import compile_pipeline, load_pipeline
    from rubricworks.kubeflow.versions import push, revision_of

    require_pinned(recipe)
    for warning in (budget_warning(recipe), *placement_warnings(recipe)):
        if warning:
            say(f"warning: {warning}")
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / f"{recipe.pipeline}.yaml"
        without = () if recipe.arm is None else NOT_REUSABLE
        cluster = planned_cluster(recipe, cluster_of(recipe, source))
        served = recipe.served_callers()
        compile_pipeline(load_pipeline(recipe.pipeline), package, cluster, without=without, served=served)
        version = push(kubeflow, package, revision=revision_of(recipe_path(source)), name=version_name)
    say(f"version {version.name}: {'uploaded' if version.uploaded else 'there already'}")
    return version


def start_recipe(kubeflow: "Kubeflow", recipe: Recipe, source: str, run_id: str, say: Say) -> "RemoteRun":
    """Push a recipe's pipeline and start a run of it.

    Args:
        source: name or file of the recipe.
        run_id: name of the run, which must be new.
    """
    from rubricworks.kubeflow.remote_runs import ACTIVE_STATES, list_runs, start_run

    check_run_name(run_id, "--run")
    cluster = cluster_of(recipe, source)
    for other in list_runs(kubeflow, limit=1, name=run_id):
        state = "is going" if other.state in ACTIVE_STATES else f"is {other.state}"
        raise UserError(
            f"run {run_id} {state} at {kubeflow.url}; choose another --run, or go on with one that failed: "
            f"rubricworks runs retry {run_id}"
        )
    return start_run(
        kubeflow,
        push_recipe(kubeflow, recipe, source, say),
        run_id,
        run_arguments(recipe, cluster, run_id),
        experiment=recipe.tracking.experiment,
        service_account=cluster.service_account,
        pipeline_root=cluster.pipeline_root,
    )


def follow_run(kubeflow: "Kubeflow", run_id: str, say: Say) -> "RemoteRun":
    """Wait until a run ends, with a line for each change of a stage's state.

    Args:
        run_id: Kubeflow's id of the run.
    """
    from rubricworks.kubeflow.remote_runs import ACTIVE_STATES, show_run

    states: dict[str, str] = {}
    while True:
        run = show_run(kubeflow, run_id)
        for stage in run.stages:
            if states.get(stage.stage) != stage.state:
                say(f"{stage.stage} | {stage.state.lower()}")
                states[stage.stage] = stage.state
        if run.state not in ACTIVE_STATES:
            return run
        time.sleep(_POLL_S)
