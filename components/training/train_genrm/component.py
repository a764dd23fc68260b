from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("train_genrm"), install_kfp_package=False, packages_to_install=[])
def train_genrm(
    config: str,
    run: str,
    genrm_data: str,
    checkpoint: dsl.Output[dsl.Model],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Train a generative reward model to execute checklists, and test it beside its base and an SFT baseline.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        genrm_data: URI of the table of labelled responses.
        checkpoint: the model, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the trained reward model.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "train_genrm",
        config,
        run,
        {"genrm_data": genrm_data},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=checkpoint.metadata.update,
    )
