"""Artifacts of a run: shards of its tables, files of its models, its report, with their digests, to be taken along.

Nothing else of a run's folder is sent: caches, logs and settings may hold what their readers redact.
"""

import asyncio
import re
from collections.abc import AsyncIterator

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.data.manifest import Shard
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.schemas.runs import ArtifactBody
from rubricworks.platform_api.services.runs import check_name, read_object, tables_of
from rubricworks.runs.store import RunStore
from rubricworks.runtime.job import DONE

_OTHERS = re.compile(
    r"(report\.html|summary\.json|[\w-]+/(steps\.jsonl|scores\.json|card\.md)|[\w-]+/(model|adapter)/[^/]+)"
)
"""Files that no manifest names: the report and its figures, statistics of steps, models."""
_PART_BYTES = 1 << 20


async def list_artifacts(session: AsyncSession, store: RunStore, run: str) -> list[ArtifactBody]:
    """Files of a run that can be taken along, by path."""
    check_name(run)
    files = await asyncio.to_thread(store.files, run)
    shards = {
        f"{table.path}/{shard.name}": (table.kind, shard)
        for table in await tables_of(session, run)
        for shard in map(Shard.model_validate, table.shards)
    }
    stages = {path.partition("/")[0] for path in files if path.endswith(f"/{DONE}")}
    digests = {stage: (await read_object(store, run, f"{stage}/{DONE}")).get("digest") for stage in sorted(stages)}
    artifacts = []
    for path, file in sorted(files.items()):
        kind, shard = shards.get(path, ("", None))
        if shard is None and not _OTHERS.fullmatch(path):
            continue
        of_stage = digests.get(path.partition("/")[0])
        artifacts.append(
            ArtifactBody(
                path=path,
                kind=kind,
                rows=shard.rows if shard else None,
                bytes=file.size,
                modified=file.modified,
                digest=shard.sha256 if shard else None,
                stage_digest=of_stage if isinstance(of_stage, str) else None,
            )
        )
    return artifacts


async def artifact_parts(store: RunStore, artifact: ArtifactBody, run: str) -> AsyncIterator[bytes]:
    """Content of an artifact, a part at a time."""
    for start in range(0, artifact.bytes, _PART_BYTES):
        length = min(_PART_BYTES, artifact.bytes - start)
        part = await asyncio.to_thread(store.read_range, run, artifact.path, start, length)
        if not part:
            return
        yield part


async def find_artifact(session: AsyncSession, store: RunStore, run: str, path: str) -> ArtifactBody:
    """An artifact by its path.

    Raises:
        NotFound: the run has none there.
    """
    for artifact in await list_artifacts(session, store, run):
        if artifact.path == path:
            return artifact
    raise NotFound(f"{run} has no artifact {path!r}; the page of its artifacts lists all")
