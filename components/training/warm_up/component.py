from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("warm_up"), install_kfp_package=False, packages_to_install=[])
def warm_up(
    config: str,
    run: str,
    samples: str,
    checkpoint: dsl.Output[dsl.Model],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Teach the base model to caption at all; a model that is a captioner already passes through unchanged.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table; its references are what the model first learns from.
        checkpoint: the model, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the model every later stage starts from.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "warm_up",
        config,
        run,
        {"samples": samples},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=checkpoint.metadata.update,
    )
