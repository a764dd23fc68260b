from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("audit"), install_kfp_package=False, packages_to_install=[])
def audit(
    config: str,
    run: str,
    genrm_data: str,
    samples: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Audit a judge: abnormal responses made from the test data, and what it credits to them in each setting.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        genrm_data: URI of the labelled responses.
        samples: URI of the samples table, for the setting that shows images.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the audit table; `audit.json` beside it holds the figures.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "audit",
        config,
        run,
        {"genrm_data": genrm_data, "samples": samples},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=dataset.metadata.update,
    )
