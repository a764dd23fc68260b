from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("tune_vlm"), install_kfp_package=False, packages_to_install=[])
def tune_vlm(
    config: str,
    run: str,
    samples: str,
    model: str,
    checkpoint: dsl.Output[dsl.Model],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Tune the model on visual questions with their answers (stage 2).

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        model: URI of the model to start from.
        checkpoint: the model, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the trained model.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "tune_vlm",
        config,
        run,
        {"samples": samples, "model": model},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=checkpoint.metadata.update,
    )
