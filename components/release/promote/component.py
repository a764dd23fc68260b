from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("promote"), install_kfp_package=False, packages_to_install=[])
def promote(
    config: str,
    run: str,
    scores: str,
    policy: str,
    samples: str,
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
    audit: str = "",
) -> str:
    """Register the policy and make it champion if it passes the gate.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        scores: URI of the scores table.
        policy: URI of the trained policy.
        samples: URI of the samples table.
        view: the stage's page.
        metrics: the stage's figures.
        audit: URI of the judge's audit, if the gate has a rule on it.

    Returns:
        URI of the promotion's record.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "promote",
        config,
        run,
        {"scores": scores, "policy": policy, "samples": samples, "audit": audit},
        view=view.path,
        metrics=metrics.log_metric,
    )
