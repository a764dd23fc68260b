from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("fetch_champion"), install_kfp_package=False, packages_to_install=[])
def fetch_champion(
    config: str,
    run: str,
    found: str,
    checkpoint: dsl.Output[dsl.Model],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Fetch the champion's weights from the model registry.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        found: URI of the found samples.
        checkpoint: the model, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the champion.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "fetch_champion",
        config,
        run,
        {"found": found},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=checkpoint.metadata.update,
    )
