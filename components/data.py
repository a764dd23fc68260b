"""Components that read sources and make tables of samples."""

from typing import NamedTuple

from kfp import dsl

from rubricworks.components.declaration import component
from rubricworks.components.images import image_of

prepare = component(
    "prepare",
    "Read the image source, check and de-duplicate it, and split it into training and held-out samples.",
    "URI of the samples table.",
)
prepare_questions = component(
    "prepare_questions",
    "Read the question source, check and de-duplicate it, and split it by picture.",
    "URI of the samples table; the counts of the source stand in data.json beside it.",
)
open_questions = component(
    "open_questions",
    "Turn multiple-choice questions into open ones where a vision-language model says that they can be.",
    "URI of the samples table with the opened questions.",
)
offline_filter = component(
    "offline_filter",
    "Grade rollouts of the base model on the training samples, and mark those that it still fails on.",
    "URI of the filtered table; the corpus's statistics stand in statistics.json beside it.",
    model="URI of the base model.",
)
prepare_prompts = component(
    "prepare_prompts",
    "Read prompts for text-to-image: those to train on, and held-out ones with their requirements.",
    "URI of the samples table.",
)
benchmark_questions = component(
    "benchmark_questions",
    "Collect the questions about held-out pictures that models are scored on.",
    "URI of the table of questions.",
)


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
