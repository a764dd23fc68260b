from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("train_policy"), install_kfp_package=False, packages_to_install=[])
def train_policy(
    config: str,
    run: str,
    samples: str,
    rubrics: str,
    model: str,
    captions: str,
    checkpoint: dsl.Output[dsl.Model],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Train the policy by group-relative policy optimisation on rewards graded from the rubrics.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        rubrics: URI of the rubrics table.
        model: URI of the model to start from.
        captions: URI of the committee's captions, for refreshing rubrics during training.
        checkpoint: the model, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the trained policy.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "train_policy",
        config,
        run,
        {"samples": samples, "rubrics": rubrics, "model": model, "captions": captions},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=checkpoint.metadata.update,
    )
