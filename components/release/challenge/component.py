from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("challenge"), install_kfp_package=False, packages_to_install=[])
def challenge(
    config: str,
    run: str,
    found: str,
    scores: str,
    policy: str,
    samples: str,
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Register a retrained policy as the challenger, and make it champion if it passes and nobody has to agree.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        found: URI of the found samples.
        scores: URI of the scores of champion and challenger.
        policy: URI of the retrained policy.
        samples: URI of the samples table.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the challenge's record.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "challenge",
        config,
        run,
        {"found": found, "scores": scores, "policy": policy, "samples": samples},
        view=view.path,
        metrics=metrics.log_metric,
    )
