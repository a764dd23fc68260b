"""Arguments of a pipeline, here and on a cluster, and the output that a stage passes on."""

from collections.abc import Mapping

from kfp.dsl import PipelineTask
from kfp.dsl.pipeline_channel import PipelineChannel


def pipeline_arguments(run: str, configs: Mapping[str, str]) -> dict[str, str]:
    """The parameters `run` and `<stage>_config`, one for each stage.

    Args:
        run: URI of the run's folder.
        configs: stage → its own configuration as JSON.
    """
    return {"run": run} | {f"{stage}_config": _without_placeholders(config) for stage, config in configs.items()}


def output_of(task: PipelineTask) -> PipelineChannel:
    """URI that a stage passes on; its view and its metrics are for people."""
    return task.outputs["Output"]


def _without_placeholders(config: str) -> str:
    # Kubeflow Pipelines resolves `{{$…}}` wherever it stands, in a prompt too. JSON has two open braces in a row only
    # inside a string, where an escape means the same character.
    return config.replace("{{$", "{\\u007b$")
