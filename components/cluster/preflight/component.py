from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("preflight"), install_kfp_package=False, packages_to_install=[])
def preflight(config: str, run: str, view: dsl.Output[dsl.HTML], metrics: dsl.Output[dsl.Metrics]) -> str:
    """Check endpoints, models, images, storage, MLflow and budget before anything is paid for, and open the run.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the check's record.
    """
    from rubricworks.runtime.launch import launch

    return launch("preflight", config, run, {}, view=view.path, metrics=metrics.log_metric)
