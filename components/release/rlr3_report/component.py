from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("rlr3_report"), install_kfp_package=False, packages_to_install=[])
def rlr3_report(
    config: str,
    run: str,
    promotion: str,
    audit: str,
    genrm: str,
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Write the page and the summary of the run.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        promotion: URI of the promotion.
        audit: URI of the audit.
        genrm: URI of the trained GenRM.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the summary.
    """
    from rubricworks.runtime.launch import launch

    return launch(
        "rlr3_report",
        config,
        run,
        {"promotion": promotion, "audit": audit, "genrm": genrm},
        view=view.path,
        metrics=metrics.log_metric,
    )
