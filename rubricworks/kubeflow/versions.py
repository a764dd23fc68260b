"""Pipelines that are kept by Kubeflow: uploaded as versions that are never changed.

A version's name says what it holds: the pipeline, the digest of its content and the revision that it was written from,
as in `rubicap-3f2a91c0d4e5-g04949e6`. The same content is uploaded once. A name that is taken by other content is
refused, since what ran under it could not be told any more.
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
from rubricworks.kubeflow.compile import read_compiled
from rubricworks.kubeflow.connection import Kubeflow

M = TypeVar("M", bound=Message)

_PAGE = 100
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,98}[a-z0-9])?")
"""Of a version; Kubeflow may keep it as a Kubernetes object of that name."""


@dataclass(frozen=True)
class PipelineVersion:
    """A version that Kubeflow has."""

    pipeline: str
    pipeline_id: str
    name: str
    version_id: str
    uploaded: bool
    """Whether it was new."""


def push(kubeflow: Kubeflow, package: Path, *, revision: str, name: str | None = None) -> PipelineVersion:
    """Upload a compiled pipeline, unless Kubeflow has it already.

    Args:
        package: the YAML that `compile_pipeline` wrote.
        revision: of the code and the recipe that it was compiled from.
        name: of the version; by default the pipeline, its digest and the revision.
    Raises:
        UserError: the name is taken by other content, or Kubeflow refuses.
    """
    content = read_compiled(package)
    pipeline = content[0].pipeline_info.name
    digest = content_digest(*content)
    name = name or f"{pipeline}-{digest[:12]}-{revision}"
    if not _NAME.fullmatch(name):
        raise UserError(f"version {name!r}: a name is small letters, digits, - and . inside, at most 100 of them")
    pipeline_id = _pipeline_id(kubeflow, pipeline)
    if pipeline_id is None:
        pipeline_id = _make_pipeline(kubeflow, pipeline)
    for there in _versions(kubeflow, pipeline_id):
        if name in (there.display_name, there.name):
            _check_same(kubeflow, there, content, name, pipeline)
            return PipelineVersion(pipeline, pipeline_id, name, there.pipeline_version_id, uploaded=False)
    with kubeflow.asked(f"take version {name} of pipeline {pipeline}") as client:
        made = client.upload_pipeline_version(
            str(package),
            name,
            pipeline_id=pipeline_id,
            description=f"content sha256:{digest}, revision {revision}, rubricworks {rubricworks.__version__}",
        )
    return PipelineVersion(pipeline, pipeline_id, name, made.pipeline_version_id, uploaded=True)


def content_digest(pipeline: PipelineSpec, platform: PlatformSpec) -> str:
    """SHA-256 of what a pipeline says, however it is written down."""
    said = json.dumps([json_format.MessageToDict(one) for one in (pipeline, platform)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def revision_of(recipe: Path) -> str:
    """Revision that a pipeline is compiled from: `g` and the commit of the recipe's repository, else of this code's.

    One with changes that no commit holds ends in `.dirty`. Images have the revision they were built from in
    RUBRICWORKS_REVISION. Where nothing is known, it is this package's version.
    """
    for folder in (recipe.resolve().parent, Path(rubricworks.__file__).resolve().parent):
        if (commit := _git(folder, "rev-parse", "--short=7", "HEAD")) is not None:
            return f"g{commit}.dirty" if _git(folder, "status", "--porcelain", "-uno") else f"g{commit}"
    if built_from := os.environ.get("RUBRICWORKS_REVISION", "").strip().lower():
        return f"g{built_from[:7]}"
    return re.sub(r"[^a-z0-9.]", ".", f"v{rubricworks.__version__}".lower())


def _git(folder: Path, *command: str) -> str | None:
    """Output of git in a folder; None if it fails."""
    try:
        said = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() if said.returncode == 0 else None


def _pipeline_id(kubeflow: Kubeflow, name: str) -> str | None:
    """Id of the pipeline of that name in the namespace; a shared one of the same name is another."""
    wanted = {"predicates": [{"operation": "EQUALS", "key": "display_name", "stringValue": name}]}
    with kubeflow.asked("list pipelines") as client:
        found = client.list_pipelines(namespace=kubeflow.namespace, filter=json.dumps(wanted)).pipelines or []
    return str(found[0].pipeline_id) if found else None


def _make_pipeline(kubeflow: Kubeflow, name: str) -> str:
    """A pipeline without versions: uploading a package would make one that bears the pipeline's name."""
    import kfp_server_api as api

    with kubeflow.asked(f"make pipeline {name}") as client:
        made = client.pipelines.pipeline_service_create_pipeline(
            api.V2beta1Pipeline(name=name, display_name=name, namespace=kubeflow.namespace)
        )
    return str(made.pipeline_id)


def _versions(kubeflow: Kubeflow, pipeline_id: str) -> Iterator[Any]:
    token = ""
    while True:
        with kubeflow.asked("list versions") as client:
            page = client.list_pipeline_versions(pipeline_id, page_token=token, page_size=_PAGE)
        yield from page.pipeline_versions or []
        token = page.next_page_token or ""
        if not token:
            return


def _check_same(
    kubeflow: Kubeflow, there: Any, content: tuple[PipelineSpec, PlatformSpec], name: str, pipeline: str
) -> None:
    with kubeflow.asked(f"show version {name}") as client:
        whole = client.get_pipeline_version(there.pipeline_id, there.pipeline_version_id)
    if content_of(whole.pipeline_spec) != content_digest(*content):
        raise UserError(
            f"version {name} of pipeline {pipeline} is at {kubeflow.url} with other content; "
            "give this one another name with --version, or leave the name to its content"
        )


def content_of(spec: Any) -> str | None:
    """The digest of what Kubeflow has; None where it is not a pipeline that we can read."""
    if not isinstance(spec, dict):
        return None
    whole = "pipeline_spec" in spec or "platform_spec" in spec
    pipeline = spec.get("pipeline_spec") if whole else spec
    try:
        return content_digest(
            _parsed(pipeline, PipelineSpec()),
            _parsed(spec.get("platform_spec") if whole else None, PlatformSpec()),
        )
    except (json_format.ParseError, TypeError, ValueError):
        return None


def _parsed(said: Any, message: M) -> M:
    return json_format.ParseDict(said or {}, message)
