from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("benchmark_questions"), install_kfp_package=False, packages_to_install=[])
def benchmark_questions(
    config: str,
    run: str,
    samples: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Collect the questions about held-out pictures that models are scored on.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the table of questions.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "benchmark_questions",
        config,
        run,
        {"samples": samples},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=dataset.metadata.update,
    )
