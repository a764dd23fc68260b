from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("synthesize_rubrics"), install_kfp_package=False, packages_to_install=[])
def synthesize_rubrics(
    config: str,
    run: str,
    samples: str,
    captions: str,
    student_captions: str,
    dataset: dsl.Output[dsl.Dataset],
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Write one rubric per training sample: what the committee agrees on, turned into weighted yes-or-no criteria.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        samples: URI of the samples table.
        captions: URI of the committee's captions.
        student_captions: URI of the student's captions.
        dataset: the table, for Kubeflow's pages: its URI and digests.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the rubrics table.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "synthesize_rubrics",
        config,
        run,
        {"samples": samples, "captions": captions, "student_captions": student_captions},
        view=view.path,
        metrics=metrics.log_metric,
        lineage=dataset.metadata.update,
    )
