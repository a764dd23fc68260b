"""Edited rubrics: a version that one person proposes and another one reviews.

    proposed ──→ approved
        └──→ rejected

A version takes the place of the one that it was made from, and of no other: if another version was approved meanwhile,
it is refused, and so is the second of two approvals at once. The run's own table stays as its stage wrote it.
"""

from collections.abc import Sequence

from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import RubricVersion, RunTable, utc_now
from rubricworks.platform_api.pagination import PageRequest, query_page
from rubricworks.platform_api.problems import BadRequest, Conflict, NotFound, Problem
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.rubrics import RubricBody, RubricVersionBody
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import Principal, waives_for_rubrics
from rubricworks.platform_api.services.rubrics.rubric_sets import FIRST, stage_rubric
from rubricworks.rubrics import Rubric
from rubricworks.runs.store import RunStore


async def versions_of(session: AsyncSession, table: RunTable, sample_id: str) -> Sequence[RubricVersion]:
    """Edited versions of a sample's rubric, the first ones first."""
    query = select(RubricVersion).where(
        RubricVersion.run == table.run, RubricVersion.stage == table.path, RubricVersion.sample_id == sample_id
    )
    return (await session.scalars(query.order_by(RubricVersion.number))).all()


def standing_version(versions: Sequence[RubricVersion]) -> int:
    """Number of the current version: the last approved one, or else the stage's own."""
    return max((version.number for version in versions if version.state == "approved"), default=FIRST)


async def rubric_of(
    session: AsyncSession, store: RunStore, table: RunTable, sample_id: str, number: int | None = None
) -> tuple[int, Rubric]:
    """A version of a sample's rubric with its number; by default the current one.

    Raises:
        NotFound: there is no such sample or version.
    """
    versions = await versions_of(session, table, sample_id)
    wanted = standing_version(versions) if number is None else number
    written = await stage_rubric(store, table, sample_id)
    return wanted, _version(sample_id, wanted, written.rubric, versions)


async def show_rubric(
    session: AsyncSession, store: RunStore, table: RunTable, sample_id: str, number: int | None = None
) -> RubricBody:
    """A version of a sample's rubric, by default the current one, with all versions.

    Raises:
        NotFound: there is no such sample or version.
    """
    written = await stage_rubric(store, table, sample_id)
    versions = await versions_of(session, table, sample_id)
    shown = standing_version(versions) if number is None else number
    return RubricBody(
        sample_id=sample_id,
        version=shown,
        standing=standing_version(versions),
        writer=written.writer,
        rubric=_version(sample_id, shown, written.rubric, versions),
        versions=[RubricVersionBody.model_validate(version) for version in versions],
    )


async def list_versions(
    session: AsyncSession, asked: PageRequest, *, state: str | None = None, run: str | None = None
) -> Page[RubricVersionBody]:
    """Edited versions of all rubrics, the newest first."""
    query = select(RubricVersion)
    if state is not None:
        query = query.where(RubricVersion.state == state)
    if run is not None:
        query = query.where(RubricVersion.run == run)
    return await query_page(session, query, (RubricVersion.id,), asked, RubricVersionBody.model_validate)


async def get_version(session: AsyncSession, number: int) -> RubricVersion:
    """An edited version by its number among all.

    Raises:
        NotFound: there is none.
    """
    version = await session.get(RubricVersion, number, populate_existing=True)
    if version is None:
        raise NotFound(f"there is no rubric version {number}")
    return version


async def propose(
    session: AsyncSession,
    store: RunStore,
    by: Principal,
    table: RunTable,
    sample_id: str,
    rubric: Rubric,
    *,
    replaces: int,
    reason: str,
) -> RubricVersion:
    """Propose a version of a sample's rubric.

    Raises: NotFound: the set has no such sample. BadRequest: it equals the version that it replaces. Conflict: another
        version became current meanwhile.
    """
    standing, before = await rubric_of(session, store, table, sample_id)
    if standing != replaces:
        raise Conflict(f"version {standing} of this rubric stands by now, not {replaces}; look at it and edit that one")
    if rubric == before:
        raise BadRequest("rubric: nothing is changed")
    last = await session.scalar(
        select(func.max(RubricVersion.number)).where(
            RubricVersion.run == table.run, RubricVersion.stage == table.path, RubricVersion.sample_id == sample_id
        )
    )
    version = RubricVersion(
        run=table.run,
        stage=table.path,
        sample_id=sample_id,
        number=(last or FIRST) + 1,
        replaces=replaces,
        rubric=rubric.model_dump(mode="json"),
        reason=reason,
        state="proposed",
        proposed_by=by.name,
    )
    session.add(version)
    try:
        await session.flush()
    except IntegrityError as error:
        raise Conflict("another version was proposed at the same moment; send yours again") from error
    record(session, by, "rubric.propose", _subject(version), version=version.number, reason=reason)
    return version


async def review(
    session: AsyncSession,
    by: Principal,
    number: int,
    decision: str,
    reason: str,
    *,
    self_approval: Sequence[str] = (),
) -> RubricVersion:
    """Approve or reject a version that somebody else proposed.

    Args: decision: `approved` or `rejected`. self_approval: patterns that need no second person, see `self_approval`.
        Raises: NotFound: there is no such version. Problem: the caller proposed it, and no pattern waives the second
        person (403). Conflict: it is decided already, or another version stands by now.
    """
    version = await get_version(session, number)
    is_own = decision == "approved" and version.proposed_by == by.name
    if is_own and not waives_for_rubrics(self_approval, version.run, version.stage):
        raise Problem(
            403,
            "Forbidden",
            "who proposed a rubric does not approve it; ask another approver, or start the service with "
            "RUBRICWORKS_SELF_APPROVAL='rubrics:*' where one person decides alone",
        )
    if decision == "approved":
        others = await versions_of(session, RunTable(run=version.run, path=version.stage), version.sample_id)
        if (standing := standing_version(others)) != version.replaces and version.state == "proposed":
            raise Conflict(f"it was made from version {version.replaces}, and version {standing} stands by now")
    try:
        changed = await session.scalar(
            update(RubricVersion)
            .where(RubricVersion.id == number, RubricVersion.state == "proposed")
            .values(state=decision, reviewed_by=by.name, reviewed_at=utc_now(), review=reason)
            .returning(RubricVersion.id)
        )
    except IntegrityError as error:
        raise Conflict("another version of this rubric is approved by now") from error
    if changed is None:
        raise Conflict(f"rubric version {number} is {version.state} already")
    await session.refresh(version)
    action = "rubric.approve" if decision == "approved" else "rubric.reject"
    details = {"self_approved": True} if is_own else {}
    record(session, by, action, _subject(version), version=version.number, reason=reason, **details)
    return version


def _version(sample_id: str, number: int, written: Rubric, versions: Sequence[RubricVersion]) -> Rubric:
    if number == FIRST:
        return written
    for version in versions:
        if version.number == number:
            return Rubric.model_validate(version.rubric)
    raise NotFound(f"the rubric of sample {sample_id!r} has no version {number}")


def _subject(version: RubricVersion) -> str:
    return f"{version.run}/{version.stage}/{version.sample_id}"[:300]
