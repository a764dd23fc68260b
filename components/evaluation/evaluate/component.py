from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("evaluate"), install_kfp_package=False, packages_to_install=[])
def evaluate(
    config: str,
    run: str,
    samples: str,
    rubrics: str,
    model: str,
    policy: str,
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Caption the held-out samples with base and policy, and grade both.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table; only its held-out rows are captioned.
        rubrics: URI of the rubrics table.
        model: URI of the model before training: the base.
        policy: URI of the trained policy.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the evaluations table.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "evaluate",
        config,
        run,
        {"samples": samples, "rubrics": rubrics, "model": model, "policy": policy},
        view=view.path,
        metrics=metrics.log_metric,
    )
