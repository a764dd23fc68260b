from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("evaluate_captions"), install_kfp_package=False, packages_to_install=[])
def evaluate_captions(
    config: str,
    run: str,
    samples: str,
    exams: str,
    model: str,
    policy: str,
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Caption the held-out samples with base and policy, and score both: b-CapScore, DCScore, CaptionQA, arena.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table; only its held-out rows are captioned.
        exams: URI of the exams table.
        model: URI of the model before training: the base.
        policy: URI of the trained policy.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the caption_scores table.
    """
    from rubricworks.runtime.launch import launch

    inputs = {"samples": samples, "exams": exams, "model": model, "policy": policy}
    return launch("evaluate_captions", config, run, inputs, view=view.path, metrics=metrics.log_metric)
