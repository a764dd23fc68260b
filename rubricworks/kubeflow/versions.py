"""Immutable pipeline versions on Kubeflow.

A version's name has the pipeline, the digest of its content and the source revision, as in
`rubicap-3f2a91c0d4e5-g04949e6`. The same content is uploaded once. A name in use for other content is refused, since
its runs could not be traced to their content any more.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec, PlatformSpec

import rubricworks
from rubricworks.errors import UserError
from rubricworks.kubeflow.compile import read_package
from rubricworks.kubeflow.connection import Kubeflow

M = TypeVar("M", bound=Message)

_PAGE = 100
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,98}[a-z0-9])?")
"""Pattern of a version's name, which may become the name of a Kubernetes object."""


@dataclass(frozen=True)
class PipelineVersion:
    """A pipeline version on Kubeflow."""

    pipeline: str
    pipeline_id: str
    name: str
    version_id: str
    uploaded: bool
    """True if this call uploaded it."""


def push(kubeflow: Kubeflow, package: Path, *, revision: str, name: str | None = None) -> PipelineVersion:
    """Upload a compiled pipeline, unless Kubeflow has it already.

    Args:
        package: YAML file written by `compile_pipeline`.
        revision: revision of the code and the recipe that it was compiled from.
        name: name of the version; by default the pipeline, its digest and the revision.
    Raises:
        UserError: the name is in use for other content, or Kubeflow refuses.
    """
    content = read_package(package)
    pipeline = content[0].pipeline_info.name
    digest = content_digest(*content)
    name = name or f"{pipeline}-{digest[:12]}-{revision}"
    if not _NAME.fullmatch(name):
        raise UserError(f"version {name!r}: a name is small letters, digits, - and . inside, at most 100 of them")
    pipeline_id = find_pipeline(kubeflow, pipeline)
    if pipeline_id is None:
        pipeline_id = _create_pipeline(kubeflow, pipeline)
    for version in _versions(kubeflow, pipeline_id):
        if name in (version.display_name, version.name):
            _check_content(kubeflow, version, content, name, pipeline)
            return PipelineVersion(pipeline, pipeline_id, name, version.pipeline_version_id, uploaded=False)
    with kubeflow.request(f"take version {name} of pipeline {pipeline}") as client:
        version = client.upload_pipeline_version(
            str(package),
            name,
            pipeline_id=pipeline_id,
            description=f"content sha256:{digest}, revision {revision}, rubricworks {rubricworks.__version__}",
        )
    return PipelineVersion(pipeline, pipeline_id, name, version.pipeline_version_id, uploaded=True)


def content_digest(pipeline: PipelineSpec, platform: PlatformSpec) -> str:
    """SHA-256 of a pipeline's content, independent of its YAML formatting."""
    content = json.dumps([json_format.MessageToDict(spec) for spec in (pipeline, platform)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def revision_of(recipe: Path) -> str:
    """Source revision of a compiled pipeline: `g` and the commit of the recipe's repository, else of this code's.

    A working tree with uncommitted changes gives the suffix `.dirty`. Without a repository it is RUBRICWORKS_REVISION,
    which images set, and without that this package's version.
    """
    for folder in (recipe.resolve().parent, Path(rubricworks.__file__).resolve().parent):
        if (commit := _git(folder, "rev-parse", "--short=7", "HEAD")) is not None:
            return f"g{commit}.dirty" if _git(folder, "status", "--porcelain", "-uno") else f"g{commit}"
    if image_revision := os.environ.get("RUBRICWORKS_REVISION", "").strip().lower():
        return f"g{image_revision[:7]}"
    return re.sub(r"[^a-z0-9.]", ".", f"v{rubricworks.__version__}".lower())


def _git(folder: Path, *command: str) -> str | None:
    """Output of git in a folder; None if it fails."""
    try:
        process = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() if process.returncode == 0 else None


def find_pipeline(kubeflow: Kubeflow, name: str) -> str | None:
    """Id of the pipeline of that name in the namespace; a shared pipeline of the same name does not count."""
    name_filter = {"predicates": [{"operation": "EQUALS", "key": "display_name", "stringValue": name}]}
    with kubeflow.request("list pipelines") as client:
        pipelines = client.list_pipelines(namespace=kubeflow.namespace, filter=json.dumps(name_filter)).pipelines or []
    return str(pipelines[0].pipeline_id) if pipelines else None


def _create_pipeline(kubeflow: Kubeflow, name: str) -> str:
    """Create a pipeline without versions; uploading a package would add a version with the pipeline's name."""
    import kfp_server_api as api

    with kubeflow.request(f"make pipeline {name}") as client:
        pipeline = client.pipelines.pipeline_service_create_pipeline(
            api.V2beta1Pipeline(name=name, display_name=name, namespace=kubeflow.namespace)
        )
    return str(pipeline.pipeline_id)


def _versions(kubeflow: Kubeflow, pipeline_id: str) -> Iterator[Any]:
    token = ""
    while True:
        with kubeflow.request("list versions") as client:
            page = client.list_pipeline_versions(pipeline_id, page_token=token, page_size=_PAGE)
        yield from page.pipeline_versions or []
        token = page.next_page_token or ""
        if not token:
            return


def _check_content(
    kubeflow: Kubeflow, version: Any, content: tuple[PipelineSpec, PlatformSpec], name: str, pipeline: str
) -> None:
    """Raise UserError if the version of that name has other content."""
    with kubeflow.request(f"show version {name}") as client:
        whole = client.get_pipeline_version(version.pipeline_id, version.pipeline_version_id)
    if remote_digest(whole.pipeline_spec) != content_digest(*content):
        raise UserError(
            f"version {name} of pipeline {pipeline} is at {kubeflow.url} with other content; "
            "give this one another name with --version, or leave the name to its content"
        )


def remote_digest(spec: Any) -> str | None:
    """Content digest of a pipeline read from Kubeflow; None if it cannot be parsed."""
    if not isinstance(spec, dict):
        return None
    whole = "pipeline_spec" in spec or "platform_spec" in spec
    pipeline = spec.get("pipeline_spec") if whole else spec
    try:
        return content_digest(
            _parse(pipeline, PipelineSpec()),
            _parse(spec.get("platform_spec") if whole else None, PlatformSpec()),
        )
    except (json_format.ParseError, TypeError, ValueError):
        return None


def _parse(document: Any, message: M) -> M:
    return json_format.ParseDict(document or {}, message)
