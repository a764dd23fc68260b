from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("evaluate_answers"), install_kfp_package=False, packages_to_install=[])
def evaluate_answers(
    config: str,
    run: str,
    samples: str,
    model: str,
    rlvr: str,
    rlr3: str,
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Answer the held-out questions with the base model and with both arms' milestones.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        model: URI of the base model.
        rlvr: URI of the baseline's training.
        rlr3: URI of the policy's training.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the answers table.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "evaluate_answers",
        config,
        run,
        {"samples": samples, "model": model, "rlvr": rlvr, "rlr3": rlr3},
        view=view.path,
        metrics=metrics.log_metric,
    )
