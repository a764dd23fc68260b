from typing import NamedTuple

from kfp import dsl

from rubricworks.components.images import image_of


@dsl.component(base_image=image_of("find_new_samples"), install_kfp_package=False, packages_to_install=[])
def find_new_samples(config: str, run: str, view: dsl.Output[dsl.HTML], metrics: dsl.Output[dsl.Metrics]) -> NamedTuple(  # type: ignore[valid-type]  # the form that kfp reads
    "Outputs", [("Output", str), ("found", str), ("configs", str)]
):
    """Look for samples that the champion does not know, and decide whether they are worth a retraining.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        The pipeline that makes the challenger, or `none`; URI of the found samples; the stages' configurations as JSON.
    """
    from rubricworks.runtime.launch import launch

    values: dict[str, str] = {}
    uri = launch("find_new_samples", config, run, {}, view=view.path, metrics=metrics.log_metric, output_values=values)
    return values["pipeline"], uri, values["configs"]
