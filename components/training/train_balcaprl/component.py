from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("train_balcaprl"), install_kfp_package=False, packages_to_install=[])
def train_balcaprl(
    config: str,
    run: str,
    samples: str,
    exams: str,
    rubrics: str,
    model: str,
    checkpoint: dsl.Output[dsl.Model],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Train the policy on precision, recall and linguistic quality of its captions, each normalised for itself.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table; the first reference of each training sample is what captions are measured by.
        exams: URI of the exams table, for the reward of right answers.
        rubrics: URI of the rubrics table, for the reward of captions that meet them.
        model: URI of the model to start from.
        checkpoint: the model, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the trained policy.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "train_balcaprl",
        config,
        run,
        {"samples": samples, "exams": exams, "rubrics": rubrics, "model": model},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=checkpoint.metadata.update,
    )
