from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("pretrain_generator"), install_kfp_package=False, packages_to_install=[])
def pretrain_generator(
    config: str,
    run: str,
    checkpoint: dsl.Output[dsl.Model],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Build and pretrain a small image generator, or pass on one that exists.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        checkpoint: the model, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the generator.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "pretrain_generator",
        config,
        run,
        {},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=checkpoint.metadata.update,
    )
