"""Tasks that a pipeline has on a cluster only: checks before it, and its outcome."""

from typing import NamedTuple

from kfp import dsl

from rubricworks.components.declaration import component
from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("preflight"), install_kfp_package=False, packages_to_install=[])
def preflight(
    config: str, run: str, run_id: str, view: dsl.Output[dsl.HTML], metrics: dsl.Output[dsl.Metrics]
) -> NamedTuple("Outputs", [("Output", str), ("run", str)]):  # type: ignore[valid-type]  # the form that kfp reads
    """Check endpoints, models, images, storage, MLflow and budget before anything is paid for, and open the run.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder, which may end in a placeholder of Kubeflow's run id.
        run_id: Kubeflow's id of the run.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the check's record; URI of the run's folder with the id filled in, for the stages.
    """
    from rubricworks.runtime.launch import launch
    from rubricworks.runtime.run_uri import resolve_run_id

    run = resolve_run_id(run, run_id)
    return launch("preflight", config, run, {}, view=view.path, metrics=metrics.log_metric), run


check_accelerators = component(
    "check_accelerators",
    "See whether a pool's accelerators can be used, on one of them, before a stage waits for all that it needs.",
    "URI of the check's record.",
)


@dsl.component(base_image=image_of("outcome"), install_kfp_package=False, packages_to_install=[])
def outcome(
    config: str,
    run: str,
    run_id: str,
    pipeline: str,
    status: dsl.PipelineTaskFinalStatus,
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Write down how the run ended, whatever became of its stages, and close it in MLflow.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder, which may end in a placeholder of Kubeflow's run id.
        run_id: Kubeflow's id of the run.
        pipeline: the stages that a run must finish, as JSON.
        status: how Kubeflow saw the stages end.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the outcome's record.
    """
    from rubricworks.runtime.launch import launch
    from rubricworks.runtime.run_uri import resolve_run_id
    from rubricworks.stages.cluster.outcome import with_final_status

    config = with_final_status(config, pipeline, status)
    return launch("outcome", config, resolve_run_id(run, run_id), {}, view=view.path, metrics=metrics.log_metric)
