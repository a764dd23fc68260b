"""Notes and tags that people give to runs."""

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Run, RunNote, RunTag, utc_now
from rubricworks.platform_api.schemas.runs import NotesBody, NotesRequest
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.storage.plain_json import plain_text


async def notes_of(session: AsyncSession, run: str) -> NotesBody:
    """Note and tags of a run; empty if nobody wrote any."""
    tags = (await session.scalars(select(RunTag.tag).where(RunTag.run == run).order_by(RunTag.tag))).all()
    note = await session.get(RunNote, run)
    if note is None:
        return NotesBody(note="", tags=list(tags), by=None, at=None)
    return NotesBody(note=note.note, tags=list(tags), by=note.by, at=note.at)


async def write_notes(session: AsyncSession, by: Principal, run: str, notes: NotesRequest) -> NotesBody:
    """Put a note and tags in place of those before."""
    tags = sorted(set(notes.tags))
    await session.execute(delete(RunTag).where(RunTag.run == run))
    if tags:
        await session.execute(insert(RunTag), [{"tag": tag, "run": run} for tag in tags])
    await session.execute(update(Run).where(Run.name == run).values(tags=", ".join(tags) or None))
    await session.merge(RunNote(run=run, note=plain_text(notes.note), by=by.name, at=utc_now()))
    record(session, by, "run.note", run, tags=tags)
    await session.flush()
    return await notes_of(session, run)


async def known_tags(session: AsyncSession, most: int = 50) -> list[str]:
    """Tags in use, by name."""
    return list(await session.scalars(select(RunTag.tag).distinct().order_by(RunTag.tag).limit(most)))
