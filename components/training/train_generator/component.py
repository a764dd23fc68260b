from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("train_generator"), install_kfp_package=False, packages_to_install=[])
def train_generator(
    config: str,
    run: str,
    samples: str,
    rubrics: str,
    model: str,
    checkpoint: dsl.Output[dsl.Model],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Train an image generator on the rubrics of its prompts.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        rubrics: URI of the rubrics table.
        model: URI of the generator to start from.
        checkpoint: the model, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the trained generator.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "train_generator",
        config,
        run,
        {"samples": samples, "rubrics": rubrics, "model": model},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=checkpoint.metadata.update,
    )
