from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("caption_student"), install_kfp_package=False, packages_to_install=[])
def caption_student(
    config: str,
    run: str,
    samples: str,
    model: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Caption the training samples with the model that is about to be trained, so that rubrics can aim at its faults.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        model: URI of the model before training: the student.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the captions table of the student.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "caption_student",
        config,
        run,
        {"samples": samples, "model": model},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=dataset.metadata.update,
    )
