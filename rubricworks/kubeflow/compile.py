"""Compilation of a pipeline to a Kubeflow YAML package; the same pipeline gives the same bytes."""

import importlib
import tempfile
from collections.abc import Collection
from pathlib import Path

import yaml
from google.protobuf import json_format
from kfp import compiler
from kfp.dsl.base_component import BaseComponent
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec, PlatformSpec

from rubricworks.errors import UserError
from rubricworks.kubeflow.drop_tasks import drop_tasks
from rubricworks.recipe import ClusterConfig

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if PyYAML has it, ten times faster."""


def load_pipeline(method: str) -> BaseComponent:
    """Import the pipeline of a method, from the module of its name."""
    pipeline: BaseComponent = getattr(importlib.import_module(f"rubricworks.pipelines.{method}"), method)
    return pipeline


def compile_pipeline(
    pipeline_func: BaseComponent, path: Path, cluster: ClusterConfig | None = None, *, without: Collection[str] = ()
) -> None:
    """Write the pipeline's specification to `path`, creating its folder.

    Args:
        cluster: placement of the stages; None for the installation's defaults on any node.
        without: stages to drop; no other stage may read their outputs.
    Raises:
        UserError: the name does not end in .yaml, or the file cannot be written.
    """
    if path.suffix not in {".yaml", ".yml"}:
        raise UserError(f"{path}: a compiled pipeline is YAML; give a name that ends in .yaml")
    if cluster is not None:
        from rubricworks.kubeflow.cluster_pipeline import place_pipeline

        pipeline_func = place_pipeline(pipeline_func, cluster, without=without)
    if without:
        pipeline_func = drop_tasks(pipeline_func, without)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        compiler.Compiler().compile(pipeline_func, str(path))
    except OSError as error:
        raise UserError(
            f"{path}: cannot write the compiled pipeline ({error.strerror}); choose another place"
        ) from error


def compile_specs(
    pipeline_func: BaseComponent, cluster: ClusterConfig | None = None
) -> tuple[PipelineSpec, PlatformSpec]:
    """Compile the pipeline to its specifications: the tasks, and the Kubernetes settings of each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.yaml"
        compile_pipeline(pipeline_func, path, cluster)
        return read_package(path)


def read_package(path: Path) -> tuple[PipelineSpec, PlatformSpec]:
    """Read the two documents of a compiled pipeline; the second is empty if no stage has a placement.

    Raises:
        UserError: the file is not a compiled pipeline.
    """
    try:
        pipeline, platform = [*yaml.load_all(path.read_text(encoding="utf-8"), _LOADER), {}][:2]
        return json_format.ParseDict(pipeline, PipelineSpec()), json_format.ParseDict(platform, PlatformSpec())
    except (yaml.YAMLError, json_format.ParseError, ValueError) as error:
        raise UserError(f"{path}: not a compiled pipeline ({str(error).splitlines()[0]}); compile it again") from error
