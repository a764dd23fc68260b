"""Instructions in LLaVA-NeXT's form as a table, with the rows that cannot be used beside it."""

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rubricworks.data.instructions import InstructionEntry, instruction_entries
from rubricworks.data.manifest import Manifest, read_manifest
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.sources import image_bytes
from rubricworks.data.tables import build_table
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.job import Job

_SHARD = 1_024


def write_instructions(job: Job, folder: Path, source: str, field: str) -> Manifest:
    """Write the conversations of a source with their images; those that cannot be used go into `rejected` below.

    Images are decoded by a thread per core. A killed call resumes at the first shard that is not committed.

    Args:
        field: recipe field of the source, for messages.
    Raises:
        UserError: the source cannot be read, or has no usable row.
    """
    source = fill(source, field)

    with ThreadPoolExecutor(os.cpu_count()) as pool:

        async def rows(chunk: list[tuple[int, InstructionEntry | RejectedEntry]]) -> dict[str, list[Row]]:
            opened = list(pool.map(_row, chunk))
            return {
                "instructions": [row for row in opened if not isinstance(row, RejectedEntry)],
                "rejected": [row.model_dump() for row in opened if isinstance(row, RejectedEntry)],
            }

        rejected = folder / "rejected"
        table = build_table(
            folder,
            "instructions",
            enumerate(instruction_entries(source)),
            rows,
            made_by=job.made_by,
            shard_size=_SHARD,
            side_tables={"rejected": rejected},
        )
        manifest = asyncio.run(table)
    job.figures["rejected"] = read_manifest(rejected).rows
    if not manifest.rows:
        raise UserError(f"{field}: {source} has no usable conversation; {rejected} holds the reason for each row")
    return manifest


def _row(numbered: tuple[int, InstructionEntry | RejectedEntry]) -> Row | RejectedEntry:
    number, entry = numbered
    if isinstance(entry, RejectedEntry):
        return entry
    images = []
    for image in entry.images:
        content = image_bytes(image)
        if isinstance(content, RejectedEntry):
            return content
        images.append(content)
    messages = json.dumps(entry.messages)
    return {"sample_id": f"instruction-{number}", "images": images, "messages": messages, "source": entry.source}
