from kfp import dsl

from rubricworks.components.images import image_of


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
