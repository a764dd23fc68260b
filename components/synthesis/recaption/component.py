from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("recaption"), install_kfp_package=False, packages_to_install=[])
def recaption(
    config: str,
    run: str,
    samples: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Recaption a source of any size, or a table of samples, with one captioner or several.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table, where the source is none of its own.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the captions table.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "recaption",
        config,
        run,
        {"samples": samples},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=dataset.metadata.update,
    )
