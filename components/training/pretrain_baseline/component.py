from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("pretrain_baseline"), install_kfp_package=False, packages_to_install=[])
def pretrain_baseline(
    config: str,
    run: str,
    samples: str,
    captions: str,
    model: str,
    checkpoint: dsl.Output[dsl.Model],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Train the whole model on the baseline's captions (stage 1.5).

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        captions: URI of the captions table.
        model: URI of the model to start from.
        checkpoint: the model, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the trained model.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "pretrain_baseline",
        config,
        run,
        {"samples": samples, "captions": captions, "model": model},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=checkpoint.metadata.update,
    )
