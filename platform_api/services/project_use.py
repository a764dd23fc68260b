"""Usage of a project's budget and quotas by person; beyond a bound no run starts.

A run is of the calendar month (UTC) in which it began, with all that it spends. What a run is about to spend is bounded
by its own caps, which its recipe names. The figures are the index's, a few seconds old.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Run, Submission, utc_now
from rubricworks.platform_api.problems import Conflict
from rubricworks.platform_api.project import Project
from rubricworks.platform_api.schemas.project import ProjectUse, SpenderBody
from rubricworks.platform_api.services.submission.awaited_runs import AWAITED

_LOCK = 7_278_364_103
"""Key of the lock under which runs are counted, so that of two submissions at once the second sees the first."""
_UNSEEN_FOR = timedelta(hours=1)
"""Time after which a submitted run that has written nothing counts no more: it failed before its first stage."""
_GIGABYTE = 10**9


async def project_use(session: AsyncSession, project: Project | None) -> ProjectUse:
    """Usage of the project, or of an installation without one."""
    since = _month(utc_now())
    totals = (await session.execute(select(func.coalesce(func.sum(Run.bytes), 0), func.count()))).one()
    spender = func.coalesce(Submission.submitted_by, "")
    spent = func.coalesce(func.sum(Run.dollars), 0.0)
    query = (
        select(spender, func.count(), spent)
        .outerjoin(Submission, Submission.run == Run.name)
        .where(Run.started >= since)
        .group_by(spender)
        .order_by(spent.desc(), spender)
    )
    spenders = [
        SpenderBody(submitted_by=name, runs=runs, dollars=dollars)
        for name, runs, dollars in await session.execute(query)
    ]
    budget = project.budget if project else None
    quotas = project.quotas if project else None
    return ProjectUse(
        project=project.name if project else None,
        month=f"{since:%Y-%m}",
        dollars=sum(spender.dollars for spender in spenders),
        dollars_a_month=budget.dollars_a_month if budget else None,
        spenders=spenders,
        runs_going=await _count_going(session),
        runs_at_once=quotas.runs_at_once if quotas else None,
        runs=totals[1],
        gigabytes=totals[0] / _GIGABYTE,
        most_gigabytes=quotas.gigabytes if quotas else None,
    )


async def check_use(session: AsyncSession, project: Project | None) -> None:
    """Check that one more run may start, which the session has stored as starting.

    Raises:
        Conflict: the budget is spent, or a quota is used up.
    """
    if project is None:
        return
    if session.get_bind().dialect.name == "postgresql":
        await session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    use = await project_use(session, project)
    if use.dollars_a_month is not None and use.dollars >= use.dollars_a_month:
        raise Conflict(
            f"the project {project.name} has spent ${use.dollars:,.2f} of its ${use.dollars_a_month:,.2f} for "
            f"{use.month}; go on next month, or an admin raises budget.dollars_a_month of the project file"
        )
    if use.runs_at_once is not None and use.runs_going > use.runs_at_once:
        raise Conflict(
            f"{use.runs_going - 1} runs of the project {project.name} are going, and {use.runs_at_once} may; wait for "
            "the end of one, or stop one"
        )
    if use.most_gigabytes is not None and use.gigabytes >= use.most_gigabytes:
        raise Conflict(
            f"the runs of the project {project.name} take {use.gigabytes:,.1f} GB of {use.most_gigabytes:,.1f} GB; "
            "remove some with `rubricworks runs prune`, or an admin raises quotas.gigabytes of the project file"
        )


async def _count_going(session: AsyncSession) -> int:
    """Runs that are going, and those submitted that have written nothing yet."""
    query = select(func.count()).select_from(Run).where(Run.state == "going")
    unseen = (
        select(func.count())
        .select_from(Submission)
        .outerjoin(Run, Run.name == Submission.run)
        .where(_is_starting(), or_(Run.name.is_(None), Run.state != "going"))
    )
    return (await session.scalar(query) or 0) + (await session.scalar(unseen) or 0)


def _is_starting() -> ColumnElement[bool]:
    """A submission whose run the index has not seen at work; one that is resumed has a row of before."""
    has_no_file = or_(Run.name.is_(None), Run.state.in_(AWAITED))
    is_new = and_(Submission.state == "going", Submission.submitted_at > utc_now() - _UNSEEN_FOR, has_no_file)
    return or_(Submission.state == "starting", is_new)


def _month(now: datetime) -> datetime:
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
