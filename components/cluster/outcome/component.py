from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("outcome"), install_kfp_package=False, packages_to_install=[])
def outcome(
    config: str,
    run: str,
    status: dsl.PipelineTaskFinalStatus,
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Write down how the run ended, whatever became of its stages, and close it in MLflow.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        status: how Kubeflow saw the stages end.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the outcome's record.
    """
    from rubricworks.runtime.launch import launch
    from rubricworks.stages.cluster.outcome import with_final_status

    return launch("outcome", with_final_status(config, status), run, {}, view=view.path, metrics=metrics.log_metric)
