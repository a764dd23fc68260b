from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("peer_rubrics"), install_kfp_package=False, packages_to_install=[])
def peer_rubrics(
    config: str,
    run: str,
    samples: str,
    model: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Write RubiCap's rubrics of the training samples, where it is trained as a peer; none unless they are asked for.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        model: URI of the model before training: the student whose faults the rubrics aim at.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the rubrics table.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "peer_rubrics",
        config,
        run,
        {"samples": samples, "model": model},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=dataset.metadata.update,
    )
