"""Arguments of a pipeline, on this machine and on a cluster, and the output of a stage."""

from collections.abc import Mapping

from kfp.dsl import PipelineTask
from kfp.dsl.pipeline_channel import PipelineChannel


def pipeline_arguments(run: str, configs: Mapping[str, str]) -> dict[str, str]:
    """Build the pipeline's parameters: `run`, and `<stage>_config` for each stage.

    Args:
        run: URI of the run's folder.
        configs: stage → its configuration as JSON.
    """
    return {"run": run} | {f"{stage}_config": _escape_placeholders(config) for stage, config in configs.items()}


def output_of(task: PipelineTask) -> PipelineChannel:
    """URI output of a stage, the one that other stages read; view and metrics are for the Kubeflow pages."""
    return task.outputs["Output"]


def _escape_placeholders(config: str) -> str:
    # Kubeflow Pipelines resolves `{{$…}}` anywhere, also in a prompt. In JSON, two adjacent open braces occur only in a
    # string, where the escape denotes the same character.
    return config.replace("{{$", "{\\u007b$")
