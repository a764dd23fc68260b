"""Compilation of a pipeline to a Kubeflow YAML package; the same pipeline gives the same bytes.

Removal of stages from a pipeline, for arms, which are compared but not promoted.
"""

import copy
import importlib
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import yaml
from google.protobuf import json_format
from google.protobuf.message import Message
from kfp import compiler
from kfp.dsl.base_component import BaseComponent
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec, PlatformSpec

from rubricworks.errors import UserError
from rubricworks.recipe import ClusterConfig

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if PyYAML has it, ten times faster."""


def load_pipeline(method: str) -> BaseComponent:
    """Import the pipeline of a method, from the module of its name."""
    pipeline: BaseComponent = getattr(importlib.import_module(f"rubricworks.pipelines.{method}"), method)
    return pipeline


def compile_pipeline(
    pipeline_func: BaseComponent,
    path: Path,
    cluster: ClusterConfig | None = None,
    *,
    without: Collection[str] = (),
    served: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> None:
    """Write the pipeline's specification to `path`, creating its folder.

    Args:
        cluster: placement of the stages; None for the installation's defaults on any node.
        without: stages to drop; no other stage may read their outputs.
        served: name of each model that the run serves → stages that call it.
    Raises:
        UserError: the name does not end in .yaml, or the file cannot be written.
    """
    if path.suffix not in {".yaml", ".yml"}:
        raise UserError(f"{path}: a compiled pipeline is YAML; give a name that ends in .yaml")
    if cluster is not None:
        from rubricworks.kubeflow.cluster_pipeline import place_pipeline

        pipeline_func = place_pipeline(pipeline_func, cluster, without=without, served=served)
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


def drop_tasks(pipeline_func: BaseComponent, without: Collection[str]) -> BaseComponent:
    """Copy the pipeline without these stages, also inside its branches.

    Raises:
        ValueError: a remaining stage reads the output of a dropped one.
    """
    reduced = copy.deepcopy(pipeline_func)
    spec = reduced.pipeline_spec
    for dag in pipeline_dags(spec):
        for name in [name for name in dag.tasks if name.replace("-", "_") in without]:
            del dag.tasks[name]
        if orphans := [name for name, task in dag.tasks.items() if not set(task.dependent_tasks) <= dag.tasks.keys()]:
            raise ValueError(f"{', '.join(orphans)}: takes what was left out; leave it out too")
    used = {task.component_ref.name for dag in pipeline_dags(spec) for task in dag.tasks.values()}
    for name in set(spec.components) - used:
        executor = spec.components[name].executor_label
        del spec.components[name]
        spec.deployment_spec["executors"].fields.pop(executor)
        for platform in reduced.platform_spec.platforms.values():
            platform.deployment_spec.executors.pop(executor, None)
    return reduced


def pipeline_dags(spec: Message) -> Iterator[Message]:
    """DAG of the pipeline and those of its branches and exit handler."""
    yield spec.root.dag
    yield from (component.dag for component in spec.components.values() if component.HasField("dag"))
