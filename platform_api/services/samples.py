"""Samples of a run, as its pages show them beside a response."""

import asyncio
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.services.run_index import read_table
from rubricworks.platform_api.services.run_tables import list_tables
from rubricworks.runs.store import RunStore

_COLUMNS = ["sample_id", "prompt", "question", "image_digest"]


class SampleText(NamedTuple):
    """Texts of a sample, and the presence of an image."""

    prompt: str
    question: str
    has_image: bool


async def find_sample(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> SampleText:
    """A sample of a run; one that no table has any more has an image at best."""
    tables = [one for one in await list_tables(session, "samples", run=run) if one.path.startswith("prepare")]
    found = await asyncio.to_thread(_find, store, tables, sample_id)
    return found or SampleText("", "", has_image=True)


def _find(store: RunStore, tables: list[RunTable], sample_id: str) -> SampleText | None:
    for table in tables:
        for shard in table.shards:
            columns = read_table(store, table.run, f"{table.path}/{shard['name']}", columns=_COLUMNS) or {}
            rows = zip(*(columns.get(name, []) for name in _COLUMNS), strict=True)
            for found, prompt, question, digest in rows:
                if found == sample_id:
                    return SampleText(prompt or "", question or "", digest is not None)
    return None
