from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("prepare"), install_kfp_package=False, packages_to_install=[])
def prepare(
    config: str,
    run: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Read the image source, check and de-duplicate it, and split it into training and held-out samples.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the samples table.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "prepare", config, run, {}, view=view.path, metrics=metrics.log_metric, lineage=dataset.metadata.update
    )
