"""What a pipeline is started with, here and on a cluster."""

from collections.abc import Mapping


def pipeline_arguments(run: str, configs: Mapping[str, str]) -> dict[str, str]:
    """The parameters `run` and `<stage>_config`, one for each stage.

    Args:
        run: URI of the run's folder.
        configs: stage → its own configuration as JSON.
    """
    return {"run": run} | {f"{stage}_config": _without_placeholders(config) for stage, config in configs.items()}


def _without_placeholders(config: str) -> str:
    # Kubeflow Pipelines resolves `{{$…}}` wherever it stands, in a prompt too. JSON has two open braces in a row only
    # inside a string, where an escape means the same character.
    return config.replace("{{$", "{\\u007b$")
