from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("caption_committee"), install_kfp_package=False, packages_to_install=[])
def caption_committee(
    config: str,
    run: str,
    samples: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Ask every model of the committee for a caption of every training sample.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the captions table.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "caption_committee",
        config,
        run,
        {"samples": samples},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=dataset.metadata.update,
    )
