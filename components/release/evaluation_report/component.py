from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("evaluation_report"), install_kfp_package=False, packages_to_install=[])
def evaluation_report(
    config: str,
    run: str,
    scores: str,
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Write the leaderboard of the run.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        scores: URI of the scores table.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the report's folder.
    """
    from rubricworks.runtime.launch import launch

    return launch("evaluation_report", config, run, {"scores": scores}, view=view.path, metrics=metrics.log_metric)
