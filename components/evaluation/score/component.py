from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("score"), install_kfp_package=False, packages_to_install=[])
def score(
    config: str,
    run: str,
    samples: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
    model: str = "",
    policy: str = "",
    peer: str = "",
    rubrics: str = "",
    exams: str = "",
) -> str:
    """Score the responses of the base model and of the trained ones to the held-out samples.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table; only its held-out rows are used.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.
        model: URI of the model before training, the base, if there is one.
        policy: URI of the trained policy, if there is one.
        peer: URI of a training for comparison, if there is one.
        rubrics: URI of the rubrics table, if a scorer needs rubrics.
        exams: URI of the exams table, if a scorer needs exams.

    Returns:
        URI of the scores table.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "score",
        config,
        run,
        {
            "samples": samples,
            "rubrics": rubrics,
            "exams": exams,
            "model": model,
            "peer": peer,
            "policy": policy,
        },
        view=view.path,
        metrics=metrics.log_metric,
        lineage=dataset.metadata.update,
    )
