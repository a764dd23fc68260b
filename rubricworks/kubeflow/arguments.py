"""Arguments of a pipeline, on this machine and on a cluster, and the output of a stage."""

from collections.abc import Mapping

from kfp.dsl import PipelineTask
from kfp.dsl.pipeline_channel import PipelineChannel

from rubricworks.runtime.config import parameter_json


def pipeline_arguments(run: str, configs: Mapping[str, str]) -> dict[str, str]:
    """Build the pipeline's parameters: `run`, and `<stage>_config` for each stage.

    Args:
        run: URI of the run's folder.
        configs: stage → its configuration as JSON.
    """
    return {"run": run} | {f"{stage}_config": parameter_json(config) for stage, config in configs.items()}


def output_of(task: PipelineTask) -> PipelineChannel:
    """URI output of a stage, the one that other stages read; view and metrics are for the Kubeflow pages."""
    return task.outputs["Output"]
