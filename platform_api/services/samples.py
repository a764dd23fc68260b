"""Samples of a run, as its pages show them beside a response: found by the index, read from one row group."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import SampleFile, SamplePlace
from rubricworks.platform_api.services.runs import check_name
from rubricworks.platform_api.services.stored_parquet import read_row_group
from rubricworks.platform_api.services.thumbnail_cache import RowGroup, image_in_group
from rubricworks.runs.store import RunStore

_TEXTS = ["sample_id", "prompt", "question", "image_digest"]


class SampleText(NamedTuple):
    """Texts of a sample, and the presence of an image."""

    prompt: str
    question: str
    has_image: bool


class Place(NamedTuple):
    """Row group that holds a sample."""

    path: str
    size: int
    modified: Any
    group: int


async def find_sample(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> SampleText:
    """A sample of a run; one that no table has any more has an image at best."""
    # A sample whose question was rewritten stands in a later table too, which is named after the first.
    for place in reversed(await _places(session, run, sample_id)):
        columns = await asyncio.to_thread(read_row_group, store, run, place.path, place.size, place.group, _TEXTS)
        rows = zip(*(columns[name] for name in _TEXTS), strict=True) if columns else ()
        for found, prompt, question, digest in rows:
            if found == sample_id:
                return SampleText(prompt or "", question or "", digest is not None)
    return SampleText("", "", has_image=True)


async def find_image(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> bytes | None:
    """Image of a sample; None if the run has no such sample, or the sample no image.

    Raises:
        NotFound: the run's name is no folder's.
    """
    check_name(run)
    for place in await _places(session, run, sample_id):
        image = await image_in_group(RowGroup(store, run, *place), sample_id)
        if image is not None:
            return image
    return None


async def _places(session: AsyncSession, run: str, sample_id: str) -> Sequence[Place]:
    query = (
        select(SampleFile.path, SampleFile.size, SampleFile.modified, SamplePlace.row_group)
        .join(SamplePlace, SamplePlace.file_id == SampleFile.id)
        .where(SampleFile.run == run, SamplePlace.sample_id == sample_id)
        .order_by(SampleFile.path)
    )
    return [Place(*row) for row in await session.execute(query)]
