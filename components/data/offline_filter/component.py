from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("offline_filter"), install_kfp_package=False, packages_to_install=[])
def offline_filter(
    config: str,
    run: str,
    questions: str,
    samples: str,
    rubrics: str,
    model: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Grade rollouts of the base model on the training samples, and mark those that it still fails on.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        questions: URI of the output of prepare_questions: the counts of the source.
        samples: URI of the samples table.
        rubrics: URI of the rubrics table.
        model: URI of the base model.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the filtered table; the corpus's statistics stand in statistics.json beside it.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "offline_filter",
        config,
        run,
        {"questions": questions, "samples": samples, "rubrics": rubrics, "model": model},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=dataset.metadata.update,
    )
