from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("genrm_data"), install_kfp_package=False, packages_to_install=[])
def genrm_data(
    config: str,
    run: str,
    samples: str,
    rubrics: str,
    filtered: str,
    model: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Label responses of the base policy by several teachers: what a generative reward model learns from.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        rubrics: URI of the rubrics table.
        filtered: URI of the filtered samples.
        model: URI of the base policy.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the table of labelled responses.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "genrm_data",
        config,
        run,
        {"samples": samples, "rubrics": rubrics, "filtered": filtered, "model": model},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=dataset.metadata.update,
    )
