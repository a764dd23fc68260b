from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("train_rlvr"), install_kfp_package=False, packages_to_install=[])
def train_rlvr(
    config: str,
    run: str,
    samples: str,
    rubrics: str,
    filtered: str,
    model: str,
    checkpoint: dsl.Output[dsl.Model],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Train the baseline on verified final answers alone.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        rubrics: URI of the rubrics table.
        filtered: URI of the table that says which samples are kept.
        model: URI of the model to start from.
        checkpoint: the model, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the trained policy.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "train_rlvr",
        config,
        run,
        {"samples": samples, "rubrics": rubrics, "filtered": filtered, "model": model},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=checkpoint.metadata.update,
    )
