from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("check_accelerators"), install_kfp_package=False, packages_to_install=[])
def check_accelerators(config: str, run: str, view: dsl.Output[dsl.HTML], metrics: dsl.Output[dsl.Metrics]) -> str:
    """See whether a pool's accelerators can be used, on one of them, before a stage waits for all that it needs.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the check's record.
    """
    from rubricworks.runtime.launch import launch

    return launch("check_accelerators", config, run, {}, view=view.path, metrics=metrics.log_metric)
